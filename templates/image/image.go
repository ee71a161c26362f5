// Package image is where the simulator's image is described: its Dockerfile,
// and what is kept out of its build context. The package has no code; its test
// keeps the Dockerfile and the server in step.
package image
