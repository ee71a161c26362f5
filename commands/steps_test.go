package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
)

// TestAnUndoThatOverrunsItsDeadlineIsToldWithWhatIsLeft: and the others are done all
// the same, in reverse, while why it went back still decides the exit code.
func TestAnUndoThatOverrunsItsDeadlineIsToldWithWhatIsLeft(t *testing.T) {
	s := steps{ui: newUI(io.Discard, map[string]string{}, uiOptions{}), deadline: 20 * time.Millisecond}
	var done []string
	s.onUndo("first", func(context.Context) error { done = append(done, "first"); return nil })
	s.onUndo("second", func(ctx context.Context) error {
		done = append(done, "second")
		<-ctx.Done()
		return fmt.Errorf("remove container: %w", ctx.Err())
	})
	s.onUndo("third", func(context.Context) error { done = append(done, "third"); return nil })
	err := s.rollback(t.Context(), &conflictError{msg: "somebody else has it", hint: "wait"})
	if got := strings.Join(done, " "); got != "third second first" {
		t.Errorf("undone: %s", got)
	}
	var undone *undoError
	if !errors.As(err, &undone) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	undone.left = left("t1", "ctis", netpin.Project{Containers: []netpin.Container{{Name: "t1-default-1"}}, Networks: []netpin.Network{{Name: "t1_external"}}}, nil)
	f := explain(t.Context(), "ctis", err)
	want := "somebody else has it\nrolling back (second): not done within 20ms: remove container: context deadline exceeded\n" +
		`of trajectory "t1" are left: container t1-default-1, network t1_external; ctis down t1 removes them`
	if f.Message != want || f.exit != exitConflict || f.Hint != "wait" {
		t.Errorf("exit %d, hint %q, message\n%s", f.exit, f.Hint, f.Message)
	}
}

func TestARollBackThatWentWellLeavesTheCauseAsItIs(t *testing.T) {
	cause := errors.New("it failed")
	s := steps{ui: newUI(io.Discard, map[string]string{}, uiOptions{})}
	s.onUndo("x", func(context.Context) error { return nil })
	if err := s.rollback(t.Context(), cause); err != cause {
		t.Errorf("got %v", err)
	}
}

func TestWhatARollBackLeftIsSaidWithTheCommandThatRemovesIt(t *testing.T) {
	for _, c := range []struct {
		project netpin.Project
		err     error
		want    string
	}{
		{netpin.Project{}, errors.New("no answer"), `something may be left of trajectory "t1"; ctis --instance i down t1 removes it`},
		{netpin.Project{}, nil, `no container and no network of trajectory "t1" is left; ctis --instance i down t1 takes what the simulator may still know of it`},
		{netpin.Project{Networks: []netpin.Network{{Name: "t1_x"}}}, nil, `of trajectory "t1" are left: network t1_x; ctis --instance i down t1 removes them`},
	} {
		if got := left("t1", "ctis --instance i", c.project, c.err); got != c.want {
			t.Errorf("says %s\nwant %s", got, c.want)
		}
	}
}

// TestAnInterruptSaysNothingOfWhatItMet: neither an address inside ctis nor the
// signal's name is anything a user could use. What is left is.
func TestAnInterruptSaysNothingOfWhatItMet(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	met := fmt.Errorf(`Get "http://simulator/v1/status": %w`, context.Canceled)
	if f := explain(ctx, "ctis", &hintedError{err: met, hint: "start it"}); f.Message != "interrupted" || f.Hint != "" || f.exit != exitInterrupted || f.Code != "interrupted" {
		t.Errorf("got %+v", f)
	}
	f := explain(ctx, "ctis", &undoError{cause: met, errs: []error{errors.New("rolling back (x): no")}, left: "ctis down t1"})
	if f.Message != "interrupted\nrolling back (x): no\nctis down t1" || f.exit != exitInterrupted {
		t.Errorf("got %+v", f)
	}
}

// TestAdviceIsGivenOnce: in the hint, not in the message too.
func TestAdviceIsGivenOnce(t *testing.T) {
	full := &netpin.ExhaustedError{Pool: netpin.DefaultPool, Networks: []string{"external"}, Taken: 3}
	for _, c := range []struct {
		err    error
		advice string
	}{
		{compose.ValidateID("Traj.1"), "traj-1"},
		{full, "CTIS_ADDRESS_POOL"},
		{poolError("nonsense"), netpin.DefaultPool.String()},
	} {
		f := explain(t.Context(), "ctis", c.err)
		if strings.Contains(f.Message, c.advice) || strings.Count(f.Hint, c.advice) != 1 {
			t.Errorf("message %q, hint %q", f.Message, f.Hint)
		}
	}
}

func poolError(pool string) error {
	_, err := (&app{env: map[string]string{"CTIS_ADDRESS_POOL": pool}}).addressPool()
	return err
}
