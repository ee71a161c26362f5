package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestAKeptBodyIsReadByItsDigestAlone: what is asked for is never a path.
func TestAKeptBodyIsReadByItsDigestAlone(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	sum := api.HexSHA256([]byte("kept"))
	if err := os.WriteFile(filepath.Join(j.bodyDir(), sum), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	body, size, err := j.Body(sum)
	if err != nil || size != 4 {
		t.Fatalf("%d, %v", size, err)
	}
	if b, err := io.ReadAll(body); string(b) != "kept" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	body.Close()
	link := strings.Repeat("a", 64)
	if err := os.Mkdir(filepath.Join(j.bodyDir(), link), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "../journal.jsonl", strings.ToUpper(sum), sum + "0", strings.Repeat("0", 64), link} {
		if _, _, err := j.Body(bad); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
