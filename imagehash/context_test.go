package imagehash

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// tarred lists what is in the context, and the text of its ignore file.
func tarred(t *testing.T, s *Sum) (names []string, ignore string) {
	t.Helper()
	var buf bytes.Buffer
	if err := s.WriteTar(&buf); err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(&buf); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names, ignore
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeDir {
			names = append(names, h.Name)
		}
		if h.Name == contextIgnoreFile {
			data, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			ignore = string(data)
		}
	}
}

func TestImageGetsADockerfileOnlyIfItIsAnInput(t *testing.T) {
	for name, tt := range map[string]struct{ dockerfile, rules, want, ignore string }{
		"copied":              {"Dockerfile", "", ".dockerignore Dockerfile a", ""},
		"ignored":             {"Dockerfile", "Dockerfile\n.dockerignore\n", ".dockerignore Dockerfile a", ".dockerignore\nDockerfile\n"},
		"ignored alone":       {"Dockerfile", "Dockerfile\n", ".dockerignore Dockerfile a", "Dockerfile\n"},
		"with odd characters": {"![x] *", "![[]x] *\n\\!*\n.dockerignore", "![x] * .dockerignore Dockerfile a", ".dockerignore\n\\!\\[x\\] \\*\n"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := context("FROM scratch\nCOPY . /\n", "a", ".dockerignore="+tt.rules)
			if tt.dockerfile != "Dockerfile" {
				fsys[tt.dockerfile] = fsys["Dockerfile"]
			}
			in, err := Read(fsys, Options{Dockerfile: tt.dockerfile})
			if err != nil {
				t.Fatal(err)
			}
			s, err := in.Sum()
			if err != nil {
				t.Fatal(err)
			}
			names, ignore := tarred(t, s)
			slices.Sort(names)
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("context = %s, want %s", got, tt.want)
			}
			if tt.ignore != "" && ignore != tt.ignore {
				t.Errorf("ignore file = %q, want %q", ignore, tt.ignore)
			}
			if tt.ignore == "" {
				return
			}
			// What a builder then makes of it is what was hashed.
			ig, err := parseIgnore(contextIgnoreFile, []byte(ignore))
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, p := range names {
				if hidden, err := ig.match(p); err != nil {
					t.Fatal(err)
				} else if !hidden {
					left = append(left, p)
				}
			}
			if got, want := strings.Join(left, " "), strings.Join(in.paths, " "); got != want {
				t.Errorf("a builder copies %s, hashed are %s", got, want)
			}
		})
	}
}

func TestIgnoreFileThatWouldHideOtherInputsIsRefused(t *testing.T) {
	fsys := context("", "d/Dockerfile=FROM scratch\nCOPY . /x", "a", "b", ".dockerignore=a\n", "d/Dockerfile.dockerignore=b\n")
	if _, err := Read(fsys, Options{Dockerfile: "d/Dockerfile"}); err == nil || !strings.Contains(err.Error(), `have that one ignore it`) {
		t.Errorf("error = %v, want the ignore file refused", err)
	}
	fsys["d/Dockerfile.dockerignore"].Data = []byte("b\n.dockerignore\n")
	if _, err := Read(fsys, Options{Dockerfile: "d/Dockerfile"}); err != nil {
		t.Error(err)
	}
}
