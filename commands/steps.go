package commands

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// undoTimeout bounds each undo of a failed step. It is long, because the engine
// may be busy with hundreds of networks, and finite, because an engine that
// hangs must not hold ctis for ever.
const undoTimeout = 2 * time.Minute

// steps runs things in order and takes back what was done when a later one
// fails or the run is interrupted.
type steps struct {
	ui   *ui
	undo []undo
}

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
// not end, and joins what went wrong to cause.
func (s *steps) rollback(ctx context.Context, cause error) error {
	if len(s.undo) == 0 {
		return cause
	}
	line := s.ui.step("Rolling back")
	ctx = context.WithoutCancel(ctx)
	errs := []error{cause}
	for i := len(s.undo) - 1; i >= 0; i-- {
		u := s.undo[i]
		line.detail(u.name)
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, undoTimeout)
			defer cancel()
			return u.run(ctx)
		}()
		if err != nil {
			errs = append(errs, fmt.Errorf("rolling back (%s): %w", u.name, err))
		}
	}
	s.undo = nil
	if len(errs) > 1 {
		line.fail()
		return errors.Join(errs...)
	}
	line.done("")
	return cause
}
