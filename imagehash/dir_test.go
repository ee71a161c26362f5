package imagehash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// TestFileThatIsReplacedByAnotherKindIsRefusedWithoutWaiting: between finding and
// reading an input, and between hashing and building it.
func TestFileThatIsReplacedByAnotherKindIsRefusedWithoutWaiting(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere files are opened as os.DirFS does it")
	}
	const victim = "server/main.go"
	for name, put := range map[string]func(path string) error{
		"pipe": func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"link": func(p string) error { return os.Symlink("../templates", p) },
		"link to it": func(p string) error {
			return errors.Join(os.WriteFile(p+".x", []byte("package main\n"), 0o644), os.Symlink(filepath.Base(p)+".x", p))
		},
		"directory":   func(p string) error { return os.Mkdir(p, 0o755) },
		"socket":      func(p string) error { return syscall.Mknod(p, syscall.S_IFSOCK|0o600, 0) },
		"nothing":     func(string) error { return nil },
		"another one": func(p string) error { return os.WriteFile(p, []byte("package mean\n"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, fixed())
			in, err := Read(t.Context(), Dir(root), Options{Dockerfile: "Dockerfile"})
			if err != nil {
				t.Fatal(err)
			}
			s, err := in.Sum(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			full := filepath.Join(root, victim)
			if err := errors.Join(os.Remove(full), put(full)); err != nil {
				t.Fatal(err)
			}
			asks := map[string]func() error{"build": func() error { return s.WriteTar(io.Discard) }}
			if name != "another one" { // which has not been looked at when it is hashed
				asks["hash"] = func() error { _, err := in.Sum(t.Context()); return err }
			}
			for what, ask := range asks {
				done := make(chan error, 1)
				go func() { done <- ask() }()
				select {
				case err := <-done:
					var ce *ChangedInputError
					if !errors.As(err, &ce) || ce.Path != victim {
						t.Errorf("%s: error = %v, want a *ChangedInputError for %s", what, err, victim)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("%s: it waits for whoever writes to a pipe", what)
				}
			}
		})
	}
}

// TestDirectoryIsReadAsOSDirFSReadsIt.
func TestDirectoryIsReadAsOSDirFSReadsIt(t *testing.T) {
	root := t.TempDir()
	write(t, root, fixed())
	for i, p := range []string{"empty", "run", "closed", "odd"} {
		mode := []fs.FileMode{0o644, 0o755, 0o400, 0o654}[i]
		if err := errors.Join(os.WriteFile(filepath.Join(root, p), bytes.Repeat([]byte(p), i*1000), 0o600), os.Chmod(filepath.Join(root, p), mode)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(f fs.File, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fi, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		return fmt.Sprintf("%s %s %d %s %t %x %v", fi.Name(), fi.Mode(), fi.Size(), fi.ModTime(), fi.IsDir(), data, err)
	}
	paths := 0
	err := fs.WalkDir(Dir(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		paths++
		f, err := openInput(Dir(root), p)
		got := read(f, err)
		if want := read(os.DirFS(root).Open(p)); got != want {
			t.Errorf("%s is read as\n%s\nand by os.DirFS as\n%s", p, got, want)
		}
		return nil
	})
	if err != nil || paths < 6 {
		t.Errorf("%d files, %v", paths, err)
	}
}

// TestUnreadableFileIsNamedWithTheReason.
func TestUnreadableFileIsNamedWithTheReason(t *testing.T) {
	if os.Getuid() == 0 {
		// Root reads everything but what cannot be read at all.
		f, err := openInput(Dir("/proc/self"), "mem")
		if err != nil {
			t.Skip(err)
		}
		defer f.Close()
		if _, err := f.Read(make([]byte, 1)); !errors.Is(err, syscall.EIO) {
			t.Errorf("error = %v", err)
		}
		return
	}
	root := t.TempDir()
	write(t, root, fixed())
	if err := os.Chmod(filepath.Join(root, "server/main.go"), 0); err != nil {
		t.Fatal(err)
	}
	in, err := Read(t.Context(), Dir(root), Options{Dockerfile: "Dockerfile"})
	if err != nil {
		t.Fatal(err)
	}
	var pe *fs.PathError
	if _, err := in.Sum(t.Context()); !errors.Is(err, fs.ErrPermission) || !errors.As(err, &pe) || pe.Path != "server/main.go" {
		t.Errorf("error = %v", err)
	}
}
