package e2e

// The rules here are:
//
//   - A scenario is named after what ctis promises, and reads as steps.
//   - Each scenario has a simulator of its own (its instance), and leaves
//     nothing: no container, network, volume. The images are kept for the next.
//   - State is checked before output. What takes time is awaited with
//     eventually, never slept for.
//   - Programs are driven from outside, as users drive them: the ctis binary,
//     the docker command, curl inside a container.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/server/api"
)

// bed is one scenario's place on the engine.
type bed struct {
	t        *testing.T
	instance string
	bin      string
	env      []string // more of it, for ctis
}

// scratch holds what is built for the scenarios, until the last has ended.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ctis-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	// Most of a scenario is waiting for the engine and for services, so more of them
	// run at once than there are processors, unless -parallel says how many.
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err) // of the testing package itself
		}
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

var binary = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(scratch, "ctis")
	cmd := exec.Command("go", "build", "-o", bin, "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("ctis does not build: %w\n%s", err, out)
	}
	return bin, nil
})

// newBed prepares a scenario. It runs only where a real engine may be used.
func newBed(t *testing.T) *bed {
	t.Helper()
	if os.Getenv("CTIS_E2E") != "1" {
		t.Skip("needs a Docker engine: set CTIS_E2E=1, or run ./task test")
	}
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, instance: fmt.Sprintf("e2e-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9), bin: bin}
	t.Cleanup(b.clean)
	return b
}

// clean removes what carries the scenario's instance, and fails if a trajectory
// was left in the simulator's care.
func (b *bed) clean() {
	for _, id := range lines(b.docker("ps", "-aq", "--filter", "label=io.ctis.instance="+b.instance)) {
		b.docker("rm", "-f", "-v", id)
	}
	for _, id := range lines(b.docker("network", "ls", "-q", "--filter", "label=io.ctis.instance="+b.instance)) {
		b.docker("network", "rm", id)
	}
	for _, name := range lines(b.docker("volume", "ls", "-q", "--filter", "label=io.ctis.instance="+b.instance)) {
		b.docker("volume", "rm", name)
	}
}

// run is one finished run of a program.
type run struct {
	code           int
	stdout, stderr string
}

// command prepares a run of ctis.
func (b *bed) command(args ...string) *exec.Cmd {
	cmd := exec.Command(b.bin, args...)
	cmd.Env = append(append(os.Environ(), "CTIS_INSTANCE="+b.instance), b.env...)
	return cmd
}

// ctis runs ctis to its end.
func (b *bed) ctis(args ...string) run {
	b.t.Helper()
	return finish(b.t, b.command(args...))
}

func finish(t *testing.T, cmd *exec.Cmd) run {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return run{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String()}
}

// must fails the test unless the run ended with code.
func (r run) must(t *testing.T, code int) run {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, not %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

// upJSON is what the tests read of `ctis up --json`.
type upJSON struct {
	Trajectory      string            `json:"trajectory"`
	Network         string            `json:"network"`
	Image           string            `json:"image"`
	Personas        []string          `json:"personas"`
	ExposedServices map[string]string `json:"exposed_services"`
	UpstreamProxies []string          `json:"upstream_proxies"`
	Simulator       struct {
		Container, Address string
		Reused             bool
	} `json:"simulator"`
	Services []struct {
		Service, Container string
		Addresses          map[string]string
		Ports              []string
	} `json:"services"`
}

func (u upJSON) container(t *testing.T, service string) string {
	t.Helper()
	for _, s := range u.Services {
		if s.Service == service {
			return s.Container
		}
	}
	t.Fatalf("no service %q in %+v", service, u.Services)
	return ""
}

// up brings a trajectory up and takes it down with the test.
func (b *bed) up(dir, id string, args ...string) upJSON {
	b.t.Helper()
	b.t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
	r := b.ctis(append([]string{"up", dir, "--id", id, "--json"}, args...)...).must(b.t, 0)
	var u upJSON
	if err := json.Unmarshal([]byte(r.stdout), &u); err != nil {
		b.t.Fatalf("%v in %s", err, r.stdout)
	}
	return u
}

// id makes a trajectory id that no other scenario has.
func (b *bed) id(name string) string { return b.instance + "-" + name }

// environment writes files into a new directory.
func environment(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// docker runs the docker command and returns what it wrote; its failure is the
// caller's to see.
func (b *bed) docker(args ...string) string {
	out, _ := exec.Command("docker", args...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

// exec runs a command in a container and fails the test if it fails.
func (b *bed) exec(container string, argv ...string) string {
	b.t.Helper()
	out, err := exec.Command("docker", append([]string{"exec", container}, argv...)...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("in %s, %q: %v\n%s", container, argv, err, out)
	}
	return string(out)
}

// journal reads a trajectory's records.
func (b *bed) journal(id string, args ...string) []api.Record {
	b.t.Helper()
	r := b.ctis(append([]string{"logs", id, "--json"}, args...)...).must(b.t, 0)
	var records []api.Record
	for _, line := range lines(r.stdout) {
		var rec api.Record
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			b.t.Fatalf("%v in %s", err, line)
		}
		records = append(records, rec)
	}
	return records
}

// leftOf lists what the engine still has of a trajectory, the simulator's
// attachment and registration included.
func (b *bed) leftOf(id string) []string {
	b.t.Helper()
	label := "label=com.docker.compose.project=" + id
	left := slices.Concat(
		lines(b.docker("ps", "-a", "--filter", label, "--format", "container {{.Names}}")),
		lines(b.docker("network", "ls", "--filter", label, "--format", "network {{.Name}}")),
		lines(b.docker("volume", "ls", "--filter", label, "--format", "volume {{.Name}}")),
	)
	if nets := b.docker("inspect", b.instance+"-simulator", "--format", "{{range $n, $_ := .NetworkSettings.Networks}}{{$n}} {{end}}"); strings.Contains(nets, id+"_") {
		left = append(left, "attachment "+nets)
	}
	if r := b.ctis("status", "--json"); r.code != 0 || strings.Contains(r.stdout, `"`+id+`"`) {
		left = append(left, "registration: "+r.stdout+r.stderr)
	}
	return left
}

// eventually waits for something to become true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// killSimulator kills the server's process as the kernel would: without the
// engine being asked, so that its restart policy is what brings it back.
func (b *bed) killSimulator() {
	b.t.Helper()
	pid := b.docker("inspect", b.instance+"-simulator", "--format", "{{.State.Pid}}")
	if out := b.docker("run", "--rm", "--pid=host", image(b.t, images.Agent()), "kill", pid); out != "" {
		b.t.Fatalf("the simulator's process %s: %s", pid, out)
	}
}

// image builds a test image where it is missing.
func image(t *testing.T, spec images.ScratchSpec) string {
	t.Helper()
	ref, err := images.Scratch(t.Context(), engine(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// debian is an image with curl, Python and openssl.
func debian(t *testing.T) string {
	t.Helper()
	ref, err := images.Debian(t.Context(), engine(t))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func engine(t *testing.T) *client.Client {
	t.Helper()
	eng, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	return eng
}

func lines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			out = append(out, line)
		}
	}
	return out
}
