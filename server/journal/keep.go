package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"
	"unsafe"

	"github.com/linuxarena/ctis/server/api"
)

// Keep describes a finished body for a record and keeps its bytes: up to
// [api.InlineBody] in the description itself, longer ones as a file beside the
// journal. Beyond a limit or the quota the description says truncated, and
// [Spool.Whole] is false from then on. When the file cannot be put in place,
// [Spool.Err] says so and the exchange must not be acknowledged.
func (j *Journal) Keep(s *Spool) api.Body {
	if s.sum == "" {
		s.Close() // remembered by Err
	}
	b := api.Body{Size: s.size, SHA256: s.sum}
	switch {
	case s.Whole() && s.path == "":
		b.Encoding, b.Content = encodeKept(s.mem)
		if !j.roomInLine(int64(len(b.Content)), s.answer) {
			b.Content = ""
			if s.loose = s.hold; !s.hold {
				s.refuse()
			}
		}
	case s.Whole():
		b.Encoding = api.EncodingFile
		if err := j.keepFile(s); err != nil {
			s.refuse()
			s.fail(err)
		}
	}
	if !s.Whole() {
		b.Encoding, b.Truncated = api.EncodingNone, true
	}
	return b
}

// Encode turns bytes into what a record holds: the text itself where JSON gives
// back every byte of it without swelling, base64 otherwise.
func Encode(b []byte) (encoding, content string) {
	if utf8.Valid(b) && !swells(b) {
		return api.EncodingUTF8, string(b)
	}
	return api.EncodingBase64, base64.StdEncoding.EncodeToString(b)
}

// encodeKept is Encode for bytes that nobody changes any more: text is not copied,
// since there may be thousands of such bodies at one time.
func encodeKept(b []byte) (encoding, content string) {
	if utf8.Valid(b) && !swells(b) {
		return api.EncodingUTF8, unsafe.String(unsafe.SliceData(b), len(b))
	}
	return Encode(b)
}

// swells tells text that JSON would more than double: of control characters, each
// becomes six bytes. Short ones are left readable.
func swells(b []byte) bool {
	const short = 1 << 10
	if len(b) <= short {
		return false
	}
	size := 0
	for _, c := range b {
		switch {
		case c >= utf8.RuneSelf || plain[c]:
			size++
		case c >= ' ' || c >= '\b' && c <= '\r' && c != '\v':
			size += 2
		default:
			size += 6
		}
	}
	return size > 2*len(b)
}

// keepFile puts a spooled body in bodies/, and from then on the spool reads and
// links the file there: a body sent a thousand times stands on the disk once,
// also when every copy was stored under a key of its own.
func (j *Journal) keepFile(s *Spool) error {
	path := filepath.Join(j.bodyDir(), s.sum)
	same := func() bool {
		fi, err := os.Lstat(path)
		return err == nil && fi.Mode().IsRegular() && fi.Size() == s.size
	}
	added := false
	if !same() {
		err := os.Link(s.path, path)
		if err != nil && !same() { // not because another exchange was faster
			err = place(s, path)
		}
		if err != nil && !same() {
			return err
		}
		added = err == nil
	}
	if added {
		j.mu.Lock()
		s.reserved = 0 // now the kept body's
		j.unsynced = append(j.unsynced, path, j.bodyDir())
		j.mu.Unlock()
	}
	s.refuse()
	s.path, s.kept, s.refused = path, true, false
	return nil
}

// place makes path a file with the spool's bytes, in one step: a new name
// beside it, then a rename.
func place(s *Spool, path string) error {
	temp := path + "." + rand.Text() + ".new"
	if err := fill(s, temp); err != nil {
		return err
	}
	err := os.Rename(temp, path)
	// Where both names already were links to one file, rename does nothing and
	// leaves both; else there is nothing to remove.
	os.Remove(temp)
	return err
}

// fill creates the file at path, which must not exist, out of the spool.
func fill(s *Spool, path string) error {
	if s.path != "" {
		if err := os.Link(s.path, path); err == nil {
			return nil
		}
		// No links here, or too many of this file: copy.
	}
	var from io.Reader = bytes.NewReader(s.mem)
	if s.path != "" {
		f, err := os.Open(s.path)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path) // the error that counts is the one before
	}
	return err
}
