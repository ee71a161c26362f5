package imagehash

import (
	"bytes"
	"context"
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
func digests(ctx context.Context, fsys fs.FS, paths []string, links map[string]bool) ([]Input, error) {
	inputs := make([]Input, len(paths))
	errs := make([]error, len(paths))
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(paths)) {
		wg.Go(func() {
			d := digester{ctx: ctx, fsys: fsys, hash: sha256.New(), buf: make([]byte, readSize)}
			for failed.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= len(paths) {
					return
				}
				if inputs[i], errs[i] = d.digest(paths[i], links[paths[i]]); errs[i] != nil {
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
	ctx  context.Context // of the one call that hashes
	fsys fs.FS
	hash hash.Hash
	buf  []byte
}

// digest takes the path for what it was found to be. What has become a link, or
// one no longer, since then is another source; whoever builds it sees that.
func (d *digester) digest(p string, link bool) (Input, error) {
	if err := d.ctx.Err(); err != nil {
		return Input{}, err
	}
	if link {
		return digestLink(d.fsys, p)
	}
	return d.digestFile(p)
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

// digestFile hashes a file. If it is written to meanwhile, what was read was never
// its content.
func (d *digester) digestFile(p string) (Input, error) {
	f, err := openInput(d.fsys, p)
	if err != nil {
		return Input{}, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return Input{}, changed(p, err)
	}
	if !before.Mode().IsRegular() {
		return Input{}, &ChangedInputError{Path: p}
	}
	in := Input{Path: p, Kind: KindFile, Exec: executable(before), Size: before.Size()}
	d.hash.Reset()
	// As much as it has: whether there is more by then, its size says as well as
	// another read, which costs tens of thousands of small files a tenth more.
	for left := in.Size; left > 0; {
		if err := d.ctx.Err(); err != nil {
			return Input{}, err
		}
		n, err := io.ReadFull(f, d.buf[:min(left, readSize)])
		if left == in.Size {
			in.CRLF = crlfScript(d.buf[:min(n, longestShebang)])
		}
		d.hash.Write(d.buf[:n])
		left -= int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return Input{}, &ChangedInputError{Path: p}
		}
		if err != nil {
			return Input{}, fmt.Errorf("read build input %q: %w", p, err)
		}
	}
	after, err := f.Stat()
	if err != nil {
		return Input{}, changed(p, err)
	}
	if after.Size() != before.Size() || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
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
