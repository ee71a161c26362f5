package imagehash

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

const fixedDockerfile = "FROM golang AS build\nARG VERSION=1\nCOPY server/ server/\nCOPY templates/pages/ templates/pages/\nFROM scratch\nCOPY --from=build /out/ /\n"

func fixed() fstest.MapFS {
	return contextOf(fixedDockerfile,
		"server/main.go=package main\n", "server/sub/x.go=package sub\n", "server/sub/x_test.go=package sub\n",
		"server/run.sh!=#!/bin/sh\n", "server/link->sub/x.go", "templates/pages/404.html=<p>",
		"compose/host.go=package compose\n", ".dockerignore=**/*_test.go\n**/testdata\n")
}

func sum(t *testing.T, fsys fs.FS, args map[string]string) *Sum {
	t.Helper()
	in, err := Read(t.Context(), fsys, Options{Dockerfile: "Dockerfile", Args: args})
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The value is fixed for ever: a change of it means a change of format.
func TestHashOfAFixedTreeIsFixed(t *testing.T) {
	const want = "0b2e0837b4fd3e7c"
	if got := sum(t, fixed(), nil).Hash; got != want {
		t.Errorf("hash = %s, want %s", got, want)
	}
}

func TestShellLineInTheDocumentationGivesTheSameHash(t *testing.T) {
	src, err := os.ReadFile("hash.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(src), "//\t{ ")
	text, _, ok := strings.Cut("//\t{ "+text, "//\n")
	if !ok {
		t.Fatal("no shell line in hash.go")
	}
	script := strings.ReplaceAll(text, "//\t", "")

	dir := t.TempDir()
	fsys := fixed()
	fsys["templates/image/Dockerfile"] = &fstest.MapFile{Data: []byte(fixedDockerfile)}
	fsys["server/testdata/t"] = &fstest.MapFile{Data: []byte("t")}
	write(t, dir, fsys)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := strings.TrimSpace(string(out)), sum(t, fsys, nil).Hash; got != want {
		t.Errorf("shell says %q, Sum says %q\n%s", got, want, script)
	}
}

func TestOnlyWhatTheBuildReadsMovesTheHash(t *testing.T) {
	base := sum(t, fixed(), nil).Hash
	change := func(f func(fstest.MapFS)) string {
		m := fixed()
		f(m)
		return sum(t, m, nil).Hash
	}
	moves := map[string]func(fstest.MapFS){
		"content":        func(m fstest.MapFS) { m["server/main.go"].Data = []byte("package main \n") },
		"new file":       func(m fstest.MapFS) { m["server/new.go"] = &fstest.MapFile{} },
		"removed file":   func(m fstest.MapFS) { delete(m, "server/sub/x.go") },
		"renamed file":   func(m fstest.MapFS) { m["server/mair.go"] = m["server/main.go"]; delete(m, "server/main.go") },
		"executable":     func(m fstest.MapFS) { m["server/main.go"].Mode = 0o755 },
		"not executable": func(m fstest.MapFS) { m["server/run.sh"].Mode = 0o644 },
		"link target":    func(m fstest.MapFS) { m["server/link"].Data = []byte("main.go") },
		"link to file": func(m fstest.MapFS) {
			m["server/link"] = &fstest.MapFile{Data: []byte("sub/x.go"), Mode: 0o644}
		},
		"dockerfile comment": func(m fstest.MapFS) { m["Dockerfile"].Data = append(m["Dockerfile"].Data, "# x\n"...) },
		"ignore file that lets more in": func(m fstest.MapFS) {
			m[".dockerignore"].Data = []byte("**/testdata\n")
		},
		"page": func(m fstest.MapFS) { m["templates/pages/404.html"].Data = nil },
	}
	seen := map[string]string{base: "the fixed tree"}
	for name, f := range moves {
		h := change(f)
		if other, dup := seen[h]; dup {
			t.Errorf("%s: hash %s is that of %s", name, h, other)
		}
		seen[h] = name
	}
	stays := map[string]func(fstest.MapFS){
		"host code":     func(m fstest.MapFS) { m["compose/host.go"].Data = []byte("package x") },
		"test":          func(m fstest.MapFS) { m["server/sub/x_test.go"].Data = []byte("package x") },
		"test data":     func(m fstest.MapFS) { m["server/testdata/x"] = &fstest.MapFile{Data: []byte("x")} },
		"empty dir":     func(m fstest.MapFS) { m["server/empty"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755} },
		"group's bits":  func(m fstest.MapFS) { m["server/main.go"].Mode = 0o600; m["server/run.sh"].Mode = 0o700 },
		"other's x bit": func(m fstest.MapFS) { m["server/main.go"].Mode = 0o655 },
		"time":          func(m fstest.MapFS) { m["server/main.go"].ModTime = time.Unix(1e9, 0) },
		"ignore file that says the same": func(m fstest.MapFS) {
			m[".dockerignore"].Data = []byte("# other words\n**/testdata/\n**/*_test.go")
		},
	}
	for name, f := range stays {
		if h := change(f); h != base {
			t.Errorf("%s: hash is %s, want it to stay %s", name, h, base)
		}
	}
}

func TestBuildArgumentsCountIfTheDockerfileDeclaresThem(t *testing.T) {
	base := sum(t, fixed(), nil).Hash
	if h := sum(t, fixed(), map[string]string{"OTHER": "1"}).Hash; h != base {
		t.Error("an argument the Dockerfile does not declare moves the hash")
	}
	one, two := sum(t, fixed(), map[string]string{"VERSION": "2"}).Hash, sum(t, fixed(), map[string]string{"VERSION": "3"}).Hash
	if one == base || two == base || one == two {
		t.Errorf("hashes %s, %s, %s for no, one and another value are not three", base, one, two)
	}
}

// write puts a file system on disk with whatever umask and times come along.
func write(t *testing.T, dir string, fsys fstest.MapFS) {
	t.Helper()
	paths := make([]string, 0, len(fsys))
	for p := range fsys {
		paths = append(paths, p)
	}
	rand.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for _, p := range paths {
		full := filepath.Join(dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		var err error
		if m := fsys[p].Mode; m.Type() == fs.ModeSymlink {
			err = os.Symlink(string(fsys[p].Data), full)
		} else {
			err = os.WriteFile(full, fsys[p].Data, m&0o777|0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestHashIsTheSameInEveryCheckout(t *testing.T) {
	want := sum(t, fixed(), nil).Full
	for range 5 {
		dir := t.TempDir()
		write(t, dir, fixed())
		for _, chmod := range []fs.FileMode{0o700, 0o755, 0o777} {
			err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.Type()&fs.ModeSymlink != 0 {
					return err
				}
				mode := chmod
				if fi, _ := d.Info(); !d.IsDir() && fi.Mode()&0o100 == 0 {
					mode &^= 0o111
				}
				when := time.Unix(rand.Int64N(1<<30), 0)
				return errors.Join(os.Chmod(p, mode), os.Chtimes(p, when, when))
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := sum(t, os.DirFS(dir), nil).Full; got != want {
				t.Fatalf("mode %o: hash = %s, want %s", chmod, got, want)
			}
		}
	}
}

//go:embed testdata/context
var embedded embed.FS

func TestEmbeddedContextHasTheHashOfTheDirectory(t *testing.T) {
	inside, err := fs.Sub(embedded, "testdata/context")
	if err != nil {
		t.Fatal(err)
	}
	a, b := sum(t, inside, nil), sum(t, os.DirFS("testdata/context"), nil)
	if a.Full != b.Full || !slices.Equal(a.Inputs, b.Inputs) {
		t.Errorf("embedded %+v\n    disk %+v", a, b)
	}
}

func TestTarHoldsExactlyTheBytesThatWereHashed(t *testing.T) {
	s := sum(t, fixed(), nil)
	var buf bytes.Buffer
	if err := s.WriteTar(&buf); err != nil {
		t.Fatal(err)
	}
	again := fstest.MapFS{}
	var again2 bytes.Buffer
	for tr := tar.NewReader(io.TeeReader(&buf, &again2)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s carries an owner or a time: %+v", h.Name, h)
		}
		if _, dup := again[h.Name]; dup {
			t.Errorf("%s is there twice", h.Name)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Name == ".dockerignore" {
			if want := ".dockerignore\nDockerfile\n"; string(data) != want {
				t.Errorf("ignore file = %q, want %q", data, want)
			}
			continue // it hides itself
		}
		again[h.Name] = &fstest.MapFile{Data: data, Mode: h.FileInfo().Mode()}
		if h.Typeflag == tar.TypeSymlink {
			again[h.Name].Data = []byte(h.Linkname)
		}
	}
	if len(again) != len(s.All()) {
		t.Errorf("tar has %d entries, want %d", len(again), len(s.All()))
	}
	if got := sum(t, again, nil).Full; got != s.Full {
		t.Errorf("hash of the tar's content = %s, want %s", got, s.Full)
	}
}

func TestInputThatChangesAfterHashingStopsTheTar(t *testing.T) {
	changes := map[string]func(fstest.MapFS){
		"same size":  func(m fstest.MapFS) { m["server/main.go"].Data = []byte("package mean\n") },
		"longer":     func(m fstest.MapFS) { m["server/main.go"].Data = []byte("package main\n\n") },
		"shorter":    func(m fstest.MapFS) { m["server/main.go"].Data = nil },
		"executable": func(m fstest.MapFS) { m["server/main.go"].Mode = 0o755 },
		"gone":       func(m fstest.MapFS) { delete(m, "server/main.go") },
		"link":       func(m fstest.MapFS) { m["server/link"].Data = []byte("main.go") },
		"link to a file": func(m fstest.MapFS) {
			m["server/main.go"] = &fstest.MapFile{Data: []byte("run.sh"), Mode: fs.ModeSymlink}
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			m := fixed()
			s := sum(t, m, nil)
			change(m)
			err := s.WriteTar(io.Discard)
			var ce *ChangedInputError
			if !errors.As(err, &ce) || !strings.HasPrefix(ce.Path, "server/") {
				t.Errorf("error = %v (%T), want a *ChangedInputError", err, err)
			}
		})
	}
}

func TestDockerfileIsBuiltAsItWasScanned(t *testing.T) {
	m := fixed()
	s := sum(t, m, nil)
	m["Dockerfile"].Data = []byte("FROM other\n")
	err := s.Each(func(in Input, content io.Reader) error {
		if in.Path != "Dockerfile" {
			return nil
		}
		if got, _ := io.ReadAll(content); string(got) != fixedDockerfile {
			t.Errorf("Dockerfile = %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestScriptWithWindowsLineEndsIsWarnedOf(t *testing.T) {
	fsys := fstest.MapFS{
		"Dockerfile": {Data: []byte("FROM scratch\nCOPY . /\n")},
		"bad.sh":     {Data: []byte("#!/bin/sh\r\necho\r\n")},
		"good.sh":    {Data: []byte("#!/bin/sh\necho\r\n")},
		"text.txt":   {Data: []byte("no script\r\n")},
		"empty":      {},
		"short":      {Data: []byte("#!\r\n")},
	}
	in, err := Read(t.Context(), fsys, Options{Dockerfile: "Dockerfile"})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(sum.Warnings(), "\n")
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, `"bad.sh"`) || !strings.Contains(got, `"short"`) {
		t.Errorf("warnings:\n%s", got)
	}
	for _, one := range sum.Inputs {
		if one.Path == "bad.sh" && one.Digest != fmt.Sprintf("%x", sha256.Sum256(fsys["bad.sh"].Data)) {
			t.Error("the digest is not that of the raw bytes")
		}
	}
}

func hexDigest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

func FuzzIgnoreFileNeverPanics(f *testing.F) {
	for _, s := range []string{"a\n!b\n**/c", "[", "\\", "!", "**", "a**b/[^c]", "\ufeff#x\n/"} {
		f.Add(s, "a/b/c")
	}
	f.Fuzz(func(t *testing.T, text, p string) {
		if !fs.ValidPath(p) {
			return
		}
		ig, err := parseIgnore(".dockerignore", []byte(text))
		if err != nil {
			return
		}
		pruned, err := ig.prunes(p)
		if err != nil || !pruned {
			return
		}
		if ignored, _ := ig.match(p + "/below"); !ignored {
			t.Errorf("rules %q prune %q, but not what is below", text, p)
		}
	})
}
