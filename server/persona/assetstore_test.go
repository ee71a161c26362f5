package persona

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// refusedWith says whether an error is a refusal of that code.
func refusedWith(err error, code string) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == code
}

// stageFiles uploads files as "path=content"; "path->other" is a second name.
func (w *world) stageFiles(files ...string) (*api.AssetsStaged, error) {
	return w.files.StageAssets("t1", upload(func(up *api.AssetWriter) error {
		sent := map[string]api.Asset{}
		for _, f := range files {
			if name, of, ok := strings.Cut(f, "->"); ok {
				if err := up.Link(api.Asset{Path: name, Modified: w.now}, sent[of]); err != nil {
					return err
				}
				continue
			}
			name, content, _ := strings.Cut(f, "=")
			a, err := up.File(api.Asset{Path: name, Size: int64(len(content)), Modified: w.now, Mode: 0o600}, strings.NewReader(content))
			if err != nil {
				return err
			}
			sent[name] = a
		}
		return nil
	}))
}

func (w *world) commit(s *api.AssetsStaged, from string) (*api.AssetsCommitted, error) {
	return w.files.CommitAssets("t1", s.Stage, api.AssetCommit{AssetSum: s.AssetSum, SeededFrom: from})
}

// has checks what is served: "path=content".
func (w *world) has(files ...string) {
	w.t.Helper()
	list, err := w.files.Assets("t1")
	if err != nil || len(list.Assets) != len(files) {
		w.t.Errorf("listed are %+v, %v", list, err)
	}
	listed := map[string]string{}
	for _, a := range list.Assets {
		listed[a.Path] = a.Type
	}
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		rec := w.do("GET", "/assets/"+name, "")
		if rec.Code != 200 || rec.Body.String() != content {
			w.t.Errorf("%s: %d %q", name, rec.Code, rec.Body)
		}
		if served, _, _ := strings.Cut(rec.Header().Get("Content-Type"), ";"); served != listed[name] || served == "" {
			w.t.Errorf("%s is listed as %q and served as %q", name, listed[name], served)
		}
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestUploadIsServedOnceItIsCommittedAndNotBefore(t *testing.T) {
	w := newWorld(t)
	s := must[*api.AssetsStaged](t)(w.stageFiles("a=one", "d/b=two", "c->a"))
	if s.Files != 3 || s.Bytes != 9 {
		t.Errorf("%+v", s)
	}
	w.has()
	other := s.AssetSum
	other.Digest = strings.Repeat("0", 64)
	if _, err := w.files.CommitAssets("t1", s.Stage, api.AssetCommit{AssetSum: other}); !refusedWith(err, api.CodeConflict) {
		t.Errorf("another sum: %v", err)
	}
	if _, err := w.files.CommitAssets("t2", s.Stage, api.AssetCommit{AssetSum: s.AssetSum}); !refusedWith(err, api.CodeNotFound) {
		t.Errorf("of another trajectory: %v", err)
	}
	done := must[*api.AssetsCommitted](t)(w.commit(s, ""))
	if len(done.Assets) != 3 || len(done.Replaced) != 0 || done.Assets[0].SHA256 != api.HexSHA256([]byte("one")) {
		t.Errorf("%+v", done)
	}
	if _, err := w.commit(s, ""); !refusedWith(err, api.CodeNotFound) {
		t.Errorf("twice: %v", err)
	}
	w.has("a=one", "c=one", "d/b=two")

	s = must[*api.AssetsStaged](t)(w.stageFiles("a=three"))
	if done = must[*api.AssetsCommitted](t)(w.commit(s, "")); len(done.Replaced) != 1 || done.Replaced[0] != "a" {
		t.Errorf("%+v", done)
	}
	w.has("a=three", "c=one", "d/b=two")
	must[*api.AssetsCommitted](t)(w.commit(must[*api.AssetsStaged](t)(w.stageFiles("page.html=<p>", "note.txt=x")), ""))
	w.has("a=three", "c=one", "d/b=two", "page.html=<p>", "note.txt=x")
	for f, says := range map[string]string{
		"a/x=1": `asset "a/x" needs a directory "a", and that is a file`,
		"d=1":   `asset "d" cannot be a file: it is a directory, with "d/b" in it`,
	} {
		s = must[*api.AssetsStaged](t)(w.stageFiles(f))
		if _, err := w.commit(s, ""); !refusedWith(err, api.CodeConflict) || err.Error() != says {
			t.Errorf("%s: %v", f, err)
		}
		if err := w.files.DropAssets("t1", s.Stage); err != nil {
			t.Error(err)
		}
	}
	// Five bodies, the list: nothing is left of what was replaced or dropped.
	if n := len(w.onDisk()); n != 6 {
		t.Errorf("on disk: %q", w.onDisk())
	}
	w.stageFiles("late=1")
	w.restart()
	w.has("a=three", "c=one", "d/b=two", "page.html=<p>", "note.txt=x")
	if n := len(w.onDisk()); n != 6 {
		t.Errorf("after a restart on disk: %q", w.onDisk())
	}
}

func TestSeedReplacesSeedsAndWhatWasPutByHandStays(t *testing.T) {
	w := newWorld(t)
	if err := w.files.SeedDeleted("t1", "c1"); !refusedWith(err, api.CodeConflict) {
		t.Errorf("before any: %v", err)
	}
	must[*api.AssetsCommitted](t)(w.commit(must[*api.AssetsStaged](t)(w.stageFiles("a=1", "b=2", "old=3")), "c1"))
	must[*api.AssetsCommitted](t)(w.commit(must[*api.AssetsStaged](t)(w.stageFiles("b=mine", "new=4")), ""))
	for range 2 {
		if err := w.files.SeedDeleted("t1", "c1"); err != nil {
			t.Error(err)
		}
	}
	w.restart()
	list := must[*api.AssetList](t)(w.files.Assets("t1"))
	if s := list.Seeded; s == nil || s.From != "c1" || s.Files != 3 || fmt.Sprint(s.Deleted) != "[c1]" {
		t.Errorf("%+v", list.Seeded)
	}
	s := must[*api.AssetsStaged](t)(w.stageFiles("a=one", "b=two"))
	must[*api.AssetsCommitted](t)(w.commit(s, "c2"))
	w.has("a=one", "b=mine", "new=4")
	list = must[*api.AssetList](t)(w.files.Assets("t1"))
	if s := list.Seeded; s.From != "c2" || len(s.Deleted) != 0 {
		t.Errorf("%+v", s)
	}
	if n := len(w.onDisk()); n != 4 {
		t.Errorf("on disk: %q", w.onDisk())
	}
	if err := w.files.Remove("t1"); err != nil {
		t.Fatal(err)
	}
	w.has()
}

func TestUploadsThatAreBrokenOffOrHostileLeaveNothing(t *testing.T) {
	w := newWorld(t)
	archive := func(headers ...tar.Header) []byte {
		var buf bytes.Buffer
		tw := tar.NewWriter(&buf)
		for _, h := range headers {
			h.Format = tar.FormatPAX
			if err := tw.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		_ = tw.Close()
		return buf.Bytes()
	}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	whole := archive(file("a"), file("b"))
	for what, c := range map[string][]byte{
		"empty": {}, "cut off": whole[:len(whole)-1024], "rubbish": []byte(strings.Repeat("x", 2000)),
		"climbs": archive(file("a"), file("../b")), "absolute": archive(file("/b")), "twice": archive(file("a"), file("a")),
		"a link": archive(tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc/passwd"}), "a directory": archive(tar.Header{Typeflag: tar.TypeDir, Name: "d/"}),
		"a device":   archive(tar.Header{Typeflag: tar.TypeBlock, Name: "l"}),
		"link ahead": archive(tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "later"}), "link out": archive(tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "../../x"}),
		"1 TB": archive(tar.Header{Typeflag: tar.TypeReg, Name: "l", Size: 1 << 40}), "dots": archive(file("a/./b")), "not UTF-8": archive(file("\xff")),
	} {
		if s, err := w.files.StageAssets("t1", bytes.NewReader(c)); !refusedWith(err, api.CodeInvalid) {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
	if _, err := w.files.StageAssets("t1", upload(func(up *api.AssetWriter) error {
		if _, err := up.File(api.Asset{Path: "a", Size: 1}, strings.NewReader("x")); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	})); err == nil {
		t.Error("what its sender gave up was taken")
	}
	if left := w.onDisk(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	// Whoever is killed again and again does not keep others out for ever.
	var err error
	for range api.MaxAssetStages + 1 {
		_, err = w.stageFiles("a=1")
	}
	if !refusedWith(err, api.CodeHeld) {
		t.Errorf("without bound: %v", err)
	}
	tn := must[*tenant](t)(w.files.tenant("t1"))
	for _, s := range tn.staged {
		s.since = s.since.Add(-2 * stageLife)
	}
	if _, err = w.stageFiles("a=1"); err != nil || len(tn.staged) != 1 || len(w.onDisk()) != 1 {
		t.Errorf("%v, %d staged, on disk %q", err, len(tn.staged), w.onDisk())
	}
}

// TestDamagedListOfAssetsIsKept: neither it nor a body goes, and nothing else is hit.
func TestDamagedListOfAssetsIsKept(t *testing.T) {
	w := newWorld(t)
	for _, f := range []string{"a", "b"} {
		if err := w.putAsset(f, f); err != nil {
			t.Fatal(err)
		}
	}
	w.do("PUT", "/data/k", "value")
	dir := filepath.Join(w.dir, "files", "t1", "assets")
	list := must[[]byte](t)(os.ReadFile(filepath.Join(dir, assetListName)))
	n := len(w.onDisk())
	if err := os.WriteFile(filepath.Join(dir, assetListName), list[:len(list)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	w.restart()
	expect(t, w.do("GET", "/assets/a", ""), 404)
	expect(t, w.do("GET", "/data/k", ""), 200, "value")
	if len(w.onDisk()) != n {
		t.Errorf("on disk: %q", w.onDisk())
	}
	// A body that is gone costs its file alone.
	if err := os.WriteFile(filepath.Join(dir, assetListName), list, 0o600); err != nil {
		t.Fatal(err)
	}
	tn := must[*tenant](t)((&Files{dir: w.files.dir, root: w.files.root, tenants: map[string]*tenant{}}).tenant("t1"))
	if err := os.Remove(filepath.Join(dir, tn.buckets["assets"]["a"].File)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	expect(t, w.do("GET", "/assets/a", ""), 404)
	expect(t, w.do("GET", "/assets/b", ""), 200, "b")
}

// TestManyFilesBecomeVisibleAtOnce, and are all there after a restart.
func TestManyFilesBecomeVisibleAtOnce(t *testing.T) {
	w := newWorld(t)
	files := make([]string, 2000)
	for i := range files {
		files[i] = fmt.Sprintf("d%02d/%05d=%d", i%100, i, i)
	}
	s := must[*api.AssetsStaged](t)(w.stageFiles(files...))
	must[*api.AssetsCommitted](t)(w.commit(s, "c"))
	w.restart()
	w.has(files...)
}

// FuzzUpload: whatever is uploaded, it is refused or counted rightly, and what is on
// disk are bodies of this trajectory's directory.
func FuzzUpload(f *testing.F) {
	var good bytes.Buffer
	up := api.NewAssetWriter(&good)
	a, _ := up.File(api.Asset{Path: "a", Size: 1}, strings.NewReader("x"))
	_ = up.Link(api.Asset{Path: "d/b"}, a)
	_ = up.Close()
	f.Add(good.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		r := api.NewAssetReader(bytes.NewReader(in))
		n, total := 0, int64(0)
		var err error
		for err == nil {
			err = r.Next(func(a api.Asset, content io.Reader) error {
				got, err := io.Copy(io.Discard, content)
				n, total = n+1, total+got
				return err
			}, func(_, of api.Asset) error { n, total = n+1, total+of.Size; return nil })
		}
		if err != io.EOF {
			return
		}
		if sum := r.Sum(); sum.Files != n || sum.Bytes != total || len(r.Files()) != n {
			t.Fatalf("%+v, counted %d files of %d bytes", sum, n, total)
		}
		for path := range r.Files() {
			if !validName(path) {
				t.Fatalf("%q", path)
			}
		}
	})
}
