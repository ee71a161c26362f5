package journal

import (
	"bytes"
	"io"
	"math"
	"os"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func held(t *testing.T, s *Store, name string, content []byte) (*Journal, *Spool, api.Body) {
	t.Helper()
	j, err := s.Journal(name)
	if err != nil {
		t.Fatal(err)
	}
	spool := j.NewSpool()
	t.Cleanup(spool.Discard)
	spool.Hold()
	for len(content) > 0 {
		n := min(len(content), 10<<10)
		if _, err := spool.Write(content[:n]); err != nil {
			t.Fatal(err)
		}
		content = content[n:]
	}
	return j, spool, j.Keep(spool)
}

func TestAHeldBodyIsReadableBeyondLimitAndQuota(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 20<<10) // 320 KiB
	for name, c := range map[string]struct {
		o    Options
		size int
		kept bool
	}{
		"kept whole":              {Options{}, len(content), true},
		"beyond the limit":        {Options{BodyLimit: 100 << 10}, len(content), false},
		"beyond the quota":        {Options{Quota: 200 << 10}, len(content), false},
		"short, beyond the quota": {Options{Quota: 1 << 10}, 30 << 10, false},
	} {
		c.o.Dir = t.TempDir()
		s, err := Open(c.o)
		if err != nil {
			t.Fatal(err)
		}
		j, spool, b := held(t, s, "t1", content[:c.size])
		if b.Size != int64(c.size) || b.SHA256 != api.HexSHA256(content[:c.size]) || b.Truncated == c.kept || spool.Whole() != c.kept || !spool.Readable() {
			t.Errorf("%s: %+v, whole %v, readable %v", name, b, spool.Whole(), spool.Readable())
		}
		f, err := spool.Open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil || !bytes.Equal(got, content[:c.size]) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		spool.Discard()
		left, err := os.ReadDir(s.o.Temp)
		if err != nil || len(left) > 0 || j.lent != 0 || !c.kept && j.bodyBytes != 0 {
			t.Errorf("%s: left %v, lent %d, reserved %d", name, left, j.lent, j.bodyBytes)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsOnlyHeldIsBounded(t *testing.T) {
	content := make([]byte, 200<<10)
	for name, change := range map[string]func(*Store){
		"per trajectory": func(s *Store) { s.maxLent = 150 << 10 },
		"by the volume":  func(s *Store) { s.roomFor = func(string) (int64, bool) { return 1 << 10, true } },
	} {
		s, err := Open(Options{Dir: t.TempDir(), BodyLimit: 70 << 10})
		if err != nil {
			t.Fatal(err)
		}
		change(s)
		j, spool, b := held(t, s, "t1", content)
		if spool.Readable() || spool.Err() != nil || !b.Truncated || b.SHA256 != api.HexSHA256(content) || j.lent != 0 {
			t.Errorf("%s: readable %v, %v, %+v, lent %d", name, spool.Readable(), spool.Err(), b, j.lent)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRoomIsLessThanWhatTheVolumeHasFree(t *testing.T) {
	free, ok := RoomOn(t.TempDir())
	if !ok || free == math.MaxInt64 {
		t.Errorf("%d %v", free, ok)
	}
	if _, ok := RoomOn("/nowhere/at/all"); ok {
		t.Error("there is room nowhere")
	}
}
