package assets

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// raw is an archive of exactly these entries.
func raw(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		h.Format = tar.FormatPAX
		if h.Typeflag == tar.TypeChar {
			h.Devmajor, h.Devminor = 1, 3
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, min(h.Size, 1<<20))); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close() // an entry may be larger than what was written of it
	return buf.Bytes()
}

func reg(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
func sym(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hardlink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}

var top = tar.Header{Typeflag: tar.TypeDir, Name: "seed/", Mode: 0o755}

func TestHostileArchives(t *testing.T) {
	sub := tar.Header{Typeflag: tar.TypeDir, Name: "seed/d/"}
	for what, c := range map[string]struct {
		entries []tar.Header
		fails   string   // the archive as a whole
		refused []string // parts of what is said of each entry
		files   string
	}{
		"plain":            {entries: []tar.Header{top, reg("seed/a"), sub, reg("seed/d/b")}, files: "a d/b"},
		"odd names":        {entries: []tar.Header{top, reg("seed/a b\n\x1b%2e"), reg("seed/ü"), reg("seed/A"), reg("seed/a"), reg("seed/...")}, files: "... A a a b\n\x1b%2e ü"},
		"climbs":           {entries: []tar.Header{top, reg("seed/../x")}, fails: "leads out"},
		"climbs at once":   {entries: []tar.Header{top, reg("../x")}, fails: "leads out"},
		"absolute":         {entries: []tar.Header{top, reg("/etc/passwd")}, fails: "leads out"},
		"beside":           {entries: []tar.Header{top, reg("seed2/x")}, fails: "not below"},
		"no directory":     {entries: []tar.Header{reg("seed")}, fails: "not of a directory"},
		"without its own":  {entries: []tar.Header{reg("seed/a")}, fails: "not of a directory"},
		"nothing":          {fails: "not of a directory"},
		"twice":            {entries: []tar.Header{top, reg("seed/a"), reg("seed/a")}, fails: "twice"},
		"twice, dressed":   {entries: []tar.Header{top, reg("seed/a"), reg("seed/./a")}, fails: "twice"},
		"file and link":    {entries: []tar.Header{top, reg("seed/a"), sym("seed/a", "b")}, fails: "twice"},
		"below a file":     {entries: []tar.Header{top, reg("seed/a"), reg("seed/a/b")}, fails: "no directory"},
		"below a link":     {entries: []tar.Header{top, sym("seed/a", "/etc"), reg("seed/a/b")}, fails: "no directory"},
		"written through":  {entries: []tar.Header{top, reg("seed/l/x"), sym("seed/l", "/")}, fails: "no directory"},
		"devices":          {entries: []tar.Header{top, {Typeflag: tar.TypeChar, Name: "seed/c"}, {Typeflag: tar.TypeBlock, Name: "seed/b"}, {Typeflag: tar.TypeFifo, Name: "seed/p"}}, refused: []string{"b\" is a device", "c\" is a device", "p\" is a named pipe"}},
		"hard link out":    {entries: []tar.Header{top, hardlink("seed/h", "../../etc/shadow")}, fails: "leads out"},
		"hard link abs":    {entries: []tar.Header{top, hardlink("seed/h", "/etc/shadow")}, fails: "leads out"},
		"hard link ahead":  {entries: []tar.Header{top, hardlink("seed/a", "seed/b"), reg("seed/b")}, refused: []string{"is a hard link to \"b\""}, files: "b"},
		"hard link":        {entries: []tar.Header{top, reg("seed/a"), hardlink("seed/b", "seed/a")}, files: "a b"},
		"link of a link":   {entries: []tar.Header{top, reg("seed/a"), sym("seed/l", "a"), hardlink("seed/m", "seed/l")}, files: "a l m"},
		"link out":         {entries: []tar.Header{top, sym("seed/l", "../x")}, refused: []string{"outside"}},
		"link out, deep":   {entries: []tar.Header{top, sub, sym("seed/d/l", "../../seed/a"), reg("seed/a")}, refused: []string{"outside"}, files: "a"},
		"absolute link":    {entries: []tar.Header{top, sym("seed/l", "/etc/shadow")}, refused: []string{"outside"}},
		"absolute, inside": {entries: []tar.Header{top, reg("seed/a"), sym("seed/l", "/srv/seed/./a")}, files: "a l"},
		"absolute, beside": {entries: []tar.Header{top, sym("seed/l", "/srv/seed2/a")}, refused: []string{"outside"}},
		"chain":            {entries: []tar.Header{top, sub, reg("seed/d/a"), sym("seed/1", "2"), sym("seed/2", "d/3"), sym("seed/d/3", "../d/./a")}, files: "1 2 d/3 d/a"},
		"chain out":        {entries: []tar.Header{top, sub, sym("seed/1", "d/2"), sym("seed/d/2", "../../x")}, refused: []string{"1\" is", "d/2\" is"}},
		"circle":           {entries: []tar.Header{top, sym("seed/1", "2"), sym("seed/2", "1")}, refused: []string{"circle", "circle"}},
		"itself":           {entries: []tar.Header{top, sym("seed/1", "1/1/1")}, refused: []string{"circle"}},
		"to a directory":   {entries: []tar.Header{top, sub, sym("seed/l", "d"), sym("seed/m", "."), sym("seed/n", "/srv/seed")}, refused: []string{"is a directory", "is a directory", "is a directory"}},
		"through one":      {entries: []tar.Header{top, sub, reg("seed/d/a"), sym("seed/l", "d"), sym("seed/x", "l/a")}, refused: []string{"l\" is a link"}, files: "d/a x"},
		"dangling":         {entries: []tar.Header{top, reg("seed/a"), sym("seed/l", "b"), sym("seed/m", "a/b"), sym("seed/n", "a/../a")}, refused: []string{"not there", "not there", "not there"}, files: "a"},
		"not UTF-8":        {entries: []tar.Header{top, {Typeflag: tar.TypeReg, Name: "seed/\xff"}}, refused: []string{`"\xff" the path is not UTF-8`}},
		"long":             {entries: []tar.Header{top, reg("seed/" + strings.Repeat("n", api.MaxAssetName+1))}, refused: []string{"more than 4096 bytes"}},
		"1 TB":             {entries: []tar.Header{top, {Typeflag: tar.TypeReg, Name: "seed/s", Size: 1 << 40}}, fails: "more than"},
	} {
		got, err := readTree(bytes.NewReader(raw(t, c.entries...)), seedDir, digests{}, nil)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if files := strings.Join(slices.Sorted(maps.Keys(got.files)), " "); files != c.files {
			t.Errorf("%s: files %q", what, files)
		}
		if len(got.refused) != len(c.refused) {
			t.Errorf("%s: refused %q", what, got.refused)
			continue
		}
		for i, part := range c.refused {
			if !strings.Contains(got.refused[i], part) {
				t.Errorf("%s: %q does not say %q", what, got.refused[i], part)
			}
		}
	}
}

// TestArchivesThatAreCutOffAreNotTakenForShorterOnes at any byte.
func TestArchivesThatAreCutOffAreNotTakenForShorterOnes(t *testing.T) {
	whole := archive(t, "seed", map[string]node{"a": file("one"), "b": file(strings.Repeat("\x00", 3000)), "c": file("end")})
	if _, err := readTree(bytes.NewReader(whole), seedDir, digests{}, nil); err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if _, err := readTree(bytes.NewReader(whole[:n]), seedDir, digests{}, nil); err == nil {
			t.Fatalf("%d of %d bytes were enough", n, len(whole))
		}
	}
	if _, err := readTree(bytes.NewReader(append(slices.Clone(whole), whole...)), seedDir, digests{}, nil); err == nil {
		t.Error("what follows the end was passed over")
	}
	if _, err := readTree(io.MultiReader(bytes.NewReader(whole), zeros{}), seedDir, digests{}, nil); err == nil {
		t.Error("an archive without end was taken")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestManyRefusedFilesAreNamedWithinReason: an error is for people.
func TestManyRefusedFilesAreNamedWithinReason(t *testing.T) {
	entries := []tar.Header{top}
	for i := range 1000 {
		entries = append(entries, sym(fmt.Sprintf("seed/%04d", i), "/etc/passwd"))
	}
	got, err := readTree(bytes.NewReader(raw(t, entries...)), seedDir, digests{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = refusal("x", got.refused, "do")
	if text := err.Error(); !strings.Contains(text, `"0009"`) || strings.Contains(text, `"0010"`) || !strings.HasSuffix(text, "and 990 more") {
		t.Error(text)
	}
}

// FuzzArchive: whatever an engine hands out, what is passed on are files below the
// directory by valid names, and the other side counts what this one counted.
func FuzzArchive(f *testing.F) {
	f.Add(archive(f, "seed", map[string]node{"a": file("one"), "d": dir(), "d/b": file("three"), "l": symlink("d/b"), "m": symlink("../x"), "h": hard("a")}))
	f.Add(raw(f, top, reg("seed/../x"), sym("seed/l", "/")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		var sent bytes.Buffer
		w := api.NewAssetWriter(&sent)
		tree, err := readTree(bytes.NewReader(in), seedDir, w, nil)
		if err != nil {
			return
		}
		for name := range tree.files {
			if err := api.CheckAssetPath(name); err != nil {
				t.Fatalf("%q: %v", name, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r := api.NewAssetReader(&sent)
		for err == nil {
			err = r.Next(func(_ api.Asset, content io.Reader) error {
				_, err := io.Copy(io.Discard, content)
				return err
			}, func(_, _ api.Asset) error { return nil })
		}
		if !errors.Is(err, io.EOF) || r.Sum() != w.Sum() || r.Sum().Files != len(tree.files) {
			t.Fatalf("%v: %+v arrived, %+v were sent of %d", err, r.Sum(), w.Sum(), len(tree.files))
		}
	})
}
