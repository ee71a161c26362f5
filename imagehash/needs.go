package imagehash

import (
	"bytes"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// Need is something in a Dockerfile that only BuildKit does.
type Need struct {
	Line int    // from 1; 0 if it is not the Dockerfile that says so
	What string // as it is written: "RUN --mount"
}

// buildKitFlags are the flags of instructions that the classic builder refuses.
var buildKitFlags = map[string][]string{
	"run":  {"--mount", "--network", "--security", "--device"},
	"copy": {"--link", "--parents", "--exclude", "--chmod"},
	"add":  {"--link", "--exclude", "--chmod", "--checksum", "--keep-git-dir", "--unpack"},
}

// understood are those of them that even an old classic builder can read, so that
// they only matter where it executes them.
var understood = []string{"--mount", "--network", "--security", "--chmod"}

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
	needs := slices.Clone(s.in.needs)
	staged := false
	for _, n := range res.AST.Children {
		if staged = staged || strings.EqualFold(n.Value, "from"); !staged {
			needs = append(needs, globalNeeds(n)...)
		}
		past := s.in.ends > 0 && n.StartLine > s.in.ends
		for _, what := range nodeNeeds(n, s.Args, past) {
			needs = append(needs, Need{Line: n.StartLine, What: what})
		}
	}
	for _, r := range s.Remote {
		if r.Kind == RemoteGit {
			needs = append(needs, Need{Line: r.Line, What: "ADD of a git repository"})
		}
	}
	slices.SortStableFunc(needs, func(a, b Need) int { return a.Line - b.Line })
	return slices.Compact(needs)
}

// globalNeeds is for what stands before the first stage, where BuildKit's variables
// need no ARG.
func globalNeeds(n *parser.Node) (needs []Need) {
	for c := n.Next; c != nil; c = c.Next {
		if name, value, _ := strings.Cut(c.Value, "="); mentionsPlatform(value) {
			needs = append(needs, Need{n.StartLine, "ARG " + name + "=" + value})
		}
	}
	return needs
}

// nodeNeeds is for one instruction. One past the target's stage is only read, not
// executed, and what counts is whether that builder can.
func nodeNeeds(n *parser.Node, passed []Arg, past bool) (needs []string) {
	name := strings.ToLower(n.Value)
	word := strings.ToUpper(name)
	if len(n.Heredocs) > 0 {
		needs = append(needs, word+" with a here-document")
	}
	for _, flag := range n.Flags {
		flag, value, _ := strings.Cut(flag, "=")
		if slices.Contains(buildKitFlags[name], flag) && !(past && slices.Contains(understood, flag)) {
			needs = append(needs, word+" "+flag)
		}
		if name == "from" && flag == "--platform" && mentionsPlatform(value) && !past {
			needs = append(needs, "FROM --platform="+value)
		}
	}
	switch {
	case past:
		return slices.Compact(needs)
	case name == "from":
		if n.Next != nil && mentionsPlatform(n.Next.Value) {
			needs = append(needs, "FROM "+n.Next.Value)
		}
	case name == "arg":
		for c := n.Next; c != nil; c = c.Next {
			arg, _, defaulted := strings.Cut(c.Value, "=")
			given := slices.ContainsFunc(passed, func(a Arg) bool { return a.Name == arg })
			if slices.Contains(platformArgs, arg) && !defaulted && !given {
				needs = append(needs, "ARG "+arg)
			}
		}
	case name == "onbuild":
		if n.Next != nil {
			for _, c := range n.Next.Children {
				for _, what := range nodeNeeds(c, passed, past) {
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
