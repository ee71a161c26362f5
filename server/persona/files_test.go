package persona

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func (w *world) putAsset(name, body string) error {
	return w.putAssetAs("t1", name, body, time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC))
}

func (w *world) putAssetAs(trajectory, name, body string, modified time.Time) error {
	s, err := w.files.StageAssets(trajectory, upload(func(up *api.AssetWriter) error {
		_, err := up.File(api.Asset{Path: name, Size: int64(len(body)), Modified: modified, Mode: 0o644}, strings.NewReader(body))
		return err
	}))
	if err == nil {
		_, err = w.files.CommitAssets(trajectory, s.Stage, api.AssetCommit{AssetSum: s.AssetSum})
	}
	return err
}

// upload is what write sends, broken off where that fails.
func upload(write func(*api.AssetWriter) error) io.Reader {
	from, to := io.Pipe()
	go func() {
		up := api.NewAssetWriter(to)
		err := write(up)
		if err == nil {
			err = up.Close()
		}
		_ = to.CloseWithError(err)
	}()
	return from
}

func TestAssetsAreServedWithTheirTypeAndTime(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"hello.txt", "dir/page.HTML", "a b/ü.png", "noext"} {
		if err := w.putAsset(name, "hello from a file\n"); err != nil {
			t.Fatal(err)
		}
	}
	for path, contentType := range map[string]string{
		"/assets/hello.txt":            "text/plain",
		"/assets/dir/page.HTML":        "text/html",
		"/assets/a%20b/%C3%BC.png":     "image/png",
		"/assets/noext":                "application/octet-stream",
		"/assets/dir%2Fpage.HTML?q=%z": "text/html",
	} {
		rec := w.do("GET", path, "")
		expect(t, rec, 200, "hello from a file\n")
		h := rec.Header()
		if h.Get("Content-Type") != contentType || h.Get("ETag") != `"67c2daa0-12"` || h.Get("Last-Modified") != "Sat, 01 Mar 2025 10:00:00 GMT" || h.Get("Content-Length") != "18" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	expect(t, w.do("HEAD", "/assets/hello.txt", ""), 200, "")
	expect(t, w.do("GET", "/assets/hello.txt", "", "Range: bytes=0-3"), 206, "hell")
	expect(t, w.do("GET", "/assets/hello.txt", "", `If-None-Match: "67c2daa0-12"`), 304, "")
	for _, path := range []string{"/assets", "/assets/", "/assets/dir", "/assets/dir/", "/assets/Hello.txt", "/assets//hello.txt"} {
		expect(t, w.do("GET", path, ""), 404)
	}
	expect(t, w.call("t2", "GET", "/assets/hello.txt", ""), 404)
	w.persona.Host = "second.example"
	expect(t, w.do("GET", "/assets/hello.txt", ""), 200)
}

func TestAssetNamesThatAreNoPathAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", "/abs", "../x", "a/../x", "a/..", ".", "a//b", "a/", "x\x00", strings.Repeat("n", maxKey+1)} {
		if err := w.putAsset(name, "x"); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	for _, trajectory := range []string{"", "..", "a/b", "A", "_unattributed"} {
		if err := w.putAssetAs(trajectory, "x", "x", w.now); err == nil {
			t.Errorf("trajectory %q was accepted", trajectory)
		}
		if err := w.files.Remove(trajectory); err == nil {
			t.Errorf("trajectory %q was removed", trajectory)
		}
	}
	if left := w.onDisk(); len(left) != 0 {
		t.Errorf("stored all the same: %v", left)
	}
}

func TestFilesSurviveARestart(t *testing.T) {
	w := newWorld(t)
	big := strings.Repeat("0123456789", 20<<10)
	w.do("PUT", "/data/k", big, "Content-Type: text/x-big")
	w.do("PUT", "/public/dir/f.txt", "public")
	if err := w.putAsset("a.txt", "asset"); err != nil {
		t.Fatal(err)
	}
	before, err := w.files.tenant("t1")
	if err != nil {
		t.Fatal(err)
	}
	list := w.do("GET", "/data", "").Body.String()
	w.restart()
	rec := w.do("GET", "/data/k", "")
	expect(t, rec, 200, big)
	if ct := rec.Header().Get("Content-Type"); ct != "text/x-big" {
		t.Errorf("type %q", ct)
	}
	expect(t, w.do("GET", "/public/dir/f.txt", ""), 200, "public")
	expect(t, w.do("GET", "/assets/a.txt", ""), 200, "asset")
	expect(t, w.do("GET", "/data", ""), 200, list)
	after, err := w.files.tenant("t1")
	if err != nil {
		t.Fatal(err)
	}
	if before.bytes != after.bytes || before.index != after.index || after.bytes != int64(len(big)+len("public")) {
		t.Errorf("counts %d and %d, after the restart %d and %d", before.bytes, before.index, after.bytes, after.index)
	}
}

func TestWhatACrashLeftHalfDoneIsSwept(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/k", "value")
	want := fmt.Sprint(w.onDisk())
	dir := filepath.Dir(w.onDisk()[0])
	for _, name := range []string{"LOOSE.body", "DRAFT.new", "x.body.ABC.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "files", removedPrefix+"X", "y"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.restart()
	expect(t, w.do("GET", "/data/k", ""), 200, "value")
	if got := fmt.Sprint(w.onDisk()); got != want {
		t.Errorf("on disk %s, want %s", got, want)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "files", removedPrefix+"X")); !os.IsNotExist(err) {
		t.Errorf("a half deleted trajectory is still there: %v", err)
	}
}

func TestADamagedDescriptionCostsOneKeyOnly(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/good", "value")
	w.do("PUT", "/data/bad", "lost")
	b := w.files.bucket("t1", w.persona.Host, "data")
	for name, damage := range map[string]string{descriptionName("bad"): "{", descriptionName("ghost"): `{"key":"Z2hvc3Q=","file":"../../x"}`} {
		if err := os.WriteFile(b.abs(name), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	expect(t, w.do("GET", "/data/good", ""), 200, "value")
	expect(t, w.do("GET", "/data/bad", ""), 404)
	expect(t, w.do("GET", "/data/ghost", ""), 404)
	expect(t, w.do("PUT", "/data/bad", "new"), 201)
	expect(t, w.do("GET", "/data/bad", ""), 200, "new")
}

func TestLinksInTheStoreAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/k", "value")
	secret := filepath.Join(w.dir, "secret")
	if err := os.WriteFile(secret, []byte("value"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range w.onDisk() {
		if strings.HasSuffix(name, bodySuffix) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(secret, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if rec := w.do("GET", "/data/k", ""); rec.Code == 200 {
		t.Error("a link out of the store was followed")
	}
}

func TestRemoveDeletesOneTrajectoryOnly(t *testing.T) {
	w := newWorld(t)
	for _, trajectory := range []string{"t1", "t2"} {
		w.call(trajectory, "PUT", "/data/k", trajectory)
	}
	for range 2 {
		if err := w.files.Remove("t1"); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, w.call("t1", "GET", "/data/k", ""), 404)
	expect(t, w.call("t2", "GET", "/data/k", ""), 200, "t2")
	for _, name := range w.onDisk() {
		if !strings.Contains(name, "/t2/") {
			t.Errorf("left on disk: %s", name)
		}
	}
	expect(t, w.call("t1", "PUT", "/data/k", "again"), 201)
	expect(t, w.call("t1", "GET", "/data/k", ""), 200, "again")
}
