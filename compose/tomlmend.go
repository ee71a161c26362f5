package compose

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// A ctis.toml that is no TOML hides nothing that the Compose files are to be told:
// what is understood of it without the statements that are wrong says which they are.

var (
	beginsTOML   = regexp.MustCompile(`^[ \t]*(?:\[|[\w."'-]+[ \t]*=)`)
	composeFiles = regexp.MustCompile(`(?m)^[ \t]*compose_files\b`)
)

// mendTOML finds every statement of a document that is no TOML. It returns the
// document with blanks in their place, so that all else stands where it stood,
// and what it then says. wrong are the errors in their order. doc is nil where
// nothing can be made of it.
func mendTOML(src string) (mended string, doc map[string]any, wrong []*tomlError) {
	end := -1 // of what was taken out last
	for range maxMends {
		doc, err := decodeTOML(src)
		if err == nil {
			return src, doc, wrong
		}
		var syntax *tomlError
		if !errors.As(err, &syntax) {
			return src, nil, wrong
		}
		if at := syntax.offset; at >= end { // not what only follows from what is gone
			wrong = append(wrong, syntax)
		}
		var start int
		if start, end = statementAt(src, syntax.offset); start == end {
			return src, nil, wrong
		}
		blank := strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, strings.ToValidUTF8(src[start:end], "?"))
		if blank == src[start:end] { // nothing is left to take out
			return src, nil, wrong
		}
		src = src[:start] + blank + strings.Repeat(" ", max(0, end-start-len(blank))) + src[end:]
	}
	return src, nil, wrong
}

// statementAt is from where to where the statement goes that has an offset: to the
// next one that begins a line. With a header goes what is below it.
func statementAt(src string, offset int) (start, end int) {
	offset = min(max(offset, 0), len(src))
	header := false
	end = len(src)
	at := 0
	for line := range strings.Lines(src) {
		begins := beginsTOML.MatchString(line)
		isHeader := strings.HasPrefix(strings.TrimLeft(line, " \t"), "[")
		switch {
		case at <= offset && begins:
			start, header = at, isHeader
		case at > offset && begins && (!header || isHeader):
			return start, at
		}
		at += len(line)
	}
	return start, end
}

// besidesTOML checks the Compose files of an environment whose ctis.toml is no
// TOML, and adds to its problems the other statements that are none.
func besidesTOML(ctx context.Context, o Options, dir, file string, content []byte, ps Problems) Problems {
	src := strings.TrimPrefix(string(content), "\ufeff")
	if _, refused := deepTOML(src); refused != nil {
		return ps // a decoder is not to see it
	}
	mended, doc, wrong := mendTOML(src)
	if len(wrong) == 0 { // refused for something else
		return ps
	}
	for _, e := range wrong[1:] {
		ps.errorf(placeIn(file, src, e.offset), "%s", e)
	}
	ps[0].hint("what else %s says is checked once it is TOML", ConfigFile)
	if doc == nil || composeFiles.MatchString(src) && !composeFiles.MatchString(mended) {
		return ps // nobody knows which files they are
	}
	var aside Problems // about what cannot be known, or comes again
	r := configReader{index: indexTOML(file, mended), problems: &aside}
	config := &Config{index: r.index, ComposeFiles: r.texts(doc, "compose_files")}
	config.Network, _ = doc["network"].(string)
	config.DefaultService, _ = doc["default_service"].(string)
	_, found := surveyOf(ctx, o, dir, file, config)
	// Only errors: what is warned of depends on what ctis.toml says.
	found = slices.DeleteFunc(found, func(p Problem) bool { return p.Severity != SeverityError })
	return append(ps, found...)
}
