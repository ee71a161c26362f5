package assets

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// put puts one file by hand.
func put(t *testing.T, f *files, name, content string) error {
	t.Helper()
	staged, sum, err := f.StageAssets(t.Context(), "t1", func(w *api.AssetWriter) error {
		_, err := w.File(api.Asset{Path: name, Size: int64(len(content)), Mode: 0o640, Modified: then}, strings.NewReader(content))
		return err
	})
	if err == nil {
		_, err = f.CommitAssets(t.Context(), "t1", staged.Stage, api.AssetCommit{AssetSum: sum})
	}
	return err
}

func TestPlacesOfSources(t *testing.T) {
	for _, c := range []struct{ paths, dest, want string }{
		{"a.txt", "b.txt", "b.txt"},
		{"x/a.txt", "b/", "b/a.txt"},
		{"x/a.txt", "./", "a.txt"},
		{"x/a.txt", ".", "a.txt"},
		{"site", "files", "files"},
		{"site/", "files/", "files/site"},
		{"site/.", "files/", "files"},
		{"site/.", "./", ""},
		{"a b", "t", "t/a t/b"},
		{"a", "/abs", "! is absolute"},
		{"a", "../up", "! segment \"..\""},
		{"a", "x/../y", "! segment \"..\""},
		{"a", "x//y", "! empty segment"},
		{"x/a y/a", "t/", "! would both be"},
	} {
		all, err := Place(strings.Fields(c.paths), c.dest)
		if says, refused := strings.CutPrefix(c.want, "! "); refused {
			var wrong *Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), says) || wrong.Hint() == "" {
				t.Errorf("%s to %s: %v %v", c.paths, c.dest, all, err)
			}
			continue
		}
		var got []string
		for _, s := range all {
			got = append(got, s.Dest)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s to %s: %q, %v", c.paths, c.dest, got, err)
		}
	}
}

func TestOnlyRegularFilesAreSent(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a": "A", "d/b": "B"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	send := func(path, dest string) (api.AssetSum, error) {
		w := api.NewAssetWriter(io.Discard)
		err := Send(w, []Source{{path, dest}}, nil)
		return w.Sum(), err
	}
	if sum, err := send(dir, ""); err != nil || sum.Files != 2 || sum.Bytes != 2 {
		t.Errorf("%+v, %v", sum, err)
	}
	absent := filepath.Join(dir, "absent")
	for path, says := range map[string]string{absent: "there is no " + strconv.Quote(absent), "absent": `there is no "absent"`, filepath.Join(dir, "a", "x"): "there is no "} {
		_, err := send(path, "x")
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "lstat") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := send(filepath.Join(dir, "a"), ""); err == nil || !strings.Contains(err.(*Error).Do, `"a"`) {
		t.Errorf("a file at the top without a name: %v", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "d", "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := send(dir, "x")
	if err == nil || !strings.Contains(err.Error(), `link" is a link`) || !strings.Contains(err.Error(), `pipe" is a named pipe`) {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"d/link", "pipe"} {
		if _, err := send(filepath.Join(dir, name), "x"); err == nil {
			t.Errorf("%s was sent", name)
		}
	}
}
