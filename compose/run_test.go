package compose

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waitForInterrupt makes the test binary play a docker that takes its time. A
// shell could not: one started in the background ignores interrupts for ever.
const waitForInterrupt = "CTIS_TEST_WAIT_FOR_INTERRUPT"

// terminatedFile names the file that it then makes where it was not an interrupt
// that came, but the end of its parent.
const terminatedFile = "CTIS_TEST_TERMINATED_FILE"

// runDocker makes the test binary play a ctis that runs docker compose, by the
// program that the variable names.
const runDocker = "CTIS_TEST_RUN_DOCKER"

func TestMain(m *testing.M) {
	if docker := os.Getenv(runDocker); docker != "" {
		environ := append(os.Environ(), waitForInterrupt+"=1", runDocker+"=")
		r := &Runner{Docker: docker, Environ: environ, Host: os.Getenv("DOCKER_HOST")}
		err := r.Up(context.Background(), Invocation{ID: "t", Dir: os.TempDir(), Override: []byte(plainYAML)}, func(s string) { fmt.Println(s) })
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv(waitForInterrupt) == "" {
		os.Exit(m.Run())
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	fmt.Println("started")
	if <-signals == syscall.SIGTERM {
		_ = os.WriteFile(os.Getenv(terminatedFile), nil, 0o600) // its absence is the failure
	}
	fmt.Println("interrupted")
	os.Exit(1)
}

// fakeDocker is a docker program that records how it is called and then does
// what script says. It returns the program and a reader of its records.
func fakeDocker(t *testing.T, script string) (program string, record func(name string) []string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "docker")
	body := "#!/bin/sh\nprintf '%s\\n' \"$@\" >'" + dir + "/args'\nenv >'" + dir + "/env'\npwd >'" + dir + "/dir'\ncat >'" + dir + "/stdin'\n" + script
	if err := os.WriteFile(program, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, func(name string) []string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	}
}

func TestCreateAndUpDifferInTheCommandOnly(t *testing.T) {
	program, record := fakeDocker(t, "exit 0")
	r := &Runner{Docker: program, Environ: []string{"PATH=" + os.Getenv("PATH")}}
	i := Invocation{ID: "t-1", Dir: t.TempDir(), Files: []string{"/e/a.yaml", "/e/b.yaml"}, Override: []byte("services: {}\n"), EnvFiles: []string{"/e/.env"}, Profiles: []string{"p"}}
	common := []string{"compose", "--ansi", "never", "--progress", "plain", "--project-name", "t-1", "--project-directory", i.Dir,
		"--file", "/e/a.yaml", "--file", "/e/b.yaml", "--file", "-", "--env-file", "/e/.env", "--profile", "p"}
	for _, c := range []struct {
		run  func() error
		want []string
	}{
		{func() error { return r.Create(context.Background(), i, nil) }, []string{"create"}},
		{func() error { return r.Up(context.Background(), i, nil) }, []string{"up", "--detach", "--no-recreate", "--no-build", "--pull", "never"}},
		{func() error { _, err := r.Config(context.Background(), i); return err }, []string{"config", "--format", "json"}},
	} {
		if err := c.run(); err != nil {
			t.Fatal(err)
		}
		if got, want := record("args"), append(slices.Clone(common), c.want...); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if got := record("stdin"); got[0] != "services: {}" {
			t.Errorf("the override is %q", got)
		}
		if got := record("dir"); got[0] != i.Dir {
			t.Errorf("runs in %s", got)
		}
	}
}

func TestDownNeedsNothingButTheID(t *testing.T) {
	program, record := fakeDocker(t, "exit 0")
	r := &Runner{Docker: program, Environ: []string{"PATH=" + os.Getenv("PATH")}}
	if err := r.Down(context.Background(), "t-1", DownOptions{Volumes: true, Timeout: 1500 * time.Millisecond}, nil); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("compose --ansi never --progress plain --project-name t-1 --profile * down --remove-orphans --volumes --timeout 2")
	if got := record("args"); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var invalid *InvalidIDError
	if err := r.Down(context.Background(), "--all", DownOptions{}, nil); !errors.As(err, &invalid) {
		t.Errorf("an id that is an option: %v", err)
	}
}

func TestDownKillsAtOnceOrLeavesTheTimeToCompose(t *testing.T) {
	program, record := fakeDocker(t, "exit 0")
	r := &Runner{Docker: program, Environ: []string{"PATH=" + os.Getenv("PATH")}}
	for timeout, want := range map[time.Duration]string{0: "--timeout 0", time.Nanosecond: "--timeout 1", -1: ""} {
		if err := r.Down(context.Background(), "t-1", DownOptions{Timeout: timeout}, nil); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(strings.Join(record("args"), " "), "--remove-orphans"); strings.TrimSpace(got) != want {
			t.Errorf("%v gives %q, not %q", timeout, got, want)
		}
	}
}

func TestDownRunsWhereThereIsNothing(t *testing.T) {
	program, record := fakeDocker(t, "ls -A >&2; exit 3")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	write(t, tmp, "compose.yaml", plainYAML)
	r := &Runner{Docker: program, Environ: []string{"PATH=" + os.Getenv("PATH")}}
	var run *RunError
	if err := r.Down(context.Background(), "t-1", DownOptions{}, nil); !errors.As(err, &run) || len(run.Lines) > 0 {
		t.Errorf("the directory has something: %v", err)
	}
	if got := record("dir")[0]; filepath.Dir(got) != tmp {
		t.Errorf("runs in %s", got)
	}
	if left, err := os.ReadDir(tmp); len(left) != 1 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestChildrenGetAnExplicitEnvironment(t *testing.T) {
	program, record := fakeDocker(t, "exit 0")
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=/h", "TOKEN=x", "COMPOSE_FILE=evil.yaml", "COMPOSE_PROFILES=evil",
		"COMPOSE_PROJECT_NAME=evil", "DOCKER_HOST=tcp://evil", "DOCKER_CONTEXT=evil", "DOCKER_CONFIG=/c"}
	i := Invocation{ID: "t-1", Dir: t.TempDir()}
	for _, c := range []struct {
		name       string
		runner     Runner
		want, lack []string
	}{
		{"an endpoint", Runner{Host: "unix:///x.sock"}, []string{"DOCKER_HOST=unix:///x.sock"}, []string{"DOCKER_CONTEXT="}},
		{"a context", Runner{Context: "remote"}, []string{"DOCKER_CONTEXT=remote"}, []string{"DOCKER_HOST="}},
		{"neither", Runner{}, []string{"DOCKER_HOST=tcp://evil", "DOCKER_CONTEXT=evil"}, nil},
	} {
		c.runner.Docker, c.runner.Environ = program, environ
		if err := c.runner.Create(context.Background(), i, nil); err != nil {
			t.Fatal(err)
		}
		env := record("env")
		for _, want := range append(c.want, "HOME=/h", "TOKEN=x", "DOCKER_CONFIG=/c", "COMPOSE_PROJECT_NAME=t-1") {
			if !slices.Contains(env, want) {
				t.Errorf("%s: %s is missing in %q", c.name, want, env)
			}
		}
		for _, lack := range append(c.lack, "COMPOSE_FILE=", "COMPOSE_PROFILES=", "COMPOSE_PROJECT_NAME=evil") {
			if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, lack) }) {
				t.Errorf("%s: %s is passed on", c.name, lack)
			}
		}
	}
	if !slices.Contains(environ, "COMPOSE_FILE=evil.yaml") {
		t.Error("the caller's environment was changed")
	}
}

func TestOutputIsPassedOnLineByLineAndKeptInTheError(t *testing.T) {
	program, _ := fakeDocker(t, `printf 'one\ntw'; printf 'o\rthree\n\n   \n' >&2; i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); done; printf 'no newline'; exit 17`)
	r := &Runner{Docker: program, Environ: []string{"PATH=" + os.Getenv("PATH")}}
	var lines []string
	err := r.Create(context.Background(), Invocation{ID: "t", Dir: t.TempDir()}, func(s string) { lines = append(lines, s) })
	if len(lines) != 64 || lines[0] != "one" || lines[1] != "two" || lines[2] != "three" || lines[63] != "no newline" {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	var run *RunError
	if !errors.As(err, &run) || run.Command != "create" || len(run.Lines) != keptLines || run.Lines[keptLines-1] != "no newline" {
		t.Fatalf("error is %#v", err)
	}
	if want := "docker compose create: exit status 17: no newline"; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

func TestEndlessLinesAreBounded(t *testing.T) {
	w := &lineWriter{}
	for range 100 {
		if n, err := w.Write(make([]byte, longestLine/3)); n != longestLine/3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(w.part) > longestLine {
		t.Errorf("%d bytes are kept", len(w.part))
	}
}

func TestCancellingInterruptsAndSaysSo(t *testing.T) {
	r := &Runner{Docker: os.Args[0], Environ: []string{waitForInterrupt + "=1"}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := r.Up(ctx, Invocation{ID: "t", Dir: t.TempDir()}, func(s string) {
		if s == "started" {
			cancel()
		}
	})
	var run *RunError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &run) || !slices.Contains(run.Lines, "interrupted") {
		t.Errorf("error is %v", err)
	}
}

func TestVersionsOfEveryGeneration(t *testing.T) {
	for version, want := range map[string]bool{
		"v2.24.6": true, "2.24.4": true, "2.40.3-desktop.1": true, "5.1.0": true, "v5": true, "10.0": true, "dev": true, "": true,
		"2.24.3": false, "v2.5.0": false, "1.29.2": false, "2.24": false, "2.9.9": false,
	} {
		var old *TooOldError
		if err := checkVersion(version); (err == nil) != want || err != nil && !errors.As(err, &old) {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestVersionTellsWhatIsMissing(t *testing.T) {
	path := []string{"PATH=" + os.Getenv("PATH")}
	t.Setenv("PATH", t.TempDir()) // no docker-compose of the machine's own
	program, record := fakeDocker(t, `echo v2.30.1`)
	if v, err := (&Runner{Docker: program, Environ: path}).Version(context.Background()); v != "v2.30.1" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if got := record("args"); !slices.Equal(got, []string{"compose", "version", "--short"}) {
		t.Errorf("called with %q", got)
	}
	program, _ = fakeDocker(t, `echo "docker: 'compose' is not a docker command." >&2; exit 1`)
	var missing *NotInstalledError
	if _, err := (&Runner{Docker: program, Environ: path}).Version(context.Background()); !errors.As(err, &missing) || !strings.Contains(err.Error(), "has no compose command") {
		t.Errorf("without the plugin: %v", err)
	}
	if _, err := (&Runner{Docker: "no-such-docker", Environ: path}).Version(context.Background()); !errors.As(err, &missing) || !strings.Contains(err.Error(), "is not installed") {
		t.Errorf("without docker: %v", err)
	}
	if got := (&NotInstalledError{Docker: "docker", V1: "1.29.2", Err: errors.New("x")}).Error(); !strings.Contains(got, "only docker-compose 1.29.2") {
		t.Error(got)
	}
	program, _ = fakeDocker(t, `echo 2.20.0`)
	var old *TooOldError
	if v, err := (&Runner{Docker: program, Environ: path}).Version(context.Background()); v != "2.20.0" || !errors.As(err, &old) {
		t.Errorf("%q, %v", v, err)
	}
}
