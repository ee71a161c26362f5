// Package image is where the simulator's image is described: its Dockerfile,
// and what is kept out of its build context. Its test keeps the Dockerfile and the
// server in step.
package image

import (
	_ "embed"
	"strings"
)

// Dockerfile is the image's recipe. The host does by itself what its first stage
// says, so it must know that stage when it sees it.
//
//go:embed Dockerfile
var Dockerfile []byte

// StepsAfter lists the instructions that follow the one that sets a label, up to the
// end of its stage, each on one line. It is empty if no instruction does.
func StepsAfter(label string) (steps []string) {
	found := false
	for line := range strings.Lines(strings.ReplaceAll(string(Dockerfile), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || word[0] == '#':
		case word == "FROM" && found:
			return steps
		case found:
			steps = append(steps, line)
		case word == "LABEL" && strings.HasPrefix(rest, label+"="):
			found = true
		}
	}
	return steps
}
