package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func exclusive(kind, name string) []api.Exclusive { return []api.Exclusive{{Kind: kind, Name: name}} }

// wantRefused checks code, holder and thing of a refusal.
func wantRefused(t *testing.T, err error, code, holder string, what api.Exclusive) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != code || !reflect.DeepEqual(e.Holders, []string{holder}) || e.Exclusive == nil || *e.Exclusive != what {
		t.Errorf("refused with %+v, want %s of %s for %v", err, code, holder, what)
	}
}

func TestWhatIsExclusiveIsHeldOnceAndReleased(t *testing.T) {
	for _, c := range []struct {
		kind, first, second string
		meet                bool
	}{
		{api.KindNetwork, "shared", "shared", true},
		{api.KindNetwork, "shared", "shared2", false},
		{api.KindVolume, "data", "data", true},
		{api.KindSubnet, "10.9.0.0/24", "10.9.0.128/25", true},
		{api.KindSubnet, "10.9.0.128/25", "10.9.0.0/16", true},
		{api.KindSubnet, "10.9.0.0/24", "10.9.1.0/24", false},
		{api.KindSubnet, "fd5c::/64", "fd5c::1:0:0/80", true},
		{api.KindSubnet, "fd5c::/64", "10.9.0.0/24", false},
		{api.KindContainer, "proxy", "proxy", true},
		{api.KindBridge, "br-lab", "br-lab", true},
		{api.KindParent, "eth0", "eth0", true},
		{api.KindHost, "network", "network", true},
		{api.KindHost, "network", "ipc", false},
	} {
		r := open(t, t.TempDir())
		release, err := r.Hold("a", exclusive(c.kind, c.first))
		if err != nil {
			t.Fatal(err)
		}
		other, err := r.Hold("b", exclusive(c.kind, c.second))
		if !c.meet {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			other()
			continue
		}
		wantRefused(t, err, api.CodeHeld, "a", api.Exclusive{Kind: c.kind, Name: c.second})
		if down, err := r.Hold("b", nil); err != nil {
			t.Errorf("%+v: taking down is refused: %v", c, err)
		} else {
			down()
		}
		release()
		if again, err := r.Hold("b", exclusive(c.kind, c.second)); err != nil {
			t.Errorf("%+v: after the release: %v", c, err)
		} else {
			again()
		}
	}
}

func TestKindsDoNotMeet(t *testing.T) {
	r := open(t, t.TempDir())
	for i, kind := range []string{api.KindNetwork, api.KindVolume, api.KindContainer, api.KindBridge, api.KindParent, api.KindHost} {
		if _, err := r.Hold(fmt.Sprint("t", i), exclusive(kind, "same")); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestWhatARegisteredTrajectoryHasStaysItsOwnThroughARestart(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	reg := registration("a", 1)
	reg.Exclusive = []api.Exclusive{{Kind: api.KindVolume, Name: "data"}, {Kind: api.KindSubnet, Name: "10.9.0.0/24"}}
	release, err := r.Hold("a", reg.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	register(t, r, reg)
	release()
	if err := r.SetPeers("a", api.Peers{"external": nil}); err != nil { // writes the registration anew
		t.Fatal(err)
	}
	r = open(t, dir)
	_, err = r.Hold("b", exclusive(api.KindVolume, "data"))
	wantRefused(t, err, api.CodeConflict, "a", api.Exclusive{Kind: api.KindVolume, Name: "data"})
	late := registration("b", 2) // without a hold
	late.Exclusive = exclusive(api.KindSubnet, "10.9.0.0/16")
	_, err = r.Register(late, ok)
	wantRefused(t, err, api.CodeConflict, "a", api.Exclusive{Kind: api.KindSubnet, Name: "10.9.0.0/16"})
	if again, err := r.Hold("a", reg.Exclusive); err != nil {
		t.Errorf("its own: %v", err)
	} else {
		again()
	}
	if _, err := r.Unregister("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hold("b", exclusive(api.KindVolume, "data")); err != nil {
		t.Errorf("after it was unregistered: %v", err)
	}
}

func TestARegistrationMeetsTheHoldOfAnother(t *testing.T) {
	r := open(t, t.TempDir())
	if _, err := r.Hold("a", exclusive(api.KindNetwork, "shared")); err != nil {
		t.Fatal(err)
	}
	reg := registration("b", 2)
	reg.Exclusive = exclusive(api.KindNetwork, "shared")
	_, err := r.Register(reg, ok)
	wantRefused(t, err, api.CodeHeld, "a", reg.Exclusive[0])
}

func TestListsThatNobodyCouldGuardAreRefused(t *testing.T) {
	r := open(t, t.TempDir())
	for name, list := range map[string][]api.Exclusive{
		"no subnet": exclusive(api.KindSubnet, "10.9.0.0"), "no name": exclusive(api.KindVolume, ""),
		"unknown": exclusive("printer", "x"), "long": exclusive(api.KindVolume, strings.Repeat("x", 5000)),
		"many": make([]api.Exclusive, maxExclusive+1),
	} {
		if _, err := r.Hold("a", list); codeOf(err) != api.CodeInvalid {
			t.Errorf("%s: held: %v", name, err)
		}
		reg := registration("a", 1)
		reg.Exclusive = list
		if _, err := r.Register(reg, ok); codeOf(err) != api.CodeInvalid {
			t.Errorf("%s: registered: %v", name, err)
		}
	}
}

// TestStateFromBeforeSuchListsIsServedAndCompleted: version 1 had none; the next
// registration of the trajectory adds what it has.
func TestStateFromBeforeSuchListsIsServedAndCompleted(t *testing.T) {
	dir := t.TempDir()
	reg := registration("a", 1)
	c, err := json.Marshal(content{Registration: *reg})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(c)
	file, err := json.Marshal(envelope{Version: 1, SHA256: hex.EncodeToString(sum[:]), Content: c})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "a.json"), file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	if len(r.Problems()) > 0 || len(r.Snapshot()) != 1 {
		t.Fatalf("problems %q, served %v", r.Problems(), r.Snapshot())
	}
	reg.Exclusive = exclusive(api.KindVolume, "data")
	if unchanged, err := r.Register(reg, ok); err != nil || !unchanged {
		t.Errorf("unchanged %v, %v", unchanged, err)
	}
	_, err = open(t, dir).Hold("b", exclusive(api.KindVolume, "data"))
	wantRefused(t, err, api.CodeConflict, "a", reg.Exclusive[0])
}

// TestOfManyAtOnceOneGetsIt.
func TestOfManyAtOnceOneGetsIt(t *testing.T) {
	r := open(t, t.TempDir())
	var group sync.WaitGroup
	won := make(chan string, 32)
	for i := range cap(won) {
		id := fmt.Sprint("t", i)
		group.Go(func() {
			if _, err := r.Hold(id, exclusive(api.KindSubnet, fmt.Sprintf("10.9.0.0/%d", 16+i%8))); err == nil {
				won <- id
			} else if codeOf(err) != api.CodeHeld {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(won) != 1 {
		t.Errorf("%d got it", len(won))
	}
}
