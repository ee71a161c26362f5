package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// disk is a filesystem with limited room, for one file.
type disk struct {
	mu        sync.Mutex
	room      int64 // no byte beyond this offset can be written
	noCut     bool  // truncating fails too
	syncs     int
	syncFails bool
}

type diskFile struct {
	*os.File
	disk *disk
}

func (d *disk) open(path string) (file, error) {
	f, err := openJournalFile(path)
	if err != nil {
		return nil, err
	}
	return diskFile{f.(*os.File), d}, nil
}

func (f diskFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if off+int64(len(p)) > f.disk.room {
		n, _ := f.File.WriteAt(p[:max(0, f.disk.room-off)], off)
		return n, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

func (f diskFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.noCut {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

func (f diskFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.syncs++
	if f.disk.syncFails {
		return syscall.EIO
	}
	return nil
}

func (d *disk) set(change func(*disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func openOn(t *testing.T, d *disk) (*Store, *Journal) {
	t.Helper()
	s, err := open(Options{Dir: filepath.Join(t.TempDir(), "journal")}, d.open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, journalOf(t, s, "t1")
}

func TestAFullDiskAcknowledgesNothingAndRecovers(t *testing.T) {
	for _, noCut := range []bool{false, true} {
		d := &disk{room: 1 << 20}
		_, j := openOn(t, d)
		mustAppend(t, j, exchange("/1"))
		r := running("/2")
		mustAppend(t, j, r)
		good := bytes.Join(stored(t, j), []byte("\n"))
		before := j.Status()

		for extra := range int64(60) {
			d.set(func(d *disk) { d.room, d.noCut = before.Bytes+extra, noCut })
			if err := j.Append(exchange("/a-rather-long-target-that-leaves-bytes-behind")); !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EIO) {
				t.Fatalf("Append on a full disk: %v, want ErrStorage with its cause", err)
			}
			if err := j.Finish(r.Seq, &api.Outcome{}); !errors.Is(err, ErrStorage) {
				t.Fatalf("Finish on a full disk: %v, want ErrStorage", err)
			}
			if got := j.Status(); got != before {
				t.Fatalf("status %+v after failures, want %+v", got, before)
			}
			if got := read(t, j, api.JournalQuery{Raw: true}); !bytes.Equal(bytes.Join(got, []byte("\n")), good) {
				t.Fatal("a reader sees what was not acknowledged")
			}
		}
		d.set(func(d *disk) { d.room, d.noCut = 1<<20, false })
		next := exchange("/3")
		mustAppend(t, j, next)
		if next.Seq != 3 {
			t.Errorf("the next record has number %d, want 3", next.Seq)
		}
		if err := j.Finish(r.Seq, &api.Outcome{}); err != nil {
			t.Errorf("Finish after recovery: %v", err)
		}
		checkChain(t, stored(t, j))
	}
}

func TestAShortLineAfterALongTornOneLeavesNoRest(t *testing.T) {
	d := &disk{room: 1 << 20}
	s, j := openOn(t, d)
	mustAppend(t, j, exchange("/1"))
	d.set(func(d *disk) { d.room, d.noCut = j.Status().Bytes+400, true })
	long := exchange("/" + string(bytes.Repeat([]byte("x"), 5000)))
	if err := j.Append(long); !errors.Is(err, ErrStorage) {
		t.Fatal(err)
	}
	d.set(func(d *disk) { d.room = 1 << 20 })
	if err := j.Append(exchange("/2")); !errors.Is(err, ErrStorage) {
		t.Fatalf("appended over a rest that cannot be removed: %v", err)
	}
	d.set(func(d *disk) { d.noCut = false })
	mustAppend(t, j, exchange("/2"))
	checkChain(t, stored(t, j))
	s.Close()
	again := openStore(t, Options{Dir: filepath.Dir(j.dir)})
	if p := again.Problems(); len(p) != 0 {
		t.Errorf("reopening finds problems %q", p)
	}
}

func TestAFailedFlushIsAProblemAndNotAFailedAppend(t *testing.T) {
	d := &disk{room: 1 << 20, syncFails: true}
	s, j := openOn(t, d)
	mustAppend(t, j, exchange("/1"))
	if err := j.sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("flush: %v, want EIO", err)
	}
	mustAppend(t, j, exchange("/2"))
	if err := s.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v, want the failed flush", err)
	}
}

func TestOneFlushServesManyLines(t *testing.T) {
	d := &disk{room: 1 << 20}
	s, j := openOn(t, d)
	for range 100 {
		mustAppend(t, j, exchange("/"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.syncs == 0 || d.syncs > 50 {
		t.Errorf("100 lines took %d flushes", d.syncs)
	}
}
