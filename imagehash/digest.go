package imagehash

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
)

// readSize is how much of a file is in memory at once, per processor, in bytes.
const readSize = 256 << 10

// digests looks at each path as it is now, on all processors. Of several errors
// it returns that of the first path, so that the same trouble reads the same.
func digests(fsys fs.FS, paths []string) ([]Input, error) {
	inputs := make([]Input, len(paths))
	errs := make([]error, len(paths))
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(paths)) {
		wg.Go(func() {
			d := digester{fsys: fsys, hash: sha256.New(), buf: make([]byte, readSize)}
			for failed.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= len(paths) {
					return
				}
				if inputs[i], errs[i] = d.digest(paths[i]); errs[i] != nil {
					failed.Store(1)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// digester is what one goroutine needs to hash files.
type digester struct {
	fsys fs.FS
	hash hash.Hash
	buf  []byte
}

func (d *digester) digest(p string) (Input, error) {
	fi, err := fs.Lstat(d.fsys, p)
	if err != nil {
		return Input{}, changed(p, err)
	}
	switch fi.Mode().Type() {
	case fs.ModeSymlink:
		return digestLink(d.fsys, p)
	case 0:
		return d.digestFile(p, fi)
	}
	return Input{}, &ChangedInputError{Path: p}
}

func digestLink(fsys fs.FS, p string) (Input, error) {
	target, err := fs.ReadLink(fsys, p)
	if err != nil {
		return Input{}, changed(p, err)
	}
	if err := checkName(p, target); err != nil {
		return Input{}, err
	}
	sum := sha256.Sum256([]byte(target))
	return Input{Path: p, Kind: KindLink, Digest: hex.EncodeToString(sum[:]), Target: target}, nil
}

// digestFile hashes a file that was last seen as fi says. If it is another one, or
// is written to while it is read, what was read was never its content.
func (d *digester) digestFile(p string, fi fs.FileInfo) (Input, error) {
	f, err := d.fsys.Open(p)
	if err != nil {
		return Input{}, changed(p, err)
	}
	defer f.Close()
	in := Input{Path: p, Kind: KindFile, Exec: executable(fi)}
	d.hash.Reset()
	for {
		n, err := io.ReadFull(f, d.buf)
		if in.Size == 0 {
			in.CRLF = crlfScript(d.buf[:min(n, longestShebang)])
		}
		d.hash.Write(d.buf[:n])
		in.Size += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return Input{}, fmt.Errorf("read build input %q: %w", p, err)
		}
	}
	now, err := f.Stat()
	if err != nil {
		return Input{}, changed(p, err)
	}
	if in.Size != fi.Size() || now.Size() != fi.Size() || !now.ModTime().Equal(fi.ModTime()) || now.Mode() != fi.Mode() {
		return Input{}, &ChangedInputError{Path: p}
	}
	in.Digest = hex.EncodeToString(d.hash.Sum(nil))
	return in, nil
}

// longestShebang is as much as Linux reads of a script's first line, in bytes
// (BINPRM_BUF_SIZE).
const longestShebang = 256

func crlfScript(start []byte) bool {
	line, _, _ := bytes.Cut(start, []byte("\n"))
	return bytes.HasPrefix(line, []byte("#!")) && bytes.HasSuffix(line, []byte("\r"))
}

// executable asks the owner's bit alone: the others depend on the umask of the
// checkout, and it is the one git keeps.
func executable(fi fs.FileInfo) bool { return fi.Mode()&0o100 != 0 }
