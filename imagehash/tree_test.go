package imagehash

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// context makes a file system out of "path", "path=content", "path->target" and
// "path!" (executable) entries, with the given Dockerfile.
func contextOf(dockerfile string, entries ...string) fstest.MapFS {
	m := fstest.MapFS{"Dockerfile": {Data: []byte(dockerfile), Mode: 0o644}}
	for _, e := range entries {
		if p, target, ok := strings.Cut(e, "->"); ok {
			m[p] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
			continue
		}
		p, data, ok := strings.Cut(e, "=")
		if !ok {
			data = "content of " + p
		}
		f := &fstest.MapFile{Data: []byte(data), Mode: 0o644}
		if q, ok := strings.CutSuffix(p, "!"); ok {
			p, f.Mode = q, 0o755
		}
		m[p] = f
	}
	return m
}

func TestInputsAreWhatTheBuildersWouldCopy(t *testing.T) {
	small := []string{"a", "b", "dir/a", "dir/b", "dir/sub/a", "dir/sub/.hidden", "other/a"}
	tests := []struct {
		name, dockerfile string
		files            []string
		want             string
	}{
		{"file", "COPY a /x", small, "a"},
		{"directory", "COPY dir /x", small, "dir/a dir/b dir/sub/.hidden dir/sub/a"},
		{"everything", "COPY . /x", small, "Dockerfile a b dir/a dir/b dir/sub/.hidden dir/sub/a other/a"},
		{"rooted and dotted", "COPY /a ./dir/../b dir/./a /x/", small, "a b dir/a"},
		{"parent of the context is the context", "COPY ../../dir/a /x", small, "dir/a"},
		{"star stays in its directory", "COPY */a /x/", small, "dir/a other/a"},
		{"star matches directories", "COPY d* /x/", small, "dir/a dir/b dir/sub/.hidden dir/sub/a"},
		{"double star is a star", "COPY **/a /x/", small, "dir/a other/a"},
		{"question mark and class", "COPY ? dir/[b-z] /x/", small, "a b dir/b"},
		{"brackets in a name", "COPY arr[[]0].txt /x/", []string{"arr[0].txt", "arr0.txt"}, "arr[0].txt"},
		{"bind mount", "RUN --mount=source=dir/sub,target=/x true", small, "dir/sub/.hidden dir/sub/a"},
		{"bind mount of everything", "RUN --mount=target=/x true", small, "Dockerfile a b dir/a dir/b dir/sub/.hidden dir/sub/a other/a"},
		{"bind mount takes no pattern", "RUN --mount=source=[x],target=/x true", []string{"[x]", "x"}, "[x]"},
		{"exclude is relative to the source", "COPY --exclude=sub --exclude=b dir /x", small, "dir/a"},
		{"exclude with an exception", "COPY --exclude=** --exclude=!sub/a dir /x", small, "dir/sub/a"},
		{"exclude does not concern a named file", "COPY --exclude=a a /x", small, "a"},
		{"excluding everything is no missing source", "COPY --exclude=** dir /x\nCOPY a /y", small, "a"},
		{"parents", "COPY --parents dir/*/a /x/", small, "dir/sub/a"},
		{"parents with a double star", "COPY --parents **/a /x/", small, "a dir/a dir/sub/a other/a"},
		{"parents with a pivot", "COPY --parents dir/./sub /x/", small, "dir/sub/.hidden dir/sub/a"},
		{"parents with exclude", "COPY --parents --exclude=dir/sub dir /x/", small, "dir/a dir/b"},
		{"link that is named is followed and kept", "COPY l /x", []string{"l->dir", "dir/a"}, "dir/a l"},
		{"link on the way", "COPY l/sub/a /x", []string{"l->dir", "dir/sub/a", "dir/b"}, "dir/sub/a l"},
		{"link below a directory stays a link", "COPY dir /x", []string{"dir/l->../b", "b"}, "dir/l"},
		{"link that climbs within the context", "COPY a/l /x", []string{"a/l->../dir", "dir/b"}, "a/l dir/b"},
		{"glob beside another source may match nothing", "COPY a *.lock /x/", small, "a"},
		{"link matched by a pattern", "COPY l* /x/", []string{"lnk->a", "a"}, "a lnk"},
		{"dangling link below a directory", "COPY dir /x", []string{"dir/l->gone"}, "dir/l"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, err := Read(t.Context(), contextOf("FROM scratch\n"+tt.dockerfile+"\n", tt.files...), Options{Dockerfile: "Dockerfile"})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(in.paths, " "); got != tt.want {
				t.Errorf("inputs = %s\n  want %s", got, tt.want)
			}
		})
	}
}

func TestIgnoreFilesHideInputsAsInBuildKit(t *testing.T) {
	files := []string{"a.go", "a_test.go", "x/b.go", "x/b_test.go", "x/testdata/t", "x/keep/testdata/t", "v/m/deep/f", "v/m/other", "log", "x/log"}
	tests := []struct{ name, ignore, want string }{
		{"nothing", "", "a.go a_test.go log v/m/deep/f v/m/other x/b.go x/b_test.go x/keep/testdata/t x/log x/testdata/t"},
		{"a name is the root's alone", "log", "a.go a_test.go v/m/deep/f v/m/other x/b.go x/b_test.go x/keep/testdata/t x/log x/testdata/t"},
		{"double star is any depth", "**/*_test.go\n**/testdata\n**/log", "a.go v/m/deep/f v/m/other x/b.go"},
		{"comment, blank lines, slashes", "# c\n\n/v/\n  x/testdata  \n", "a.go a_test.go log x/b.go x/b_test.go x/keep/testdata/t x/log"},
		{"allow list", "*\n!x\nx/testdata", "x/b.go x/b_test.go x/keep/testdata/t x/log"},
		{"exception deep in an ignored directory", "v\n!v/m/deep/f", "a.go a_test.go log v/m/deep/f x/b.go x/b_test.go x/keep/testdata/t x/log x/testdata/t"},
		{"exception by pattern in an ignored directory", "**\n!**/deep/*", "v/m/deep/f"},
		{"the last match decides", "!log\nlog", "a.go a_test.go v/m/deep/f v/m/other x/b.go x/b_test.go x/keep/testdata/t x/log x/testdata/t"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := contextOf("FROM scratch\nCOPY . /x\n", append(files, ".dockerignore="+tt.ignore+"\nDockerfile\n.dockerignore")...)
			in, err := Read(t.Context(), fsys, Options{Dockerfile: "Dockerfile"})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(in.paths, " "); got != tt.want {
				t.Errorf("inputs = %s\n  want %s", got, tt.want)
			}
		})
	}
}

func TestIgnoreFileNamedAfterTheDockerfileWins(t *testing.T) {
	fsys := contextOf("", "d/Dockerfile=FROM scratch\nCOPY src /x", "src/a", "src/b", ".dockerignore=src/a", "d/Dockerfile.dockerignore=src/b")
	in, err := Read(t.Context(), fsys, Options{Dockerfile: "d/Dockerfile"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"src/a"}; !slices.Equal(in.paths, want) {
		t.Errorf("inputs = %q, want %q", in.paths, want)
	}
}

// Skipping a directory must never be more than saving time.
func TestPruningNeverHidesAFileThatIsNotIgnored(t *testing.T) {
	paths := []string{"a", "a/b", "a/b/c", "a/d", "ab", "ab/c", "x/a", "x/a/b", "[q]/a"}
	patterns := []string{"a", "!a", "a/b", "!a/b", "!a/b/c", "**", "!**/c", "*", "!x", "ab", "!ab/c", "a*", "!a/*", "x/**/b", "!x/a/b", "!."}
	for _, p := range patterns {
		for _, q := range patterns {
			for _, r := range []string{"", "!a/b/c"} {
				text := p + "\n" + q + "\n" + r
				ig, err := readIgnore(fstest.MapFS{".dockerignore": {Data: []byte(text)}}, "Dockerfile")
				if err != nil {
					t.Fatal(err)
				}
				for _, dir := range paths {
					pruned, err := ig.prunes(dir)
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range paths {
						if !pruned || !strings.HasPrefix(f, dir+"/") {
							continue
						}
						if ignored, _ := ig.match(f); !ignored {
							t.Errorf("patterns %q: %q is pruned, but %q is not ignored", text, dir, f)
						}
					}
				}
			}
		}
	}
}

func TestSourceThatMatchesNothingIsAnErrorNamingItsLine(t *testing.T) {
	tests := []struct{ name, instruction, want string }{
		{"file", "COPY gone /x", `d/Dockerfile:3: source "gone" matches no file in the build context; create it or change the instruction`},
		{"one of several", "COPY a gone /x/", `d/Dockerfile:3: source "gone" matches no file in the build context; create it or change the instruction`},
		{"glob", "COPY *.zip /x/", `d/Dockerfile:3: source "*.zip" matches no file in the build context; create it or change the instruction`},
		{"below a file", "COPY a/b /x", `d/Dockerfile:3: source "a/b" matches no file in the build context; create it or change the instruction`},
		{"dangling link", "COPY dangling /x", `d/Dockerfile:3: source "dangling" matches no file in the build context; create it or change the instruction`},
		{"mount", "RUN --mount=source=gone,target=/x true", `d/Dockerfile:3: source "/gone" matches no file in the build context; create it or change the instruction`},
		{"parents", "COPY --parents gone/*/x /x/", `d/Dockerfile:3: source "gone/*/x" matches no file in the build context; create it or change the instruction`},
		{"ignored", "COPY hidden /x", `d/Dockerfile:3: source "hidden" matches only files that .dockerignore keeps out; change the ignore file or the instruction`},
		{"link to what is ignored", "COPY tohidden /x", `d/Dockerfile:3: source "tohidden" matches only files that .dockerignore keeps out; change the ignore file or the instruction`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := contextOf("", "d/Dockerfile=FROM scratch\nCOPY a /y\n"+tt.instruction+"\n",
				"a", "hidden/f", "dangling->nowhere", "tohidden->hidden", ".dockerignore=hidden")
			_, err := Read(t.Context(), fsys, Options{Dockerfile: "d/Dockerfile"})
			var missing *MissingInputError
			if !errors.As(err, &missing) {
				t.Fatalf("error = %v (%T), want a *MissingInputError", err, err)
			}
			if missing.Line != 3 || err.Error() != tt.want {
				t.Errorf("error = %s\n want %s", err, tt.want)
			}
		})
	}
}

func TestNamesThatCannotBeHashedAreRefused(t *testing.T) {
	tests := []struct {
		name  string
		entry string
		mode  fs.FileMode
	}{
		{"newline in a name", "dir/a\nb", 0o644},
		{"device", "dir/dev", fs.ModeDevice | 0o644},
		{"fifo", "dir/fifo", fs.ModeNamedPipe | 0o644},
		{"newline in a target", "dir/l", fs.ModeSymlink | 0o777},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := contextOf("FROM scratch\nCOPY dir /x\n", "dir/ok")
			fsys[tt.entry] = &fstest.MapFile{Data: []byte("to\nthere"), Mode: tt.mode}
			in, err := Read(t.Context(), fsys, Options{Dockerfile: "Dockerfile"})
			if err == nil {
				_, err = in.Sum(t.Context())
			}
			var ne *NameError
			if !errors.As(err, &ne) || ne.Path != tt.entry {
				t.Errorf("error = %v (%T), want a *NameError for %q", err, err, tt.entry)
			}
		})
	}
}

func TestLinksThatLeaveTheContextAreRefused(t *testing.T) {
	for _, target := range []string{"/dir/a", "../dir/a", "dir/../../dir/a", ".."} {
		_, err := Read(t.Context(), contextOf("FROM scratch\nCOPY l /x\n", "l->"+target, "dir/a"), Options{Dockerfile: "Dockerfile"})
		var ne *NameError
		if !errors.As(err, &ne) || ne.Path != "l" || !strings.Contains(err.Error(), target) {
			t.Errorf("to %s: error = %v, want a *NameError that names both", target, err)
		}
	}
}

func TestLinksThatRunInCirclesAreRefused(t *testing.T) {
	_, err := Read(t.Context(), contextOf("FROM scratch\nCOPY a /x\n", "a->b", "b->a"), Options{Dockerfile: "Dockerfile"})
	var ne *NameError
	if !errors.As(err, &ne) {
		t.Errorf("error = %v, want a *NameError", err)
	}
}

func TestDockerfileOutsideTheContextIsRefused(t *testing.T) {
	for _, p := range []string{"../Dockerfile", "/etc/Dockerfile", "gone/Dockerfile"} {
		if _, err := Read(t.Context(), contextOf("FROM scratch\n"), Options{Dockerfile: p}); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("Read(%q) = %v, want an error naming it", p, err)
		}
	}
}

func TestDockerfileBehindALinkIsRefused(t *testing.T) {
	fsys := contextOf("", "real/Dockerfile=FROM scratch\n", "l->real", "real/d->Dockerfile")
	for _, p := range []string{"l/Dockerfile", "real/d"} {
		if _, err := Read(t.Context(), fsys, Options{Dockerfile: p}); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
			t.Errorf("Read(%q) = %v, want it refused as a link", p, err)
		}
	}
}

func TestEveryInputIsListedOnce(t *testing.T) {
	in, err := Read(t.Context(), contextOf("FROM scratch\nCOPY . /x\nCOPY a /y\nCOPY a /z\n", "a"), Options{Dockerfile: "Dockerfile"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, one := range s.All() {
		seen[one.Path]++
	}
	if want := map[string]int{"Dockerfile": 1, "a": 1}; !maps.Equal(seen, want) {
		t.Errorf("listed %v, want %v", seen, want)
	}
}
