package api

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
)

// An upload is an uncompressed tar with two kinds of entries: regular files, and
// further names of regular files that came before (as hard links). It ends with
// the archive's own end, so that a stream that broke off is not taken for a
// shorter one.

// AssetSummer computes an [AssetSum], one file after another.
type AssetSummer struct {
	sum AssetSum
	h   hash.Hash
}

// Add counts a file in.
func (s *AssetSummer) Add(a Asset) {
	if s.h == nil {
		s.h = sha256.New()
	}
	s.sum.Files++
	s.sum.Bytes += a.Size
	fmt.Fprintf(s.h, "%s %d %d %o %q\n", a.SHA256, a.Size, a.Modified.UnixMicro(), a.Mode, a.Path)
}

// Sum is that of the files so far.
func (s *AssetSummer) Sum() AssetSum {
	sum := s.sum
	if s.h == nil {
		sum.Digest = HexSHA256(nil)
		return sum
	}
	sum.Digest = hex.EncodeToString(s.h.Sum(nil))
	return sum
}

// AssetWriter writes an upload.
type AssetWriter struct {
	tar *tar.Writer
	sum AssetSummer
}

// NewAssetWriter makes one that writes to w.
func NewAssetWriter(w io.Writer) *AssetWriter { return &AssetWriter{tar: tar.NewWriter(w)} }

// File sends a file: path, size, time and mode are a's, and content must have
// exactly that many bytes. It returns a with its digest.
func (w *AssetWriter) File(a Asset, content io.Reader) (Asset, error) {
	if err := w.begin(&a, tar.Header{Typeflag: tar.TypeReg, Size: a.Size}); err != nil {
		return a, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.tar, h), content)
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && n != a.Size {
		return a, fmt.Errorf("%q changed while it was read", a.Path)
	}
	if err != nil {
		return a, err
	}
	a.SHA256 = hex.EncodeToString(h.Sum(nil))
	w.sum.Add(a)
	return a, nil
}

// Link sends a further name of a file that was sent: path, time and mode are its
// own, size and digest that file's.
func (w *AssetWriter) Link(a Asset, of Asset) error {
	if err := w.begin(&a, tar.Header{Typeflag: tar.TypeLink, Linkname: of.Path}); err != nil {
		return err
	}
	a.Size, a.SHA256 = of.Size, of.SHA256
	w.sum.Add(a)
	return nil
}

func (w *AssetWriter) begin(a *Asset, h tar.Header) error {
	if err := CheckAssetPath(a.Path); err != nil {
		return fmt.Errorf("asset %q: %w", a.Path, err)
	}
	// PAX alone holds every path and parts of seconds.
	h.Name, h.Mode, h.ModTime, h.Format = a.Path, int64(a.Mode), a.Modified.Truncate(time.Microsecond), tar.FormatPAX
	a.Modified = h.ModTime
	return w.tar.WriteHeader(&h)
}

// Sum is that of everything sent so far.
func (w *AssetWriter) Sum() AssetSum { return w.sum.Sum() }

// Close ends the upload.
func (w *AssetWriter) Close() error { return w.tar.Close() }

// AssetReader reads an upload. Nothing in it is believed before it was counted.
type AssetReader struct {
	tar *tar.Reader
	end *EndOfTar
	sum AssetSummer

	seen  map[string]Asset
	names int64
	bytes int64 // that take room
}

// NewAssetReader makes one that reads from r.
func NewAssetReader(r io.Reader) *AssetReader {
	end := &EndOfTar{R: r}
	return &AssetReader{tar: tar.NewReader(end), end: end, seen: map[string]Asset{}}
}

// Next gives each file of the upload: file takes a new one and must read all of
// content, link a further name of one that came before. Their errors end it, as does
// io.EOF the upload. An upload that is not as it must be is an *[Error].
func (r *AssetReader) Next(file func(a Asset, content io.Reader) error, link func(a, of Asset) error) error {
	h, err := r.tar.Next()
	if err == io.EOF {
		if err := r.end.Check(); err != nil {
			return Errorf(400, CodeInvalid, "upload of assets: %v", err)
		}
		return io.EOF
	}
	if err != nil {
		return Errorf(400, CodeInvalid, "upload of assets: %v", err)
	}
	a := Asset{Path: h.Name, Modified: h.ModTime.UTC().Truncate(time.Microsecond), Mode: uint32(h.Mode & 0o7777)}
	if err := r.admit(a, h); err != nil {
		return Errorf(400, CodeInvalid, "asset %q: %v", a.Path, err)
	}
	if h.Typeflag == tar.TypeLink {
		of, ok := r.seen[h.Linkname]
		if !ok {
			return Errorf(400, CodeInvalid, "asset %q: there is no %q before it", a.Path, h.Linkname)
		}
		a.Size, a.SHA256 = of.Size, of.SHA256
		err = link(a, of)
	} else {
		a.Size = h.Size
		digest := sha256.New()
		content := &io.LimitedReader{R: io.TeeReader(r.tar, digest), N: h.Size + 1}
		if err = file(a, content); err == nil && content.N != 1 {
			err = Errorf(400, CodeInvalid, "asset %q: it is not of %d bytes", a.Path, h.Size)
		}
		a.SHA256 = hex.EncodeToString(digest.Sum(nil))
	}
	if err != nil {
		return err
	}
	r.end.Mark()
	r.seen[a.Path] = a
	r.sum.Add(a)
	return nil
}

func (r *AssetReader) admit(a Asset, h *tar.Header) error {
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeLink || SparseInTar(h) {
		return errors.New("it is no regular file")
	}
	if err := CheckAssetPath(a.Path); err != nil {
		return err
	}
	if _, twice := r.seen[a.Path]; twice {
		return errors.New("it is there twice")
	}
	if r.names += int64(len(a.Path)); r.names > MaxAssetNames {
		return fmt.Errorf("paths of more than %d bytes", MaxAssetNames)
	}
	if len(r.seen) == MaxAssets {
		return fmt.Errorf("more than %d files", MaxAssets)
	}
	if h.Typeflag == tar.TypeReg {
		if h.Size < 0 || h.Size > MaxAssetBytes-r.bytes {
			return fmt.Errorf("more than %d bytes", int64(MaxAssetBytes))
		}
		r.bytes += h.Size
	}
	return nil
}

// Files are those that have been read, by path.
func (r *AssetReader) Files() map[string]Asset { return r.seen }

// Sum is that of everything read so far.
func (r *AssetReader) Sum() AssetSum { return r.sum.Sum() }

// SparseInTar says whether an entry is of a form that says of a file where it has
// holes: a few bytes are gigabytes of zeros then. Nothing that is read here has it.
func SparseInTar(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// EndOfTar passes an archive on and watches for its end: two blocks of zeros,
// which archive/tar does not insist on. Without them the archive may have been cut
// off behind any entry.
type EndOfTar struct {
	R     io.Reader
	zeros int   // the last bytes of what was read, up to two blocks
	n     int64 // bytes since Mark
}

// Mark is called when all content of an entry has been read, before the next one is
// asked for. Then zeros that were content are not taken for the end.
func (e *EndOfTar) Mark() { e.n = 0 }

// Read implements [io.Reader].
func (e *EndOfTar) Read(p []byte) (int, error) {
	n, err := e.R.Read(p)
	tail := 0
	for tail < n && p[n-1-tail] == 0 {
		tail++
	}
	if tail == n {
		tail += e.zeros
	}
	e.zeros = min(tail, 2*tarBlock)
	e.n += int64(n)
	return n, err
}

const tarBlock = 512

// Check reads what is left, which may only be zeros, and says whether the archive
// is whole.
func (e *EndOfTar) Check() error {
	if e.zeros < 2*tarBlock || e.n < 2*tarBlock { // of padding there is less than a block
		return errors.New("the archive is cut off")
	}
	buf := make([]byte, 4<<10)
	for range 64 { // writers pad to whole records, of 10 KiB as a rule
		n, err := e.Read(buf)
		for _, c := range buf[:n] {
			if c != 0 {
				return errors.New("something follows the archive's end")
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the archive has no end")
}
