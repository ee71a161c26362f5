package simulator

import (
	"context"
	"errors"
	"fmt"
	"go/version"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/linuxarena/ctis/imagehash"
)

// These say how the server is compiled. The Dockerfile's Go stage says the same
// once more; a test compares the two.
const (
	goModule  = "github.com/linuxarena/ctis"
	goVersion = "1.26"
	goPackage = "./server/cmd/ctis-server"
	goLDFlags = "-s -w"
)

// hasServer reports whether the source is that of the server.
func hasServer(s *imagehash.Sum) bool {
	return slices.ContainsFunc(s.Inputs, func(in imagehash.Input) bool {
		return path.Dir(in.Path) == path.Clean(goPackage) && strings.HasSuffix(in.Path, ".go")
	})
}

// FindGo finds the go command along a PATH, and after it where Go's own installer
// puts it. It returns "" if there is none.
func FindGo(searchPath string) string {
	for _, dir := range append(filepath.SplitList(searchPath), "/usr/local/go/bin") {
		if !filepath.IsAbs(dir) {
			continue // a program of the current directory is not the one meant
		}
		p := filepath.Join(dir, "go")
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// unsuitable says why the server cannot be compiled here; "" if it can.
func unsuitable(ctx context.Context, o ImageOptions) string {
	if o.Go == "" {
		return "no Go toolchain on this machine"
	}
	cmd := exec.CommandContext(ctx, o.Go, "env", "GOVERSION")
	cmd.Env = goEnv(o.Environ)
	out, err := cmd.Output()
	have := strings.TrimSpace(string(out))
	switch {
	case err != nil:
		return fmt.Sprintf("%s does not run: %v", o.Go, err)
	case version.IsValid(have) && version.Compare(have, "go"+goVersion) < 0:
		return fmt.Sprintf("%s is %s and the server needs go%s", o.Go, have, goVersion)
	}
	return ""
}

// goEnv is the environment of the go command: the caller's, without any setting
// that would reach the network or change what is compiled.
func goEnv(environ []string, set ...string) []string {
	var env []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if keep := name == "GOCACHE" || name == "GOPATH" || name == "GOROOT" || name == "GOTMPDIR"; keep ||
			!strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "CGO_") {
			env = append(env, kv)
		}
	}
	env = append(env, "GOENV=off", "GOWORK=off", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local",
		"GOPROXY=off", "GOSUMDB=off", "CGO_ENABLED=0")
	return append(env, set...)
}

// compile builds the server from the hashed source, written out below dir, and
// returns the binary's path.
func compile(ctx context.Context, o ImageOptions, dir, arch string) (string, error) {
	src := filepath.Join(dir, "src")
	if err := materialise(ctx, o.Source, src); err != nil {
		return "", err
	}
	mod := fmt.Sprintf("module %s\n\ngo %s\n", goModule, goVersion)
	if err := os.WriteFile(filepath.Join(src, "go.mod"), []byte(mod), 0o644); err != nil {
		return "", fmt.Errorf("write the server's source: %w", err)
	}
	binary := filepath.Join(dir, path.Base(serverBinary))
	cmd := exec.CommandContext(ctx, o.Go, "build", "-trimpath", "-buildvcs=false",
		"-ldflags", goLDFlags, "-o", binary, goPackage)
	cmd.Dir = src
	cmd.Env = goEnv(o.Environ, "GOOS=linux", "GOARCH="+arch)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // it ends its compilers
	cmd.WaitDelay = 5 * time.Second
	out := &tail{each: o.Progress}
	cmd.Stdout, cmd.Stderr = out, out
	o.Progress(fmt.Sprintf("compiling %s for linux/%s", path.Base(serverBinary), arch))
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", &ImageError{Op: "build", Ref: o.Choice.Ref, Lines: out.all(), Err: fmt.Errorf("go build: %w", err)}
	}
	return binary, nil
}

// materialise writes every input below dir, verified.
func materialise(ctx context.Context, s *imagehash.Sum, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("write the server's source: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write the server's source: %w", err)
	}
	defer root.Close()
	return s.Each(func(in imagehash.Input, content io.Reader) error {
		if err := writeInput(root, in, untilDone{ctx, content}); err != nil {
			return fmt.Errorf("write the server's source %q: %w", in.Path, err)
		}
		return nil
	})
}

func writeInput(root *os.Root, in imagehash.Input, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(in.Path), 0o755); err != nil {
		return err
	}
	if in.Kind == imagehash.KindLink {
		return root.Symlink(in.Target, in.Path)
	}
	f, err := root.OpenFile(in.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
