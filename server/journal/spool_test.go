package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// spool collects b, written in odd pieces.
func spool(t *testing.T, j *Journal, b []byte) *Spool {
	t.Helper()
	s := j.NewSpool()
	for i, rest := 1, b; len(rest) > 0; i = i*3%50021 + 1 {
		n := min(i, len(rest))
		if _, err := s.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Discard)
	return s
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func tempFiles(t *testing.T, s *Store) int {
	t.Helper()
	entries, err := os.ReadDir(s.o.Temp)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestSpoolGivesBackWhatWasWritten(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	for _, size := range []int{0, 1, api.InlineBody - 1, api.InlineBody, api.InlineBody + 1, 300 << 10} {
		b := bytes.Repeat([]byte("abcdefg\n"), size/8+1)[:size]
		sp := spool(t, j, b)
		if sp.Size() != int64(size) || sp.SHA256() != hexSum(b) || !sp.Whole() || sp.Err() != nil {
			t.Errorf("%d bytes: size %d, whole %v, err %v", size, sp.Size(), sp.Whole(), sp.Err())
		}
		for range 2 {
			r, err := sp.Open()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("%d bytes: %d came back (%v)", size, len(got), err)
			}
			if _, err := r.Seek(0, io.SeekStart); err != nil {
				t.Error(err)
			}
			r.Close()
		}
		link := filepath.Join(t.TempDir(), "file")
		for range 2 { // the second time replaces
			if err := sp.LinkTo(link); err != nil {
				t.Fatal(err)
			}
		}
		sp.Discard()
		sp.Discard()
		if got, err := os.ReadFile(link); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes: the linked file has %d (%v)", size, len(got), err)
		}
		if left, _ := os.ReadDir(filepath.Dir(link)); len(left) != 1 {
			t.Errorf("%d bytes: linking left %v", size, left)
		}
	}
	if n := tempFiles(t, s); n != 0 {
		t.Errorf("%d temporary files left", n)
	}
	if b := j.Status().Bytes; b != 0 {
		t.Errorf("%d bytes still reserved", b)
	}
}

func TestSpoolBeyondALimitStillCountsAndHashes(t *testing.T) {
	b := bytes.Repeat([]byte("0123456789"), 40<<10)
	for name, o := range map[string]Options{
		"body limit": {BodyLimit: 200 << 10},
		"quota":      {Quota: 200 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, o)
			j := journalOf(t, s, "t1")
			sp := spool(t, j, b)
			if sp.Whole() || sp.Err() != nil || sp.Size() != int64(len(b)) || sp.SHA256() != hexSum(b) {
				t.Errorf("whole %v, err %v, size %d", sp.Whole(), sp.Err(), sp.Size())
			}
			if _, err := sp.Open(); err == nil {
				t.Error("a body that was not kept can be opened")
			}
			if err := sp.LinkTo(filepath.Join(t.TempDir(), "x")); err == nil {
				t.Error("a body that was not kept can be linked")
			}
			want := api.Body{Size: int64(len(b)), SHA256: hexSum(b), Encoding: api.EncodingNone, Truncated: true}
			if got := j.Keep(sp); got != want {
				t.Errorf("described as %+v, want %+v", got, want)
			}
			if n, used := tempFiles(t, s), j.Status().Bytes; n != 0 || used != 0 {
				t.Errorf("%d temporary files and %d bytes are still held", n, used)
			}
		})
	}
}

func TestTheLimitItselfIsKept(t *testing.T) {
	s := openStore(t, Options{BodyLimit: 100 << 10})
	j := journalOf(t, s, "t1")
	if sp := spool(t, j, make([]byte, 100<<10)); !sp.Whole() {
		t.Error("a body of exactly the limit is not kept")
	}
	if sp := spool(t, j, make([]byte, 100<<10+1)); sp.Whole() {
		t.Error("a body one byte beyond the limit is kept")
	}
}

func TestConcurrentUploadsShareOneQuota(t *testing.T) {
	const quota = 1 << 20
	s := openStore(t, Options{Quota: quota})
	j := journalOf(t, s, "t1")
	var wg sync.WaitGroup
	spools := make([]*Spool, 12)
	for i := range spools {
		wg.Go(func() {
			spools[i] = spool(t, j, bytes.Repeat([]byte{byte(i)}, 200<<10))
			j.Keep(spools[i])
		})
	}
	wg.Wait()
	whole := 0
	for _, sp := range spools {
		if sp.Whole() {
			whole++
		}
	}
	if got := j.Status().Bytes; got > quota || got != int64(whole)*200<<10 {
		t.Errorf("%d bodies kept, %d bytes used of %d", whole, got, quota)
	}
	if whole == 0 {
		t.Error("nothing was kept")
	}
}

func TestASpoolThatCannotBeWrittenRemembersIt(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	if err := os.RemoveAll(s.o.Temp); err != nil {
		t.Fatal(err)
	}
	sp := j.NewSpool()
	if _, err := sp.Write(make([]byte, 100<<10)); !errors.Is(err, ErrStorage) {
		t.Fatalf("Write: %v, want ErrStorage", err)
	}
	if _, err := sp.Write([]byte("x")); !errors.Is(err, ErrStorage) {
		t.Errorf("the next Write: %v, want ErrStorage", err)
	}
	if err := sp.Close(); !errors.Is(err, ErrStorage) || !errors.Is(sp.Err(), ErrStorage) {
		t.Errorf("Close: %v, Err: %v", err, sp.Err())
	}
	if b := j.Keep(sp); b.Encoding != api.EncodingNone || !b.Truncated || sp.Whole() {
		t.Errorf("described as %+v", b)
	}
	if used := j.Status().Bytes; used != 0 {
		t.Errorf("%d bytes stay reserved", used)
	}
}

func TestABodyThatCannotBePutInPlaceIsAnError(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	sp := spool(t, j, make([]byte, 100<<10))
	if err := os.RemoveAll(j.bodyDir()); err != nil {
		t.Fatal(err)
	}
	if b := j.Keep(sp); b.Encoding != api.EncodingNone || !errors.Is(sp.Err(), ErrStorage) || sp.Whole() {
		t.Errorf("described as %+v, err %v", b, sp.Err())
	}
}

func TestTheSameBodyStandsOnTheDiskOnce(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	b := bytes.Repeat([]byte("same"), 50<<10)
	dir := t.TempDir()
	var first os.FileInfo
	for i := range 3 {
		sp := spool(t, j, b)
		if got := j.Keep(sp); got.Encoding != api.EncodingFile || got.Truncated {
			t.Fatalf("described as %+v", got)
		}
		link := filepath.Join(dir, strings.Repeat("k", i+1))
		if err := sp.LinkTo(link); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(link)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = fi
		} else if !os.SameFile(first, fi) {
			t.Errorf("upload %d has bytes of its own", i+1)
		}
		sp.Discard()
	}
	if got := j.Status().Bytes; got != int64(len(b)) {
		t.Errorf("%d bytes used, want %d", got, len(b))
	}
	if n := tempFiles(t, s); n != 0 {
		t.Errorf("%d temporary files left", n)
	}
	if got, err := os.ReadFile(filepath.Join(j.bodyDir(), hexSum(b))); err != nil || !bytes.Equal(got, b) {
		t.Errorf("the kept body has %d bytes (%v)", len(got), err)
	}
}

// FuzzBodyRoundTrip: a record's line gives back every byte of its body.
func FuzzBodyRoundTrip(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "\x00\x01\x1f\x7f", "\xff\xfe", "<a href=\"x\">&amp;</a>", "\u2028\u2029\ufffd", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\r\nb\\\"", "\xc0\x80", "😀\U0010ffff",
	} {
		f.Add([]byte(seed))
	}
	s, err := Open(Options{Dir: filepath.Join(f.TempDir(), "journal")})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	j, err := s.Journal("t1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > api.InlineBody {
			t.Skip()
		}
		r := exchange("/")
		r.Request.Body = j.Keep(spool(t, j, b))
		l, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		defer l.free()
		var got api.Record
		if err := json.Unmarshal(l.seal(1, zeroPrev), &got); err != nil {
			t.Fatal(err)
		}
		content := []byte(got.Request.Body.Content)
		if got.Request.Body.Encoding == api.EncodingBase64 {
			if content, err = base64.StdEncoding.DecodeString(got.Request.Body.Content); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(content, b) || got.Request.Body.SHA256 != hexSum(b) || got.Request.Body.Size != int64(len(b)) {
			t.Errorf("%q came back as %q", b, content)
		}
	})
}
