package simulator

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

func TestTurnsAreTakenOneAfterTheOther(t *testing.T) {
	dir := t.TempDir()
	var inside, most, waited atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			leave, err := takeTurn(t.Context(), dir, "r/x:src-1", func() { waited.Add(1) })
			if err != nil {
				t.Error(err)
				return
			}
			defer leave()
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			inside.Add(-1)
		})
	}
	group.Wait()
	if most.Load() != 1 {
		t.Errorf("%d had the turn at once", most.Load())
	}
}

func TestATurnIsNotWaitedForWhenCancelledAndNeedsNoDirectory(t *testing.T) {
	dir := t.TempDir()
	leave, err := takeTurn(t.Context(), dir, "r:src-1", func() { t.Error("the first waits") })
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := takeTurn(ctx, dir, "r:src-1", cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while waiting: %v", err)
	}
	if other, err := takeTurn(t.Context(), dir, "r:src-2", func() { t.Error("another image waits") }); err != nil {
		t.Error(err)
	} else {
		other()
	}
	t.Chdir(t.TempDir())
	for _, nowhere := range []string{"", "/dev/null/x"} {
		for range 2 {
			if _, err := takeTurn(t.Context(), nowhere, "r:src-1", func() { t.Errorf("%q is waited for", nowhere) }); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("without a directory for turns there are files in the present one: %v, %v", left, err)
	}
}

// Who comes second finds the image that the first made, and builds nothing.
func TestWhoWaitedFindsTheImage(t *testing.T) {
	o := ImageOptions{Turns: t.TempDir(), Progress: func(string) {}}
	o.Choice.Ref = "r:src-1"
	f := &fakeImages{images: map[string]map[string]string{o.Choice.Ref: {}}}
	if built, err := buildInTurn(t.Context(), f, o); built || err != nil {
		t.Errorf("built = %v, %v", built, err)
	}
}
