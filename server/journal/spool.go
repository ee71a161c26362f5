package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/linuxarena/ctis/server/api"
)

// spoolPrefix begins the names of files in Options.Temp.
const spoolPrefix = "spool-"

// Spool collects one body: its first 64 KiB in memory, a longer one in a file.
// It counts and hashes everything, also what limits keep it from keeping. One
// goroutine writes; after Close any number may read.
type Spool struct {
	j    *Journal
	size int64
	hash hash.Hash // nil while mem is all there is
	sum  string    // hex, once closed

	mem      []byte
	file     *os.File // open while writing
	path     string   // "" while in memory
	kept     bool     // path is the journal's own copy
	reserved int64    // bytes of the quota held for path
	refused  bool     // limit or quota: nothing is kept
	err      error    // storage failed

	answer bool // see NewAnswer

	hold  bool  // see Hold
	loose bool  // held beyond limit or quota: readable, and not kept
	lent  int64 // bytes of the allowance for that
}

// NewSpool makes a spool for a body of this trajectory. Its owner must call
// Discard when the exchange is over.
func (j *Journal) NewSpool() *Spool {
	return &Spool{j: j}
}

// NewAnswer makes a spool for what a client gets from a backend or an upstream. Nothing
// depends on its being kept: a storage error is to it what a limit is, and it leaves
// half of the quota to what the trajectory sends, which scorers decide from.
func (j *Journal) NewAnswer() *Spool {
	return &Spool{j: j, answer: true}
}

// Write adds to the body. It fails only with [ErrStorage], which [Spool.Err]
// then remembers; a body beyond the limits is counted and hashed, not kept.
func (s *Spool) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.sum != "" {
		return 0, errors.New("spool: written after it was closed")
	}
	s.size += int64(len(p))
	if s.hash == nil && len(s.mem)+len(p) <= api.InlineBody {
		s.mem = append(s.mem, p...)
		return len(p), nil
	}
	if s.hash == nil {
		s.hash = sha256.New()
		s.hash.Write(s.mem)
	}
	s.hash.Write(p)
	if s.refused {
		return len(p), nil
	}
	if err := s.toDisk(p); err != nil {
		s.refuse()
		if s.fail(err); s.err != nil {
			return 0, s.err
		}
	}
	return len(p), nil
}

// fail remembers that storage failed, where that matters.
func (s *Spool) fail(err error) {
	if !s.answer {
		s.err = s.j.storageError(err)
	}
}

// toDisk adds p to the file, which it makes out of what is in memory first.
func (s *Spool) toDisk(p []byte) error {
	need := int64(len(p))
	if s.path == "" {
		need += int64(len(s.mem))
	}
	if !s.loose && (s.size > s.j.store.o.BodyLimit || !s.j.reserve(need, s.answer)) {
		if !s.hold {
			s.refuse()
			return nil
		}
		s.loosen()
		need = s.size
	} else if !s.loose {
		s.reserved += need
	}
	if s.loose {
		if !s.j.lend(need) {
			s.refuse()
			return nil
		}
		s.lent += need
	}
	if s.path == "" {
		f, err := os.CreateTemp(s.j.store.o.Temp, spoolPrefix+"*")
		if err != nil {
			return err
		}
		s.file, s.path = f, f.Name()
		if _, err := f.Write(s.mem); err != nil {
			return err
		}
		s.mem = nil
	}
	_, err := s.file.Write(p)
	return err
}

// refuse gives up keeping the body and frees what it held.
func (s *Spool) refuse() {
	s.refused = true
	s.mem = nil
	if s.file != nil {
		s.file.Close() // its bytes are given up: how that went does not matter
		s.file = nil
	}
	if s.path != "" {
		if !s.kept {
			os.Remove(s.path) // likewise; Open sweeps what stays
		}
		s.path = ""
	}
	if s.reserved > 0 {
		s.j.release(s.reserved)
		s.reserved = 0
	}
	if s.lent > 0 {
		s.j.takeBack(s.lent)
		s.lent = 0
	}
}

// Close ends the body. Size and SHA256 are final and the body can be read.
func (s *Spool) Close() error {
	if s.sum != "" {
		return s.err
	}
	s.sum = s.SHA256()
	if s.file != nil {
		err := s.file.Close()
		s.file = nil
		if err != nil && s.err == nil { // some filesystems report a full disk only now
			s.refuse()
			s.fail(err)
		}
	}
	return s.err
}

// Err is the storage error that Write, Close or [Journal.Keep] met. The
// exchange must then not be acknowledged.
func (s *Spool) Err() error { return s.err }

// Size is the number of bytes written.
func (s *Spool) Size() int64 { return s.size }

// SHA256 is the digest of everything written so far, in hex.
func (s *Spool) SHA256() string {
	switch {
	case s.sum != "":
		return s.sum
	case s.hash == nil:
		return api.HexSHA256(s.mem)
	}
	return hex.EncodeToString(s.hash.Sum(nil))
}

// Whole reports whether the body was kept: false beyond a limit or the quota,
// and after a storage error.
func (s *Spool) Whole() bool { return s.Readable() && !s.loose }

// Readable reports whether all of the body is there to be read, kept or held.
func (s *Spool) Readable() bool { return !s.refused && s.err == nil }

// Open reads the body from its beginning. It may be called several times after
// Close and before Discard; what it returned stays readable after Discard.
func (s *Spool) Open() (io.ReadSeekCloser, error) {
	switch {
	case s.sum == "":
		return nil, errors.New("spool: opened before it was closed")
	case !s.Readable():
		return nil, fmt.Errorf("spool: a body of %d bytes was not kept", s.size)
	case s.path != "":
		return os.Open(s.path)
	}
	return memReader{bytes.NewReader(s.mem)}, nil
}

// Head reads the first n bytes of the body, or all of it; whole says which. Those in
// memory are not copied: they are not to be changed, nor used after Discard.
func (s *Spool) Head(n int) (b []byte, whole bool, err error) {
	switch {
	case s.sum == "":
		return nil, false, errors.New("spool: read before it was closed")
	case !s.Readable():
		return nil, false, fmt.Errorf("spool: a body of %d bytes was not kept", s.size)
	case s.path == "":
		return s.mem[:min(n, len(s.mem))], len(s.mem) <= n, nil
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	b = make([]byte, min(int64(n), s.size))
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, false, err
	}
	return b, int64(len(b)) == s.size, nil
}

type memReader struct{ *bytes.Reader }

func (memReader) Close() error { return nil }

// LinkTo puts the body at path, replacing what is there in one step. A body on
// disk is linked, so it takes no further room where the filesystem has links.
// The file shares its bytes with the journal: it must be replaced, never
// written into.
func (s *Spool) LinkTo(path string) error {
	if s.sum == "" {
		return errors.New("spool: linked before it was closed")
	}
	if !s.Whole() {
		return fmt.Errorf("spool: a body of %d bytes was not kept", s.size)
	}
	if err := place(s, path); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return nil
}

// Discard frees the spool's memory or file. It may be called again.
func (s *Spool) Discard() {
	if s.sum == "" {
		s.sum = s.SHA256()
	}
	s.refuse()
}
