package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestOverTheSocketOneOfManyGetsWhatIsExclusive, until its connection ends; once it is
// registered, until it is unregistered.
func TestOverTheSocketOneOfManyGetsWhatIsExclusive(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	shared := api.Exclusive{Kind: api.KindVolume, Name: "shared"}
	var mu sync.Mutex
	var winner string
	var free func()
	var group sync.WaitGroup
	for i := range 8 {
		id := fmt.Sprint("t", i+2)
		group.Go(func() {
			release, err := w.admin.Hold(ctx, id, api.Exclusive{Kind: api.KindNetwork, Name: id}, shared)
			var e *api.Error
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && winner == "":
				winner, free = id, release
			case err == nil:
				t.Errorf("%s and %s both have it", winner, id)
			case !errors.As(err, &e) || e.Code != api.CodeHeld || e.Exclusive == nil || *e.Exclusive != shared || len(e.Holders) != 1:
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	group.Wait()
	if winner == "" {
		t.Fatal("nobody got it")
	}
	other := "t1"
	if down, err := w.admin.Hold(ctx, other); err != nil {
		t.Errorf("taking another one down: %v", err)
	} else {
		down()
	}
	reg := registration(winner, 2, plays("a.example", ""))
	reg.Exclusive = []api.Exclusive{shared}
	if _, err := w.admin.Register(ctx, reg); err != nil {
		t.Fatal(err)
	}
	free()
	taken := func() bool {
		release, err := w.admin.Hold(ctx, other, shared)
		var e *api.Error
		if errors.As(err, &e) && e.Exclusive != nil && len(e.Holders) == 1 && e.Holders[0] == winner {
			return true
		}
		if err != nil {
			t.Errorf("refused otherwise: %v", err)
		} else {
			release()
		}
		return false
	}
	for range 3 { // before and after the server notices that the hold has ended
		if !taken() {
			t.Error("given to another although it is registered")
		}
	}
	if _, err := w.admin.Unregister(ctx, winner); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is free", func() bool { return !taken() })
}
