// Package imagehash names an image after the source it is built from. It finds
// everything a Dockerfile reads from its build context, hashes that in one
// canonical form, and hands the very bytes it hashed to whoever builds. It works
// on an [fs.FS] and knows nothing of Docker engines.
//
// The rules of the hash (SPEC §5):
//
//   - What enters it: the Dockerfile's bytes; the passed build arguments the
//     Dockerfile declares; target and platform where they are given; every file
//     and symbolic link it reads, by path, kind, executable bit, and content
//     digest or link target. Nothing else: no time, owner, umask, other mode bit,
//     absolute path or order of a directory. Ignore files count by what they hide.
//   - Directories are inputs only through what is in them, as in git. The build
//     gets a context made of the inputs alone, so an empty directory cannot
//     reach the image unhashed.
//   - What cannot be understood is refused with its line; nothing is dropped.
//
// For a Dockerfile that copies server/ and templates/pages/, takes no build
// argument and has an ignore file for tests and test data, the hash is
//
//	{ printf 'ctis image inputs 1\n'
//	  printf 'dockerfile\0%s\n' "$(sha256sum <templates/image/Dockerfile | cut -c1-64)"
//	  find server templates/pages ! -type d ! -name '*_test.go' ! -path '*/testdata/*' |
//	  LC_ALL=C sort | while IFS= read -r f; do
//	    if [ -L "$f" ]; then printf '%s\0link\0-\0%s\n' "$f" "$(readlink "$f")"; continue; fi
//	    x=-; [ -x "$f" ] && x=x
//	    printf '%s\0file\0%s\0%s\n' "$f" "$x" "$(sha256sum <"$f" | cut -c1-64)"
//	  done
//	} | sha256sum | cut -c1-16
//
// and a passed build argument that the Dockerfile declares adds, after the
// Dockerfile's line and sorted by name, "arg\0NAME\0" and the SHA-256 of its value.
// After those come "target\0STAGE" and "platform\0OS/ARCH" where they are given.
package imagehash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
)

// format is the canonical form's first line. Any change to what enters the hash,
// or how, changes it, so that old and new tags cannot meet.
const format = "ctis image inputs 1\n"

// HashLen is the number of hex digits of a hash in a tag.
const HashLen = 16

// Kind says what an input is.
type Kind string

// The kinds of inputs.
const (
	KindFile Kind = "file"
	KindLink Kind = "link" // symbolic link; its target is hashed, not followed
)

// Input is one path the build reads.
type Input struct {
	Path   string // slash-separated, relative to the build context
	Kind   Kind
	Exec   bool   // the owner may execute it; always false for links
	Size   int64  // bytes; 0 for links
	Digest string // SHA-256 of the content, 64 hex digits; of the target for links
	Target string // of a link, as stored

	// CRLF marks a script whose first line, with the interpreter's name, ends in
	// a carriage return: no kernel finds that interpreter. The bytes are hashed
	// and built as they are all the same.
	CRLF bool
}

// Sum is what an image's source amounts to: the hash, and all that went into it.
type Sum struct {
	Hash       string   // the first HashLen hex digits of Full
	Full       string   // SHA-256 of the canonical form, 64 hex digits
	Dockerfile Input    // named by its path in the context; executable only if it is copied so
	Inputs     []Input  // sorted bytewise by path; contains the Dockerfile only if it is copied
	Args       []Arg    // build arguments to pass
	Proxy      []Arg    // more of them, which the hash does not cover
	Target     string   // stage to build; "" is the last
	Platform   string   // to build for; "" is the engine's
	Remote     []Remote // what else the build reads; not covered by the hash

	Bases []*Base // images it builds on, once each, by line

	in *Inputs
}

// All lists the Dockerfile and then every other input.
func (s *Sum) All() []Input {
	all := make([]Input, 0, len(s.Inputs)+1)
	all = append(all, s.Dockerfile)
	for _, in := range s.Inputs {
		if in.Path != s.Dockerfile.Path {
			all = append(all, in)
		}
	}
	return all
}

// Warnings says what of the source will not work as it stands, or not as one may
// think, although it can be hashed and built.
func (s *Sum) Warnings() []string {
	all := slices.Clone(s.in.notes)
	for _, in := range s.All() {
		if in.CRLF {
			all = append(all, fmt.Sprintf("script %q has Windows line ends, so its interpreter will not be found; check it out with LF (.gitattributes: * text=auto eol=lf)", in.Path))
		}
	}
	for _, r := range s.Remote {
		if r.Kind != RemoteImage && !r.Pinned {
			all = append(all, fmt.Sprintf("%s:%d: ADD fetches %q, whose content is no part of the hash; pin it (--checksum, or a full commit)", s.Dockerfile.Path, r.Line, r.Source))
		}
	}
	return all
}

// Sum reads and hashes every input. It stops, within a file too, when ctx ends.
func (in *Inputs) Sum(ctx context.Context) (*Sum, error) {
	s := &Sum{in: in, Args: in.Args, Proxy: in.Proxy, Target: in.Target, Platform: in.Platform, Remote: in.Remote, Bases: in.Bases}
	df := sha256.Sum256(in.dockerfile)
	s.Dockerfile = Input{
		Path: in.Dockerfile, Kind: KindFile,
		Size: int64(len(in.dockerfile)), Digest: hex.EncodeToString(df[:]),
	}
	var err error
	if s.Inputs, err = digests(ctx, in.fsys, in.paths, in.links); err != nil {
		return nil, err
	}
	for _, one := range s.Inputs {
		if one.Path == in.Dockerfile && one.Digest != s.Dockerfile.Digest {
			return nil, &ChangedInputError{Path: one.Path}
		}
		if one.Path == in.Dockerfile {
			s.Dockerfile.Exec = one.Exec
		}
	}

	h := sha256.New()
	io.WriteString(h, format)
	fmt.Fprintf(h, "dockerfile\x00%s\n", s.Dockerfile.Digest)
	for _, a := range in.Args {
		v := sha256.Sum256([]byte(a.Value))
		fmt.Fprintf(h, "arg\x00%s\x00%x\n", a.Name, v)
	}
	// These lines have fewer fields than an input's, so none is taken for another.
	if in.Target != "" {
		fmt.Fprintf(h, "target\x00%s\n", strings.ToLower(in.Target))
	}
	if in.Platform != "" {
		fmt.Fprintf(h, "platform\x00%s\n", in.Platform)
	}
	for _, one := range s.Inputs {
		one.record(h)
	}
	s.Full = hex.EncodeToString(h.Sum(nil))
	s.Hash = s.Full[:HashLen]
	return s, nil
}

// record writes the input's line of the canonical form. A newline cannot occur in
// a path or target (checkName), so lines cannot be confused with one another.
func (i Input) record(h hash.Hash) {
	exec, what := "-", i.Digest
	if i.Exec {
		exec = "x"
	}
	if i.Kind == KindLink {
		what = i.Target
	}
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\n", i.Path, i.Kind, exec, what)
}
