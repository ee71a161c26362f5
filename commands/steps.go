package commands

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// undoError is what a failed or interrupted run could not take back. Its cause is
// why the run was taken back at all.
type undoError struct {
	cause error
	errs  []error // of the undos that failed
	left  string  // what is left, and what to do about it; may be empty
}

func (e *undoError) Error() string {
	return e.cause.Error() + "\n" + e.failures()
}

// failures tells of the undos alone.
func (e *undoError) failures() string {
	lines := make([]string, 0, len(e.errs)+1)
	for _, err := range e.errs {
		lines = append(lines, err.Error())
	}
	if e.left != "" {
		lines = append(lines, e.left)
	}
	return strings.Join(lines, "\n")
}

func (e *undoError) Unwrap() []error { return append([]error{e.cause}, e.errs...) }

// undoTimeout bounds each undo of a failed step. It is long, because the engine
// may be busy with hundreds of networks, and finite, because an engine that
// hangs must not hold ctis for ever.
const undoTimeout = 2 * time.Minute

// steps runs things in order and takes back what was done when a later one
// fails or the run is interrupted.
type steps struct {
	ui       *ui
	undo     []undo
	deadline time.Duration // of each undo; 0: undoTimeout
}

func (s *steps) undoTimeout() time.Duration { return cmp.Or(s.deadline, undoTimeout) }

type undo struct {
	name string
	run  func(context.Context) error
}

// do runs one step under a title and shows how it ended. The string it returns
// stands behind the title.
func (s *steps) do(ctx context.Context, title string, run func(context.Context, *uiStep) (string, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	line := s.ui.step(title)
	detail, err := run(ctx, line)
	if err != nil {
		line.fail()
		return err
	}
	line.done(detail)
	return ctx.Err()
}

// onUndo remembers how to take back what was just begun. It is called before
// the thing is done, so each undo must also bear that it was not.
func (s *steps) onUndo(name string, run func(context.Context) error) {
	s.undo = append(s.undo, undo{name, run})
}

// rollback undoes everything in reverse, on a context that the interrupt does
// not end. What could not be undone makes of cause an *[undoError].
func (s *steps) rollback(ctx context.Context, cause error) error {
	if len(s.undo) == 0 {
		return cause
	}
	line := s.ui.step("Rolling back")
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		u := s.undo[i]
		line.detail(u.name)
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, s.undoTimeout())
			defer cancel()
			err := u.run(ctx)
			if err != nil && ctx.Err() != nil {
				return fmt.Errorf("not done within %s: %w", s.undoTimeout(), err)
			}
			return err
		}()
		if err != nil {
			errs = append(errs, fmt.Errorf("rolling back (%s): %w", u.name, err))
		}
	}
	s.undo = nil
	if len(errs) > 0 {
		line.fail()
		return &undoError{cause: cause, errs: errs}
	}
	line.done("")
	return cause
}
