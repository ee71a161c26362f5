package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func TestAssetsOfTwoTrajectoriesDoNotMeet(t *testing.T) {
	w := newWorld(t)
	at := time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)
	for n, id := range []string{2: "t2", 3: "t3"} {
		if id != "" {
			w.register(id, n, plays("files.example", "nginx"))
			w.putAsset(id, "same/name.txt", "of "+id, at)
		}
	}
	w.putAsset("t2", "only", "2", at)
	check := func(n int, path string, status int, content string) {
		t.Helper()
		for _, h2 := range []bool{false, true} {
			r, got := w.do(w.client(n, h2), "GET", "https://files.example/assets/"+path, "")
			if r.StatusCode != status || status == 200 && got != content {
				t.Errorf("%d, %s: %d %q", n, path, r.StatusCode, got)
			}
			if status == 200 && (r.Header.Get("Last-Modified") != "Sat, 01 Mar 2025 10:00:00 GMT" || r.Header.Get("ETag") == "" || r.Header.Get("Accept-Ranges") != "bytes") {
				t.Errorf("%v", r.Header)
			}
		}
	}
	all := func() {
		check(2, "same/name.txt", 200, "of t2")
		check(3, "same/name.txt", 200, "of t3")
		check(2, "only", 200, "2")
		check(3, "only", 404, "")
		check(3, "../t2/only", 400, "")
		check(3, "%2e%2e/t2/only", 400, "")
	}
	all()
	w.stop()
	w.start()
	all()

	q, err := http.NewRequest("GET", "https://files.example/assets/same/name.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Range", "bytes=3-")
	if r, got := w.doRequest(w.client(2, true), q); r.StatusCode != 206 || got != "t2" {
		t.Errorf("range: %d %q", r.StatusCode, got)
	}
	q.Header.Del("Range")
	q.Header.Set("If-Modified-Since", "Sat, 01 Mar 2025 10:00:00 GMT")
	if r, _ := w.doRequest(w.client(2, true), q); r.StatusCode != 304 {
		t.Errorf("conditional: %d", r.StatusCode)
	}
	if _, err := w.admin.Unregister(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	w.register("t2", 2, plays("files.example", "nginx"))
	check(2, "only", 404, "")
	check(3, "same/name.txt", 200, "of t3")
}

// TestUploadsAreRefusedInWords, also where most of the body is still to come when
// that is decided; and a sender that gives up is told its own reason.
func TestUploadsAreRefusedInWords(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("files.example", "nginx"))
	big := strings.Repeat("0123456789abcdef", 4<<16) // 4 MiB: more than all buffers on the way
	var refused *api.Error
	_, _, err := w.admin.StageAssets(t.Context(), "nobody", func(up *api.AssetWriter) error {
		_, err := up.File(api.Asset{Path: "big", Size: int64(len(big))}, strings.NewReader(big))
		return err
	})
	if !errors.As(err, &refused) || refused.Code != api.CodeNotFound {
		t.Errorf("unknown trajectory: %v", err)
	}
	_, _, err = w.admin.StageAssets(t.Context(), "t2", func(up *api.AssetWriter) error {
		for range 2 {
			if _, err := up.File(api.Asset{Path: "twice", Size: int64(len(big))}, strings.NewReader(big)); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.As(err, &refused) || refused.Code != api.CodeInvalid || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
	reason := errors.New("the disk is on fire")
	if _, _, err := w.admin.StageAssets(t.Context(), "t2", func(up *api.AssetWriter) error {
		_, err := up.File(api.Asset{Path: "a", Size: int64(len(big))}, io.MultiReader(strings.NewReader(big[:1<<20]), failing{reason}))
		return err
	}); !errors.Is(err, reason) {
		t.Errorf("given up: %v", err)
	}
	if _, err := w.admin.CommitAssets(t.Context(), "t2", "nothing", api.AssetCommit{}); !errors.As(err, &refused) || refused.Code != api.CodeNotFound {
		t.Errorf("unknown upload: %v", err)
	}
	if list, err := w.admin.Assets(t.Context(), "t2"); err != nil || len(list.Assets) > 0 || list.Seeded != nil {
		t.Errorf("%+v, %v", list, err)
	}
	for _, call := range []func() error{
		func() error { _, err := w.admin.Assets(t.Context(), "nobody"); return err },
		func() error { return w.admin.SeedDeleted(t.Context(), "nobody", "c") },
		func() error { return w.admin.DropAssets(t.Context(), "../x", "s") },
	} {
		if err := call(); !errors.As(err, &refused) || refused.Code != api.CodeNotFound {
			t.Errorf("of nobody: %v", err)
		}
	}
	if err := w.admin.SeedDeleted(t.Context(), "t2", "c"); !errors.As(err, &refused) || refused.Code != api.CodeConflict {
		t.Errorf("deleted before copied: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
