// Package image is where the simulator's image is described: its Dockerfile,
// and what is kept out of its build context. Its test keeps the Dockerfile and the
// server in step.
package image

import _ "embed"

// Dockerfile is the image's recipe. The host does by itself what its first stage
// says, so it must know that stage when it sees it.
//
//go:embed Dockerfile
var Dockerfile []byte
