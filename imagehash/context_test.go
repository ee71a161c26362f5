package imagehash

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
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
			fsys := contextOf("FROM scratch\nCOPY . /\n", "a", ".dockerignore="+tt.rules)
			if tt.dockerfile != "Dockerfile" {
				fsys[tt.dockerfile] = fsys["Dockerfile"]
			}
			in, err := Read(t.Context(), fsys, Options{Dockerfile: tt.dockerfile})
			if err != nil {
				t.Fatal(err)
			}
			s, err := in.Sum(t.Context())
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

func TestCopiedIgnoreFileThatWouldHideOtherInputsIsOutruled(t *testing.T) {
	for name, tt := range map[string]struct{ copies, named, want, generated string }{
		"both copied":          {".", "b\n", ".dockerignore Dockerfile a d/Dockerfile d/Dockerfile.dockerignore", ""},
		"its own rules hidden": {".", "b\nd\n", ".dockerignore Dockerfile a d/Dockerfile d/Dockerfile.dockerignore", "d/Dockerfile.dockerignore\nd/Dockerfile\n"},
		"it says the same":     {".", "b\nd\n.dockerignore\n", ".dockerignore Dockerfile a d/Dockerfile", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := contextOf("", "d/Dockerfile=FROM scratch\nCOPY "+tt.copies+" /x", "a", "b", ".dockerignore=a\n", "d/Dockerfile.dockerignore="+tt.named)
			in, err := Read(t.Context(), fsys, Options{Dockerfile: "d/Dockerfile"})
			if err != nil {
				t.Fatal(err)
			}
			s, err := in.Sum(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			names, _ := tarred(t, s)
			slices.Sort(names)
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("context = %s, want %s", got, tt.want)
			}
			if tt.generated != "" && (in.ignoreFile == nil || in.ignoreFile.path != "d/Dockerfile.dockerignore" || string(in.ignoreFile.data) != tt.generated) {
				t.Errorf("ignore file = %+v", in.ignoreFile)
			}
			if outruled, needs := !strings.Contains(tt.named, contextIgnoreFile), s.BuildKitNeeds(); outruled != (len(needs) == 1) {
				t.Errorf("needs = %+v", needs)
			}
		})
	}
}

func TestDirectoriesOfWhichNothingIsCopiedAreThereForTheBuilder(t *testing.T) {
	for text, want := range map[string]string{
		"COPY empty /x/":                          "empty/",
		"COPY empty a /x/":                        "empty/",
		"COPY l/inner /x/":                        "full/ full/inner/",
		"COPY e* /x/":                             "empty/",
		"COPY a e* /x/":                           "",
		"COPY full /x/":                           "full/",
		"COPY hidden /x/":                         "hidden/",
		"COPY --exclude=* full /x/":               "full/",
		"RUN --mount=source=empty,target=/x true": "empty/",
	} {
		fsys := contextOf("FROM scratch\n"+text+"\n", "a", "full/f", "l->full", "hidden/f", ".dockerignore=hidden/*")
		fsys["empty"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		fsys["full/inner"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		s := sum(t, fsys, nil)
		var buf bytes.Buffer
		if err := s.WriteTar(&buf); err != nil {
			t.Fatal(err)
		}
		var dirs []string
		for tr := tar.NewReader(&buf); ; {
			h, err := tr.Next()
			if err != nil {
				break
			}
			if h.Typeflag == tar.TypeDir {
				dirs = append(dirs, h.Name)
			}
		}
		if got := strings.Join(dirs, " "); got != want {
			t.Errorf("%s: directories = %q, want %q", text, got, want)
		}
	}
}

func TestSourcesThatComeToNothingAreTakenWhereBuildersTakeThem(t *testing.T) {
	for text, want := range map[string]string{
		"COPY a hid* /x/":  `Dockerfile:2: "hid*" matches only what .dockerignore keeps out; the hash changes when a file does`,
		"COPY d* a /x/":    `Dockerfile:2: "d*" matches only links that lead to nothing; the hash changes when a file does`,
		"COPY a emp* /x/":  `Dockerfile:2: "emp*" matches only empty directories; the hash changes when a file does`,
		"COPY a *.no /x/":  `Dockerfile:2: "*.no" matches nothing; the hash changes when a file does`,
		"COPY emp* /x/":    "",
		"COPY hid* d* /x/": "!",
		"COPY hid* /x/":    "!",
	} {
		fsys := contextOf("FROM scratch\n"+text+"\n", "a", "hid", "d->nowhere", ".dockerignore=hid")
		fsys["empty"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		in, err := Read(t.Context(), fsys, Options{Dockerfile: "Dockerfile"})
		if want == "!" {
			if err == nil {
				t.Errorf("%s is taken", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := strings.Join(in.notes, "\n"); got != want {
			t.Errorf("%s: notes %q, want %q", text, got, want)
		}
	}
	fsys := contextOf("FROM scratch\nCOPY . /x\n", "a", ".dockerignore=*")
	if s := sum(t, fsys, nil); len(s.Inputs) != 0 {
		t.Errorf("inputs = %+v", s.Inputs)
	}
}

func TestPipesAreNotReadAsDockerfileOrIgnoreFile(t *testing.T) {
	for _, name := range []string{"Dockerfile", ".dockerignore", "Dockerfile.dockerignore"} {
		dir := t.TempDir()
		write(t, dir, contextOf("FROM scratch\nCOPY a /x\n", "a"))
		_ = os.Remove(filepath.Join(dir, name))
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(t.Context(), os.DirFS(dir), Options{Dockerfile: "Dockerfile"}); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}

func TestDockerfileOrIgnoreFileThatIsSomethingElseIsNotRead(t *testing.T) {
	for _, name := range []string{"Dockerfile", ".dockerignore", "Dockerfile.dockerignore"} {
		for size, fails := range map[int]bool{maxText: false, maxText + 1: true} {
			m := contextOf("FROM scratch\nCOPY a /x\n", "a")
			data := bytes.Repeat([]byte("#"), size)
			copy(data, "FROM scratch\nCOPY a /x\n")
			if name != "Dockerfile" {
				copy(data, "# nothing\n")
			}
			m[name] = &fstest.MapFile{Data: data}
			_, err := Read(t.Context(), m, Options{Dockerfile: "Dockerfile"})
			if fails != (err != nil && strings.Contains(err.Error(), name) && strings.Contains(err.Error(), "shorten it")) {
				t.Errorf("%s of %d bytes: error = %v", name, size, err)
			}
		}
	}
}
