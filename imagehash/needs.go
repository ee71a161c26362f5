package imagehash

import (
	"bytes"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// Need is something in a Dockerfile that only BuildKit does.
type Need struct {
	Line int
	What string // as it is written: "RUN --mount"
}

// buildKitFlags are the flags of instructions that the classic builder refuses.
var buildKitFlags = map[string][]string{
	"run":  {"--mount", "--network", "--security", "--device"},
	"copy": {"--link", "--parents", "--exclude", "--chmod"},
	"add":  {"--link", "--exclude", "--chmod", "--checksum", "--keep-git-dir", "--unpack"},
}

// platformArgs are the build arguments that BuildKit sets and the classic builder
// leaves empty: what is built with them would silently be something else.
var platformArgs = []string{
	"BUILDPLATFORM", "BUILDOS", "BUILDARCH", "BUILDVARIANT",
	"TARGETPLATFORM", "TARGETOS", "TARGETARCH", "TARGETVARIANT", "TARGETSTAGE",
}

// BuildKitNeeds lists what of the Dockerfile the engine's classic builder cannot
// do, by line.
func (s *Sum) BuildKitNeeds() []Need {
	res, err := parser.Parse(bytes.NewReader(s.in.dockerfile))
	if err != nil {
		return nil // it was parsed before, to find its inputs
	}
	var needs []Need
	for _, n := range res.AST.Children {
		for _, what := range nodeNeeds(n, s.Args) {
			needs = append(needs, Need{Line: n.StartLine, What: what})
		}
	}
	for _, r := range s.Remote {
		if r.Kind == RemoteGit {
			needs = append(needs, Need{Line: r.Line, What: "ADD of a git repository"})
		}
	}
	slices.SortStableFunc(needs, func(a, b Need) int { return a.Line - b.Line })
	return needs
}

func nodeNeeds(n *parser.Node, passed []Arg) (needs []string) {
	name := strings.ToLower(n.Value)
	word := strings.ToUpper(name)
	if len(n.Heredocs) > 0 {
		needs = append(needs, word+" with a here-document")
	}
	for _, flag := range n.Flags {
		flag, value, _ := strings.Cut(flag, "=")
		if slices.Contains(buildKitFlags[name], flag) {
			needs = append(needs, word+" "+flag)
		}
		if name == "from" && flag == "--platform" && mentionsPlatform(value) {
			needs = append(needs, "FROM --platform="+value)
		}
	}
	switch name {
	case "arg":
		for c := n.Next; c != nil; c = c.Next {
			arg, _, defaulted := strings.Cut(c.Value, "=")
			given := slices.ContainsFunc(passed, func(a Arg) bool { return a.Name == arg })
			if slices.Contains(platformArgs, arg) && !defaulted && !given {
				needs = append(needs, "ARG "+arg)
			}
		}
	case "onbuild":
		if n.Next != nil {
			for _, c := range n.Next.Children {
				for _, what := range nodeNeeds(c, passed) {
					needs = append(needs, "ONBUILD "+what)
				}
			}
		}
	}
	return slices.Compact(needs)
}

func mentionsPlatform(s string) bool {
	return slices.ContainsFunc(platformArgs, func(name string) bool {
		return strings.Contains(s, "$"+name) || strings.Contains(s, "${"+name)
	})
}
