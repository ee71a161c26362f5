package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docker/docker/api/types/image"
)

// ErrNoDebootstrap says that this machine cannot make a Debian image: that needs
// root and the package debootstrap.
var ErrNoDebootstrap = errors.New("making a Debian image needs root and the package debootstrap: apt-get install debootstrap")

// debianSuite and debianPackages are the recipe; the tag is its hash.
const debianSuite = "bookworm"

var debianPackages = []string{"ca-certificates", "curl", "openssl", "iproute2", "procps", "python3"}

// debianExclude are left out of the archive: caches and what only matters to
// people. The rest is as a fresh Debian has it.
var debianExclude = []string{"./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/log/*", "./usr/share/doc/*", "./usr/share/man/*", "./usr/share/locale/*", "./dev/*", "./proc/*", "./sys/*"}

// DebianRef is the tag of the image that [Debian] makes.
func DebianRef() string {
	return reference("debian", []byte(debianSuite), []byte(strings.Join(debianPackages, " ")), []byte(strings.Join(debianExclude, " ")))
}

// Debian makes a minimal Debian with curl, Python, OpenSSL and the system's
// trust store, from Debian's packages, unless it is there. Making it takes about
// a minute.
func Debian(ctx context.Context, eng Engine) (string, error) {
	ref := DebianRef()
	unlock, err := lock(ref)
	if err != nil {
		return "", err
	}
	defer unlock()
	if ok, err := exists(ctx, eng, ref); err != nil || ok {
		return ref, err
	}
	debootstrap, err := findDebootstrap()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "ctis-debian-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, debootstrap, "--variant=minbase", "--include="+strings.Join(debianPackages, ","), debianSuite, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("debootstrap: %w: %s", err, out[max(0, len(out)-2048):])
	}
	if err := importDir(ctx, eng, dir, ref); err != nil {
		return "", fmt.Errorf("import %q: %w", ref, err)
	}
	return ref, nil
}

// lock makes the tests, which run at once in several processes, wait for the one
// that makes the image instead of making it too.
func lock(ref string) (unlock func(), err error) {
	name := filepath.Join(os.TempDir(), strings.NewReplacer("/", "-", ":", "-").Replace(ref)+".lock")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	return func() { f.Close() }, nil
}

func findDebootstrap() (string, error) {
	if os.Geteuid() != 0 {
		return "", ErrNoDebootstrap
	}
	for _, name := range []string{"debootstrap", "/usr/sbin/debootstrap"} { // sbin may not be on PATH
		if p, err := exec.LookPath(name); err == nil {
			return filepath.Abs(p)
		}
	}
	return "", ErrNoDebootstrap
}

// importDir makes an image of a directory tree.
func importDir(ctx context.Context, eng Engine, dir, ref string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // tar does not outlive a failed import
	args := []string{"-C", dir, "--numeric-owner", "-c"}
	for _, e := range debianExclude {
		args = append(args, "--exclude="+e)
	}
	tar := exec.CommandContext(ctx, "tar", append(args, ".")...)
	var complaint bytes.Buffer
	tar.Stderr = &complaint
	stream, err := tar.StdoutPipe()
	if err != nil {
		return err
	}
	if err := tar.Start(); err != nil {
		return err
	}
	resp, err := eng.ImageImport(ctx, image.ImportSource{Source: stream, SourceName: "-"}, ref, image.ImportOptions{
		Changes: []string{"ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", `CMD ["sleep", "infinity"]`},
	})
	if err == nil {
		err = progress(resp)
		resp.Close()
	}
	if err != nil {
		cancel()
		_ = tar.Wait() // it was cut off
		return err
	}
	// Drained, so that tar ends by itself whatever the engine left unread.
	_, _ = io.Copy(io.Discard, stream)
	if err := tar.Wait(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, complaint.String())
	}
	return nil
}
