package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docker/docker/api/types/image"

	"github.com/linuxarena/ctis/e2e/secondca"
)

// ErrNoDebootstrap says that this machine cannot make a Debian image: that needs
// root and the package debootstrap.
var ErrNoDebootstrap = errors.New("making a Debian image needs root and the package debootstrap: apt-get install debootstrap")

// debianSuite and debianPackages are the recipe; the tag is its hash.
const debianSuite = "bookworm"

var debianPackages = []string{"ca-certificates", "curl", "openssl", "iproute2", "procps", "python3", "nginx-light"}

// debianExclude are left out of the archive: caches and what only matters to
// people. The rest is as a fresh Debian has it.
var debianExclude = []string{"./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/log/*", "./usr/share/doc/*", "./usr/share/man/*", "./usr/share/locale/*", "./dev/*", "./proc/*", "./sys/*"}

// runtimePackages are what [Runtimes] adds: one of each kind of program that
// decides about trust in a way of its own. The last four are what debootstrap does not
// find by itself, for another package names only what they provide.
var runtimePackages = []string{"wget", "git", "python3-requests", "python3-httpx", "nodejs", "default-jre-headless", "libwww-perl", "liblwp-protocol-https-perl", "ruby",
	"golang-go", "python3-pip", "cargo-web", "awscli", "perl-openssl-defaults", "gcc", "libc6-dev", "python3-cffi-backend"}

// runtimeExclude are left out of it besides: most of what compiles C and Rust, which cargo
// wants to be installed and nothing here uses, and Go's own tools as libraries.
var runtimeExclude = []string{"./usr/lib/gcc/x86_64-linux-gnu/*/cc1", "./usr/lib/gcc/x86_64-linux-gnu/*/lto1", "./usr/bin/*-lto-dump-*", "./usr/lib/rustlib/*/lib/*", "./usr/lib/go-*/pkg/linux_*/cmd/*"}

// GoProgram is the path, in the image of [Runtimes], of a program that Debian's Go
// compiled there. It prints what an URL has.
const GoProgram = "/usr/local/bin/fetch"

const goSource = `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	r, err := http.Get(os.Args[1])
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", r.Status)
	}
	if err == nil {
		_, err = io.Copy(os.Stdout, r.Body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`

// DebianRef is the tag of the image that [Debian] makes.
func DebianRef() string { return debianRef("debian", debianPackages, debianExclude) }

func debianRef(name string, packages, exclude []string) string {
	return reference(name, []byte(debianSuite), []byte(strings.Join(packages, " ")), []byte(strings.Join(exclude, " ")))
}

// Debian makes a minimal Debian with curl, Python, OpenSSL and the system's
// trust store, from Debian's packages, unless it is there. Making it takes about
// a minute.
func Debian(ctx context.Context, eng Engine) (string, error) {
	return debian(ctx, eng, "debian", debianPackages, debianExclude)
}

// Runtimes makes a Debian with many programs that speak TLS, the agent's among
// them, which trusts the second authority as well: it was put in and
// update-ca-certificates run, as a user's Dockerfile does. Making it takes about
// five minutes, and much less from the cache.
func Runtimes(ctx context.Context, eng Engine) (string, error) {
	base, err := debian(ctx, eng, "runtimes-base", append(slices.Clone(debianPackages), runtimePackages...), append(slices.Clone(debianExclude), runtimeExclude...))
	if err != nil {
		return "", err
	}
	ca, err := secondca.New()
	if err != nil {
		return "", err
	}
	return Scratch(ctx, eng, ScratchSpec{
		Name: "runtimes", Package: Agent().Package, From: base,
		Files: map[string]string{"/usr/local/share/ca-certificates/second.crt": string(ca.PEM()), "/usr/local/src/fetch.go": goSource},
		Config: []string{
			"RUN update-ca-certificates",
			"RUN export HOME=$(mktemp -d) && go build -o " + GoProgram + " /usr/local/src/fetch.go && rm -r $HOME",
		},
	})
}

func debian(ctx context.Context, eng Engine, name string, packages, exclude []string) (string, error) {
	ref := debianRef(name, packages, exclude)
	unlock, err := lock(ref)
	if err != nil {
		return "", err
	}
	defer unlock()
	if ok, err := exists(ctx, eng, ref); err != nil || ok {
		return ref, err
	}
	tree, err := debianTree(ctx, strings.ReplaceAll(path.Base(ref), ":", "-"), packages, exclude)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	resp, err := eng.ImageImport(ctx, image.ImportSource{Source: tree, SourceName: "-"}, ref, image.ImportOptions{
		Changes: []string{"ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", `CMD ["sleep", "infinity"]`},
	})
	if err != nil {
		return "", fmt.Errorf("import %q: %w", ref, err)
	}
	defer resp.Close()
	if err := progress(resp); err != nil {
		return "", fmt.Errorf("import %q: %w", ref, err)
	}
	return ref, nil
}

// debianTree opens the archive of a Debian with those packages, which is kept in
// the user's cache under that name.
func debianTree(ctx context.Context, name string, packages, exclude []string) (*os.File, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "ctis", "rootfs")
	archive := filepath.Join(cache, name+".tar")
	if f, err := os.Open(archive); err == nil {
		return f, nil
	}
	debootstrap, err := findDebootstrap()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ctis-debian-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, debootstrap, "--variant=minbase", "--include="+strings.Join(packages, ","), debianSuite, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("debootstrap: %w: %s", err, out[max(0, len(out)-2048):])
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	// Under its name only when it is whole.
	unfinished := fmt.Sprintf("%s.%d", archive, os.Getpid())
	defer os.Remove(unfinished)
	args := []string{"-C", dir, "--numeric-owner", "-cf", unfinished}
	for _, e := range exclude {
		args = append(args, "--exclude="+e)
	}
	if out, err := exec.CommandContext(ctx, "tar", append(args, ".")...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tar: %w: %s", err, out)
	}
	if err := os.Rename(unfinished, archive); err != nil {
		return nil, err
	}
	return os.Open(archive)
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
