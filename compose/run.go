package compose

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Runner starts docker compose. Every child gets an explicit environment and,
// for one trajectory, the same arguments, so that what create has made is what
// up starts.
type Runner struct {
	Docker  string   // the docker program; "" means docker in PATH
	Host    string   // engine endpoint, as DOCKER_HOST; "" leaves the choice to the CLI
	Context string   // docker context, where Host is ""
	Environ []string // the caller's environment; what of it would steer Compose is not passed on
}

// Invocation is what every compose command of one trajectory has in common.
type Invocation struct {
	ID       string   // project name
	Dir      string   // project directory
	Files    []string // in order
	Override []byte   // merged over them last; goes through standard input, so that no file is left behind
	EnvFiles []string // none: not even a .env that Compose would find
	Profiles []string
	// Inherit are the caller's variables that are passed on though they steer
	// Compose, because the environment itself uses them.
	Inherit []string
}

// Invocation returns the arguments with which Compose sees the environment as
// [Load] did, plus the override.
func (e *Environment) Invocation(id string, override []byte) Invocation {
	return Invocation{
		ID: id, Dir: e.ProjectDir, EnvFiles: e.EnvFiles, Profiles: e.Profiles,
		Files: e.Files, Override: override, Inherit: e.inherit,
	}
}

func (i Invocation) args(command ...string) []string {
	args := []string{"compose", "--ansi", "never", "--progress", "plain", "--project-name", i.ID, "--project-directory", i.Dir}
	for _, f := range i.Files {
		args = append(args, "--file", f)
	}
	if i.Override != nil {
		args = append(args, "--file", "-")
	}
	for _, f := range i.EnvFiles {
		args = append(args, "--env-file", f)
	}
	for _, p := range i.Profiles {
		args = append(args, "--profile", p)
	}
	return append(args, command...)
}

// RunError is a docker compose command that failed.
type RunError struct {
	Command string   // create, up, down, …
	Lines   []string // its last lines of output
	Err     error    // usually an *exec.ExitError
}

func (e *RunError) Error() string {
	s := fmt.Sprintf("docker compose %s: %s", e.Command, e.Err)
	if len(e.Lines) > 0 {
		s += ": " + e.Lines[len(e.Lines)-1]
	}
	return s
}

func (e *RunError) Unwrap() error { return e.Err }

// Output returns the last lines as one text, for searching and for showing.
func (e *RunError) Output() string { return strings.Join(e.Lines, "\n") }

// progressLine is what Compose says of what went well, or repeats of what did not.
var progressLine = regexp.MustCompile(`^(?:Container|Network|Volume|Image|Config|Secret) "?\S+"? +\w+$|^service:\S+ `)

// Others are the lines, each once, that say more than the last one and than how far
// Compose came.
func (e *RunError) Others() []string {
	var others []string
	for _, line := range e.Lines[:max(0, len(e.Lines)-1)] {
		text := strings.TrimSpace(line)
		if progressLine.MatchString(text) || slices.Contains(others, text) || strings.HasSuffix(text, strings.TrimSpace(e.Lines[len(e.Lines)-1])) {
			continue
		}
		others = append(others, text)
	}
	return others
}

// keptLines is how much of a command's output an error carries.
const keptLines = 40

// longestLine is how much of a line is kept, in bytes; a build can print
// anything.
const longestLine = 64 << 10

// stopGrace is how long an interrupted docker compose may take to come to an
// end before it is killed.
const stopGrace = 15 * time.Second

// Config returns the merged model as JSON, as [Environment.VerifyOverride]
// wants it. It needs no engine.
func (r *Runner) Config(ctx context.Context, i Invocation) ([]byte, error) {
	// Images and hashes are not resolved, so no registry is asked.
	return r.capture(ctx, "config", i, i.args("config", "--format", "json"))
}

// Create builds or pulls what is missing and creates networks, volumes and
// containers, without starting any. line gets each line of output; nil drops it.
func (r *Runner) Create(ctx context.Context, i Invocation, line func(string)) error {
	return r.run(ctx, "create", i, i.args("create"), line)
}

// Up starts what [Runner.Create] has created. It neither replaces a container
// (what was copied into it would be lost) nor builds or pulls. It returns when
// dependencies between services allow, which is not when all are ready: see [Judge].
func (r *Runner) Up(ctx context.Context, i Invocation, line func(string)) error {
	return r.run(ctx, "up", i, i.args("up", "--detach", "--no-recreate", "--no-build", "--pull", "never"), line)
}

// DownOptions say how a trajectory is taken down.
type DownOptions struct {
	Volumes bool          // named volumes too, which hold data
	Timeout time.Duration // for each container to stop; 0 kills at once, a negative one is Compose's default
}

// Down stops and removes what carries the project's labels, whatever profile it
// came from, without the environment's files. Its success does not prove that
// nothing is left: the engine keeps a network that still has an endpoint, and
// Compose calls that a warning.
func (r *Runner) Down(ctx context.Context, id string, o DownOptions, line func(string)) error {
	if err := ValidateID(id); err != nil {
		return err
	}
	// Given a name only, Compose still looks around where it runs, for a .env at
	// the least. So it runs where there is nothing.
	dir, err := os.MkdirTemp("", "ctis-down-")
	if err != nil {
		return fmt.Errorf("docker compose down needs an empty directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // one that stays is empty
	args := []string{"compose", "--ansi", "never", "--progress", "plain", "--project-name", id, "--profile", "*", "down", "--remove-orphans"}
	if o.Volumes {
		args = append(args, "--volumes")
	}
	if o.Timeout >= 0 {
		seconds := (o.Timeout + time.Second - 1) / time.Second
		args = append(args, "--timeout", strconv.Itoa(int(seconds)))
	}
	return r.run(ctx, "down", Invocation{ID: id, Dir: dir}, args, line)
}

func (r *Runner) docker() string {
	if r.Docker == "" {
		return "docker"
	}
	return r.Docker
}

// environ is the environment of a child: the caller's without what would steer
// Compose, and the one endpoint that ctis itself talks to.
func (r *Runner) environ(i Invocation) []string {
	drop := func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return (r.Host != "" || r.Context != "") && (name == "DOCKER_HOST" || name == "DOCKER_CONTEXT")
	}
	env := slices.DeleteFunc(inherited(r.Environ, i.Inherit), drop)
	switch {
	case r.Host != "":
		env = append(env, "DOCKER_HOST="+r.Host)
	case r.Context != "":
		env = append(env, "DOCKER_CONTEXT="+r.Context)
	}
	if i.ID != "" {
		env = append(env, "COMPOSE_PROJECT_NAME="+i.ID)
	}
	if len(i.EnvFiles) == 0 {
		env = append(env, "COMPOSE_DISABLE_ENV_FILE=true") // one may appear between create and up
	}
	return env
}

func (r *Runner) command(ctx context.Context, i Invocation, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.docker(), args...)
	cmd.Env = r.environ(i)
	cmd.Dir = i.Dir
	cmd.Stdin = bytes.NewReader(i.Override)
	cmd.SysProcAttr = childAttr()
	// An interrupt lets Compose finish the call it is in the middle of.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	return cmd
}

// output runs a short command and returns its standard output.
func (r *Runner) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := r.command(ctx, Invocation{}, args)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := onOneThread(cmd.Run)
	return out.Bytes(), err
}

// capture runs a command whose standard output is the result.
func (r *Runner) capture(ctx context.Context, name string, i Invocation, args []string) ([]byte, error) {
	cmd := r.command(ctx, i, args)
	var out bytes.Buffer
	tail := &lineWriter{}
	cmd.Stdout, cmd.Stderr = &out, tail
	if err := onOneThread(cmd.Run); err != nil {
		return nil, failed(ctx, name, tail, err)
	}
	return out.Bytes(), nil
}

// run runs a command and passes its output on line by line.
func (r *Runner) run(ctx context.Context, name string, i Invocation, args []string, line func(string)) error {
	cmd := r.command(ctx, i, args)
	w := &lineWriter{line: line}
	cmd.Stdout, cmd.Stderr = w, w // one writer, so os/exec never calls it twice at once
	if err := onOneThread(cmd.Run); err != nil {
		return failed(ctx, name, w, err)
	}
	w.flush()
	return nil
}

func failed(ctx context.Context, name string, w *lineWriter, err error) error {
	w.flush()
	if ctx.Err() != nil {
		err = ctx.Err() // the signal that ended it is not what went wrong
	}
	return &RunError{Command: name, Lines: w.last, Err: err}
}

// lineWriter cuts output into lines, passes them on and keeps the last ones.
type lineWriter struct {
	line func(string)
	part []byte
	last []string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\n\r") // progress bars end lines with \r
		if i < 0 {
			w.part = append(w.part, rest[:min(len(rest), longestLine-min(len(w.part), longestLine))]...)
			break
		}
		w.part = append(w.part, rest[:min(i, longestLine-min(len(w.part), longestLine))]...)
		w.flush()
		rest = rest[i+1:]
	}
	return len(p), nil
}

func (w *lineWriter) flush() {
	s := strings.TrimRight(string(w.part), " \t")
	w.part = w.part[:0]
	if strings.TrimSpace(s) == "" {
		return
	}
	if w.last = append(w.last, s); len(w.last) > keptLines {
		w.last = w.last[1:]
	}
	if w.line != nil {
		w.line(s)
	}
}
