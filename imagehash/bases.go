package imagehash

import (
	"fmt"
	"slices"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// Base is an image that a stage is built FROM. The Dockerfile does not say what
// that image adds to the stage: instructions of its own (ONBUILD) and variables.
// The engine can.
type Base struct {
	Line  int            // of the FROM that names it first
	Image string         // as the engine knows it; as written where the name is not settled
	Known bool           // the name is settled
	Args  map[string]int // build arguments given a value on top of it, with their line
}

// foundation is the base of a stage that is built from no other; one for each name.
func (s *scanner) foundation(n *node, needed bool) *Base {
	b := &Base{Line: n.Location[0].Start.Line, Image: n.image, Known: n.image != "", Args: map[string]int{}}
	if !b.Known {
		b.Image = n.BaseName
	}
	if i := slices.IndexFunc(s.bases, func(o *Base) bool { return o.Image == b.Image && o.Known == b.Known }); i >= 0 {
		return s.bases[i]
	}
	if needed {
		s.bases = append(s.bases, b)
	}
	return b
}

// BasesOn lists the bases of a build for an engine of that platform, which settles
// names that depend on it.
func (s *Sum) BasesOn(platform string) ([]*Base, error) {
	if s.Platform != "" {
		platform = s.Platform
	}
	args := map[string]string{}
	for _, a := range s.Args {
		args[a.Name] = a.Value
	}
	sc, err := scan(Options{Dockerfile: s.Dockerfile.Path, Args: args, Target: s.Target, Platform: platform}, s.in.dockerfile)
	if err != nil {
		return nil, err
	}
	return sc.bases, nil
}

// Refuse tells which of a base image's triggers make a build read what is not
// hashed: files of the context, or a stage that the target leaves out.
func (s *Sum) Refuse(b *Base, triggers []string) error {
	if !b.Known {
		return &SyntaxError{Dockerfile: s.Dockerfile.Path, Line: b.Line, Message: fmt.Sprintf(
			"which image %s is cannot be told, so neither can what it adds to this stage (ONBUILD); give it a value with ARG or a build argument", b.Image)}
	}
	for _, text := range triggers {
		commands, err := trigger(text, b.Line)
		if err != nil {
			return s.refused(b, text, err.Error())
		}
		for _, cmd := range commands {
			for _, from := range sourcesOf(cmd) {
				if from != "" && s.Target != "" {
					return s.refused(b, text, "and may need a stage that the target does not")
				}
			}
			if readsContext(cmd) {
				return s.refused(b, text, "and what that reads of the build context is not hashed")
			}
		}
	}
	return nil
}

func (s *Sum) refused(b *Base, text, why string) error {
	return &SyntaxError{Dockerfile: s.Dockerfile.Path, Line: b.Line, Message: fmt.Sprintf(
		"base image %q adds ONBUILD %s to this stage, %s; write the instruction here, and build FROM an image without it", b.Image, text, why)}
}

func readsContext(cmd instructions.Command) bool {
	switch c := cmd.(type) {
	case *instructions.CopyCommand:
		return c.From == "" && len(c.SourcePaths) > 0
	case *instructions.AddCommand:
		return slices.ContainsFunc(c.SourcePaths, func(p string) bool { _, ok := fetched(p); return !ok })
	case *instructions.RunCommand:
		// Until it is expanded a mount does not say of what type it is.
		if err := c.Expand(func(w string) (string, error) { return w, nil }); err != nil {
			return true
		}
		return slices.ContainsFunc(instructions.GetMounts(c), func(m *instructions.Mount) bool {
			return m.Type == instructions.MountTypeBind && m.From == ""
		})
	}
	return false
}
