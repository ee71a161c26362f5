package imagehash

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// FinalStage rewrites a Dockerfile whose last stage puts the tree another stage
// left under /out onto an empty image, so that it takes that tree from the build
// context's out/ instead. Whoever can make the tree without the other stages then
// needs no image from a registry. Everything else of the last stage stays as it
// is, so the image's configuration is the same either way.
//
// ok is false if the Dockerfile is not of that form, or a target or platform is
// given.
func (s *Sum) FinalStage() (text []byte, ok bool) {
	if s.Target != "" || s.Platform != "" {
		return nil, false // what is asked for is not the last stage for the engine's platform
	}
	text, err := finalStage(s.in.dockerfile)
	return text, err == nil
}

// outTree is the tree the build stage leaves.
const outTree = "/out/"

func finalStage(data []byte) ([]byte, error) {
	res, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	nodes := res.AST.Children
	last := -1
	for i, n := range nodes {
		if strings.EqualFold(n.Value, "from") {
			last = i
		}
	}
	if last < 0 {
		return nil, fmt.Errorf("no FROM")
	}
	var out bytes.Buffer
	if res.EscapeToken != parser.DefaultEscapeToken {
		fmt.Fprintf(&out, "# escape=%c\n", res.EscapeToken)
	}
	copies := 0
	for i, n := range nodes[last:] {
		cmd, err := instructions.ParseInstruction(n)
		if err != nil {
			return nil, err
		}
		switch c := cmd.(type) {
		case *instructions.Stage:
			if i != 0 || c.BaseName != "scratch" || c.Platform != "" {
				return nil, fmt.Errorf("final stage is not FROM scratch")
			}
			out.WriteString("FROM scratch\n")
			continue
		case *instructions.CopyCommand:
			line, err := outCopy(c)
			if err != nil {
				return nil, err
			}
			copies++
			out.WriteString(line + "\n")
			continue
		case *instructions.AddCommand, *instructions.RunCommand, *instructions.ArgCommand, *instructions.OnbuildCommand:
			return nil, fmt.Errorf("final stage has %s", strings.ToUpper(n.Value))
		}
		if len(n.Heredocs) > 0 {
			return nil, fmt.Errorf("final stage has a here-document")
		}
		out.WriteString(n.Original + "\n")
	}
	if copies == 0 {
		return nil, fmt.Errorf("final stage copies nothing")
	}
	return out.Bytes(), nil
}

// outCopy writes a COPY --from=STAGE /out/… DEST as one of out/….
func outCopy(c *instructions.CopyCommand) (string, error) {
	if c.From == "" || len(c.SourceContents) > 0 || len(c.ExcludePatterns) > 0 || c.Parents || c.Link {
		return "", fmt.Errorf("COPY is not a plain one from another stage")
	}
	var b strings.Builder
	b.WriteString("COPY")
	if c.Chown != "" {
		b.WriteString(" --chown=" + c.Chown)
	}
	if c.Chmod != "" {
		return "", fmt.Errorf("COPY --chmod is not known to every builder")
	}
	for _, src := range append(c.SourcePaths, c.DestPath) {
		if strings.ContainsAny(src, " \t\"'$*?[\\") {
			return "", fmt.Errorf("COPY of %q needs expanding", src)
		}
	}
	for _, src := range c.SourcePaths {
		dir := strings.HasSuffix(src, "/")
		src = path.Clean(src)
		if src+"/" != outTree && !strings.HasPrefix(src, outTree) {
			return "", fmt.Errorf("COPY of %q is not from %s", src, outTree)
		}
		b.WriteString(" " + strings.TrimPrefix(src, "/"))
		if dir {
			b.WriteString("/")
		}
	}
	b.WriteString(" " + c.DestPath)
	return b.String(), nil
}
