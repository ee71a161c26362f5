package imagehash

import (
	"bytes"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// BuildsLike tells whether all stages but the last do what those of another
// Dockerfile do, word for word. Which images they are based on does not count.
func (s *Sum) BuildsLike(dockerfile []byte) bool {
	mine, err := buildStages(s.in.dockerfile)
	if err != nil {
		return false
	}
	theirs, err := buildStages(dockerfile)
	return err == nil && slices.Equal(mine, theirs)
}

// buildStages lists the instructions of all stages but the last, with FROM standing
// for one of any base.
func buildStages(dockerfile []byte) ([]string, error) {
	res, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return nil, err
	}
	var words, ended []string
	inStage := false
	for _, n := range res.AST.Children {
		switch {
		case strings.EqualFold(n.Value, "from"):
			inStage, ended = true, slices.Clone(words)
			words = append(words, "FROM")
			continue
		case !inStage: // an ARG for the bases
			continue
		}
		words = append(words, strings.Join(strings.Fields(n.Original), " "))
		for _, h := range n.Heredocs {
			words = append(words, h.Content)
		}
	}
	return ended, nil
}
