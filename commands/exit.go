package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// The exit codes (SPEC §4).
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitConflict    = 3
	exitEngine      = 4
	exitAddresses   = 5
	exitInterrupted = 130
)

// usageError is a wrong command line, or a wrong value from the environment.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }

// invalidError is an environment with errors. All of them are in problems.
type invalidError struct {
	problems compose.Problems
	what     string // is invalid; "": the environment
}

func (e *invalidError) Error() string {
	n := 0
	for _, p := range e.problems {
		if p.Severity == compose.SeverityError {
			n++
		}
	}
	return fmt.Sprintf("%s: %s", cmp.Or(e.what, "the environment is invalid"), plural(n, "error"))
}

// engineError is a missing, unreachable or too old engine or Compose.
type engineError struct {
	err  error
	hint string
}

func (e *engineError) Error() string { return e.err.Error() }
func (e *engineError) Unwrap() error { return e.err }

// conflictError is something in the way that belongs to somebody else.
type conflictError struct {
	msg, hint string
	details   map[string]any
}

func (e *conflictError) Error() string { return e.msg }

// hintedError adds to an error what to do next.
type hintedError struct {
	err     error
	hint    string
	details map[string]any
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// failure is an error as it is told: to people as text, to programs as JSON.
type failure struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Hint    string         `json:"hint"`
	Details map[string]any `json:"details"`

	exit int
}

// explain is the one place where an error becomes a code, a hint and an exit
// code.
func explain(ctx context.Context, instance string, err error) failure {
	// What could not be taken back is told besides, and does not change what happened.
	var undone *undoError
	if errors.As(err, &undone) {
		f := explain(ctx, instance, undone.cause)
		f.Message += "\n" + undone.failures()
		return f
	}
	f := failure{Code: "failed", Message: err.Error(), Details: map[string]any{}, exit: exitFailed}
	var (
		usage     *usageError
		invalid   *invalidError
		engine    *engineError
		conflict  *conflictError
		hinted    *hintedError
		id        *compose.InvalidIDError
		missing   *compose.NotInstalledError
		old       *compose.TooOldError
		busy      *simulator.BusyError
		foreign   *simulator.ForeignError
		exhausted *netpin.ExhaustedError
		poolsFull *netpin.PoolsFullError
		refused   *api.Error
	)
	var run *compose.RunError
	if errors.As(err, &run) && len(run.Lines) > 0 {
		if more := run.Others(); len(more) > 0 {
			f.Message += "\n    | " + strings.Join(more[max(0, len(more)-logTail):], "\n    | ")
		}
		f.Hint = "ctis validate names what is wrong in the files of the environment; what Compose did is in the details of --json"
		f.Details = map[string]any{"output": run.Lines}
	}
	var withHint interface{ Hint() string }
	if errors.As(err, &hinted) {
		f.Hint = hinted.hint
		if hinted.details != nil {
			f.Details = hinted.details
		}
	} else if errors.As(err, &withHint) {
		f.Hint = withHint.Hint()
	}
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		// What it was at when the signal came says nothing.
		f.Code, f.Message, f.Hint, f.exit = "interrupted", "interrupted", "", exitInterrupted
	case errors.As(err, &usage):
		f.Code, f.Hint, f.exit = "usage", usage.hint, exitUsage
	case errors.As(err, &invalid):
		f.Code, f.exit = "invalid", exitUsage
		f.Hint = "each line above names a file, a line and a column; nothing was started"
		f.Details = map[string]any{"problems": invalid.problems}
	case errors.As(err, &id):
		f.Code, f.Hint, f.exit = "invalid_id", id.Hint(), exitUsage
	case errors.As(err, &engine):
		f.Code, f.Hint, f.exit = "engine", engine.hint, exitEngine
	case errors.As(err, &missing), errors.As(err, &old):
		f.Code, f.Hint, f.exit = "compose", "Docker's package docker-compose-plugin has it; scripts/setup.sh builds it", exitEngine
	case errors.As(err, &conflict):
		f.Code, f.Hint, f.exit = "conflict", conflict.hint, exitConflict
		if conflict.details != nil {
			f.Details = conflict.details
		}
	case errors.As(err, &busy):
		f.Code, f.Hint, f.exit = "busy", busy.Hint(), exitConflict
		f.Details = map[string]any{"attached": busy.Attached, "have": busy.Have, "want": busy.Want}
	case errors.As(err, &foreign):
		f.Code, f.exit = "conflict", exitConflict
	case errors.Is(err, api.ErrNoAnswer):
		f.Code, f.Hint = "no_answer", "docker restart "+simulator.ContainerName(instance)+" brings it back with everything it knows"
	case errors.As(err, &refused) && (refused.Code == api.CodeConflict || refused.Code == api.CodeBusy || refused.Code == api.CodeRetired):
		f.Code, f.exit = "conflict", exitConflict
		f.Details = map[string]any{"holders": refused.Holders, "fields": refused.Fields}
		if len(refused.Holders) > 0 {
			f.Hint = "ctis down " + strings.Join(refused.Holders, " ") + " releases it"
		}
	case errors.As(err, &exhausted), errors.As(err, &poolsFull):
		f.Code, f.exit = "addresses", exitAddresses
		if f.Hint == "" {
			f.Hint = "take trajectories down (ctis status lists them), or give a larger pool in CTIS_ADDRESS_POOL"
		}
	}
	return f
}

// finish reports err, if any, and returns the exit code.
func (a *app) finish(ctx context.Context, err error) int {
	a.ui.stop()
	if err == nil {
		return exitDone
	}
	var silent *exitError
	if errors.As(err, &silent) {
		return silent.code
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitFailed // nobody reads any more; there is no one to tell
	}
	f := explain(ctx, a.instance, err)
	if a.json {
		enc := json.NewEncoder(a.streams.Out)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(map[string]failure{"error": f}) // stdout is gone: the exit code still tells
	}
	var invalid *invalidError
	if errors.As(err, &invalid) {
		a.ui.problems(a.fromHere(invalid.problems))
	}
	a.ui.failure(f.Message, f.Hint)
	return f.exit
}

// plural counts things in words: "1 error", "2 errors".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") {
		noun = strings.TrimSuffix(noun, "y") + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
