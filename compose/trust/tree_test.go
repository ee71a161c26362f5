package trust

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, h := range headers {
		data := []byte("data of " + h.Name)
		if h.Typeflag != tar.TypeReg {
			data = nil
		}
		h.Size = int64(len(data))
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func reg(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }

func TestArchivesOfTheEngineAreReadByAbsolutePath(t *testing.T) {
	got, err := readTree(bytes.NewReader(archive(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "ssl/"}, reg("ssl/a"), tar.Header{Typeflag: tar.TypeLink, Name: "ssl/b", Linkname: "ssl/a"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "ssl/c", Linkname: "../../../etc/passwd"}, tar.Header{Typeflag: tar.TypeChar, Name: "ssl/dev"},
	)), "/etc/ssl")
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"/etc/ssl", "/etc/ssl/a", "/etc/ssl/b", "/etc/ssl/c", "/etc/ssl/dev"}) {
		t.Errorf("entries %v", names)
	}
	if b := got["/etc/ssl/b"]; !b.isRegular() || string(b.data) != "data of ssl/a" || b.header.Linkname != "" {
		t.Errorf("a hard link must be the file itself: %+v", b)
	}
}

func TestArchivesThatAreNotTheEnginesAreRefused(t *testing.T) {
	valid := archive(t, reg("ssl/a"), reg("ssl/b"))
	for name, text := range map[string][]byte{
		"entry that climbs out":      archive(t, reg("ssl/../../etc/passwd")),
		"absolute entry":             archive(t, reg("/ssl/a")),
		"entry of another directory": archive(t, reg("sslx/a")),
		"entry twice":                archive(t, reg("ssl/a"), reg("ssl/./a")),
		"hard link out":              archive(t, tar.Header{Typeflag: tar.TypeLink, Name: "ssl/b", Linkname: "etc/passwd"}),
		"hard link that climbs":      archive(t, tar.Header{Typeflag: tar.TypeLink, Name: "ssl/b", Linkname: "ssl/../x"}),
		"hard link to nothing":       archive(t, tar.Header{Typeflag: tar.TypeLink, Name: "ssl/b", Linkname: "ssl/a"}),
		"no archive":                 []byte(strings.Repeat("nonsense", 100)),
		"archive that is cut":        valid[:1200],
		"compressed archive":         {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0},
	} {
		if got, err := readTree(bytes.NewReader(text), "/etc/ssl"); err == nil {
			t.Errorf("%s: read as %v", name, slices.Sorted(maps.Keys(got)))
		}
	}
}

func TestResolvingStaysInsideTheContainer(t *testing.T) {
	eng := newFake(t, map[string]node{
		"/etc/ssl/up": link("../../../../../etc/ssl/target"), "/etc/ssl/target": file("x"), "/etc/ssl/abs": link("/opt/dir/../file"), "/opt/file": file("y"), "/opt/dir": dir(),
		"/etc/ssl/chain": link("abs"), "/etc/ssl/loop": link("loop"), "/etc/ssl/dead": link("/nowhere/at/all"), "/usr/lib/ssl": link("/etc/ssl"), "/etc/ssl/through": link("target/x"),
	})
	f := newFiles(eng, "c1")
	for p, want := range map[string]string{
		"/etc/ssl/up": "/etc/ssl/target", "/etc/ssl/abs": "/opt/file", "/etc/ssl/chain": "/opt/file", "/usr/lib/ssl/target": "/etc/ssl/target",
		"/etc/ssl/missing": "/etc/ssl/missing", "/etc/ssl/dead": "/nowhere/at/all", "/": "/", "/etc/ssl/../ssl": "/etc/ssl",
	} {
		if got, _, err := f.resolve(context.Background(), p); err != nil || got != want {
			t.Errorf("%s leads to %q, %v; want %q", p, got, err, want)
		}
	}
	for _, p := range []string{"/etc/ssl/loop", "/etc/ssl/through", "/etc/ssl/target/below"} {
		if got, _, err := f.resolve(context.Background(), p); !errors.As(err, new(*FileError)) {
			t.Errorf("%s leads to %q, %v", p, got, err)
		}
	}
}

func FuzzArchivesNeverLeaveTheirRoot(f *testing.F) {
	f.Add(archive(f, reg("ssl/a"), tar.Header{Typeflag: tar.TypeLink, Name: "ssl/b", Linkname: "ssl/a"}))
	f.Add(archive(f, reg("ssl/../x")))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := readTree(bytes.NewReader(text), "/etc/ssl")
		if err != nil {
			return
		}
		for p := range entries {
			if p != "/etc/ssl" && !strings.HasPrefix(p, "/etc/ssl/") || strings.Contains(p, "..") && strings.Contains(p, "/../") {
				t.Errorf("entry %q", p)
			}
		}
	})
}
