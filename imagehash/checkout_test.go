package imagehash

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// copied runs a command that copies the checkout in $1 to $2.
func copied(t *testing.T, from, script string) string {
	t.Helper()
	to := t.TempDir()
	cmd := exec.Command("sh", "-euc", script, "sh", from, to)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// However a source comes to a machine, its tag is the same.
func TestHashSurvivesEveryWayToCopyASource(t *testing.T) {
	want := sum(t, fixed(), nil).Full
	from := t.TempDir()
	write(t, from, fixed())
	const commit = `cd "$1"; [ -d .git ] || { git init -q .; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm x; }; `
	for name, script := range map[string]string{
		"cp":                 `cp -R "$1/." "$2"`,
		"cp of times":        `cp -a "$1/." "$2"`,
		"tar":                `tar -C "$1" -c . | tar -C "$2" -x`,
		"tar, umask 077":     `umask 077; tar -C "$1" -c . | tar -C "$2" --no-same-permissions -x`,
		"git, umask 002":     commit + `umask 002; git clone -q "$1" "$2/c"; mv "$2/c"/* "$2/c/.dockerignore" "$2"; rm -rf "$2/c"`,
		"git, umask 022":     commit + `umask 022; git clone -q "$1" "$2/c"; mv "$2/c"/* "$2/c/.dockerignore" "$2"; rm -rf "$2/c"`,
		"git, umask 077":     commit + `umask 077; git clone -q "$1" "$2/c"; mv "$2/c"/* "$2/c/.dockerignore" "$2"; rm -rf "$2/c"`,
		"git archive":        commit + `git archive HEAD | tar -C "$2" -x`,
		"touched, all modes": `cp -R "$1/." "$2"; find "$2" -type f ! -name run.sh -exec chmod 0646 {} +; find "$2" -exec touch -h -d 2001-02-03 {} +`,
	} {
		if got := sum(t, os.DirFS(copied(t, from, script)), nil).Full; got != want {
			t.Errorf("%s: hash = %s, want %s", name, got, want)
		}
	}
}

func TestOwnerHasNoPartInTheHash(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := t.TempDir()
	write(t, dir, fixed())
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, 12345, 54321)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sum(t, os.DirFS(dir), nil).Full, sum(t, fixed(), nil).Full; got != want {
		t.Errorf("hash = %s, want %s", got, want)
	}
}

// A socket is no content: editors and agents leave theirs in the source. Devices
// and the like are refused.
func TestSocketsArePassedOver(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, fixed())
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	t.Chdir(filepath.Join(dir, "server")) // a socket's path is short
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: "sock"}); err != nil {
		t.Fatal(err)
	}
	if got, want := sum(t, os.DirFS(dir), nil).Full, sum(t, fixed(), nil).Full; got != want {
		t.Errorf("hash = %s, want %s", got, want)
	}
}

func TestNamesThatAreNotUTF8AreRefusedUnlessIgnored(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, fixed())
	for _, p := range []string{"server/f\xff", "server/d\xff/f", "compose/f\xff"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), nil, 0o644); err != nil {
			t.Skipf("this file system takes no such name: %v", err)
		}
	}
	var ne *NameError
	if _, err := Read(t.Context(), os.DirFS(dir), Options{Dockerfile: "Dockerfile"}); !asError(err, &ne) {
		t.Errorf("error = %v, want a *NameError", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte("**/*_test.go\n**/testdata\nserver/f?\nserver/d?\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := sum(t, os.DirFS(dir), nil).Full, sum(t, fixed(), nil).Full; got != want {
		t.Errorf("hash = %s, want %s", got, want)
	}
}
