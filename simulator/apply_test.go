package simulator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/linuxarena/ctis/server/api"
)

func want(hash string) EnsureOptions {
	ref := "r:src-" + hash
	return EnsureOptions{Instance: "ctis", Image: ImageResult{Ref: ref, ID: "id-of-" + ref, Hash: hash}, Timeout: 20 * time.Second}
}

func mustEnsure(t *testing.T, f *fakeEngine, o EnsureOptions) *Result {
	t.Helper()
	r, err := Ensure(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Client.Close)
	return r
}

func (f *fakeEngine) said(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.calls, want) {
		t.Errorf("engine was told\n  %s\nwant\n  %s", strings.Join(f.calls, "\n  "), strings.Join(want, "\n  "))
	}
	f.calls = nil
}

var fromNothing = []string{"create network ctis-link", "create volume ctis-state", "create ctis-simulator from r:src-1", "start ctis-simulator"}

func TestSimulatorIsCreatedOnceAndThenReused(t *testing.T) {
	f := newFake()
	first := mustEnsure(t, f, want("1"))
	f.said(t, fromNothing...)
	if first.Reused || first.Container != "ctis-simulator" || first.Address != netip.MustParseAddr("192.0.2.2") {
		t.Errorf("first = %+v", first)
	}
	second := mustEnsure(t, f, want("1"))
	f.said(t)
	if !second.Reused || second.ID != first.ID {
		t.Errorf("second = %+v, want %s reused", second, first.ID)
	}
	if st, err := second.Client.Status(context.Background()); err != nil || st.Protocol != api.Protocol {
		t.Errorf("status = %+v, %v", st, err)
	}
}

func TestOfManyProcessesOneCreatesAndAllSucceed(t *testing.T) {
	f := newFake()
	var wg sync.WaitGroup
	ids, created := make([]string, 20), make([]bool, 20)
	for i := range ids {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := Ensure(context.Background(), f, want("1"))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Client.Close()
			ids[i], created[i] = r.ID, !r.Reused
		}()
	}
	wg.Wait()
	slices.Sort(ids)
	if got := slices.Compact(ids); len(got) != 1 {
		t.Errorf("containers = %q, want one", got)
	}
	creators := 0
	for _, c := range created {
		if c {
			creators++
		}
	}
	if creators != 1 || len(f.networks) != 1 || len(f.containers) != 1 {
		t.Errorf("%d creators, %d networks, %d containers; want one of each", creators, len(f.networks), len(f.containers))
	}
}

func TestSecondNetworkOfOneNameIsTakenBack(t *testing.T) {
	f := newFake()
	labels := map[string]string{LabelInstance: "ctis"}
	// Another process makes the network while this one does.
	f.onSubnet = func(string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.networks = append(f.networks, network.Summary{ID: "older", Name: "ctis-link", Labels: labels, Created: f.now})
		return nil
	}
	mustEnsure(t, f, want("1"))
	if len(f.networks) != 1 || f.networks[0].ID != "older" {
		t.Errorf("networks = %+v, want only the older", f.networks)
	}
}

func TestNetworkOfASimilarNameIsNotTheLink(t *testing.T) {
	f := newFake()
	f.networks = []network.Summary{{ID: "x", Name: "my-ctis-link-2"}}
	mustEnsure(t, f, want("1"))
	f.said(t, fromNothing...)
}

func TestSubnetThatIsTakenMeanwhileIsAskedForAgain(t *testing.T) {
	f := newFake()
	f.onSubnet = func(s string) error {
		if s == "198.18.0.0/28" {
			return errors.New("Pool overlaps with other one on this address space")
		}
		return nil
	}
	asked := 0
	subnet := func(context.Context) (netip.Prefix, error) {
		asked++
		return netip.MustParsePrefix(fmt.Sprintf("198.18.%d.0/28", asked-1)), nil
	}
	first, err := ensureLink(context.Background(), f, "ctis", subnet, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ensureLink(context.Background(), f, "ctis", subnet, 0)
	if err != nil || first != second || asked != 2 {
		t.Errorf("networks %q and %q, %v, after %d questions for a subnet; want one after 2", first, second, err, asked)
	}
}

func TestSubnetThatIsNeverTakenIsAnError(t *testing.T) {
	f := newFake()
	boom := errors.New("could not find an available, non-overlapping IPv4 address pool")
	f.onSubnet = func(string) error { return boom }
	if _, err := ensureLink(context.Background(), f, "ctis", nil, 0); !errors.Is(err, boom) || !strings.Contains(err.Error(), `"ctis-link"`) {
		t.Errorf("error = %v, want the engine's, naming the network", err)
	}
}

func TestSubnetThatIsTakenByTheLinkItselfIsWaitedFor(t *testing.T) {
	f := newFake()
	f.onSubnet = func(string) error { // another process's, not listed yet
		go func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.networks = append(f.networks, network.Summary{ID: "theirs", Name: "ctis-link", Labels: map[string]string{LabelInstance: "ctis"}})
		}()
		return errors.New("Pool overlaps with other one on this address space")
	}
	if id, err := ensureLink(context.Background(), f, "ctis", nil, time.Minute); err != nil || id != "theirs" {
		t.Errorf("network = %q, %v", id, err)
	}
}

func TestHalfCreatedContainerOfADeadProcessIsReplaced(t *testing.T) {
	f := newFake()
	died := errors.New("killed")
	f.onStart = func(*fakeContainer) error { return died }
	mustFail := func() { // as if the process had died between the two: what it made stays
		_, _ = ensureLink(context.Background(), f, "ctis", nil, 0)
		config, host := containerConfig("ctis", Want{Image: "r:src-1", Hash: "1", Protocol: 1}, f.networks[0].ID)
		if _, err := f.ContainerCreate(context.Background(), config, host, nil, nil, "ctis-simulator"); err != nil {
			t.Fatal(err)
		}
	}
	mustFail()
	f.onStart, f.tick, f.calls = nil, 4*time.Second, nil
	var said []string
	o := want("1")
	o.Progress = func(d Decision) { said = append(said, d.String()) }
	mustEnsure(t, f, o)
	f.said(t, "remove ctis-simulator", "create volume ctis-state", "create ctis-simulator from r:src-1", "start ctis-simulator")
	wantSaid := []string{"wait: another process has just created it", "replace: it was created 12s ago and never started", "create: there is none", "reuse"}
	if !slices.Equal(said, wantSaid) {
		t.Errorf("decisions = %q\n     want %q", said, wantSaid)
	}
}

func TestContainerTakenAwayWhileItIsStartedIsMadeAgain(t *testing.T) {
	f := newFake()
	f.onStart = func(c *fakeContainer) error {
		f.onStart = nil
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.containers, c.id)
		return fmt.Errorf("no such container: %w", cerrdefs.ErrNotFound)
	}
	mustEnsure(t, f, want("1"))
	if len(f.containers) != 1 {
		t.Errorf("%d containers, want 1", len(f.containers))
	}
}

func TestStoppedSimulatorIsStarted(t *testing.T) {
	for _, state := range []string{"exited", "paused"} {
		f := newFake()
		id := mustEnsure(t, f, want("1")).ID
		f.containers[id].state, f.calls = state, nil
		r := mustEnsure(t, f, want("1"))
		if r.ID != id || r.Reused {
			t.Errorf("%s: result = %+v", state, r)
		}
		f.said(t, map[string]string{"exited": "start", "paused": "unpause"}[state]+" ctis-simulator")
	}
}

func TestIdleSimulatorOfAnotherImageIsReplacedOnTheSameState(t *testing.T) {
	f := newFake()
	old := mustEnsure(t, f, want("1"))
	f.calls = nil
	r := mustEnsure(t, f, want("2"))
	f.said(t, "retire ctis-simulator", "stop ctis-simulator", "remove ctis-simulator", "create ctis-simulator from r:src-2", "start ctis-simulator")
	if r.ID == old.ID || r.Reused || len(f.volumes) != 1 {
		t.Errorf("result = %+v with volumes %v", r, f.volumes)
	}
}

func TestBusySimulatorOfAnotherImageIsLeftAlone(t *testing.T) {
	f := newFake()
	mustEnsure(t, f, want("1"))
	f.registered["ctis-state"], f.calls = []string{"a", "b"}, nil
	_, err := Ensure(context.Background(), f, want("2"))
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("error = %v (%T), want a *BusyError", err, err)
	}
	f.said(t)
	const text = `simulator "ctis-simulator" is busy: 2 trajectories are attached (a, b) and its image differs (have r:src-1, want r:src-2)`
	const hint = "end them with `ctis down a b`, or use another instance with `--instance NAME`"
	if err.Error() != text || busy.Hint() != hint || busy.Have != "r:src-1" || busy.Want != "r:src-2" {
		t.Errorf("error = %s\nhint = %s", err, busy.Hint())
	}
	if r := mustEnsure(t, f, want("1")); !r.Reused {
		t.Error("the wanted one is not reused while busy")
	}
}

func TestTrajectoryThatComesWhileReplacingWins(t *testing.T) {
	f := newFake()
	mustEnsure(t, f, want("1"))
	f.calls = nil
	f.onRetire = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.registered["ctis-state"] = []string{"late"}
	}
	_, err := Ensure(context.Background(), f, want("2"))
	var busy *BusyError
	if !errors.As(err, &busy) || !slices.Equal(busy.Attached, []string{"late"}) {
		t.Errorf("error = %v, want a *BusyError naming the late one", err)
	}
	f.said(t)
}

func TestSilentSimulatorOfAnotherImageNamesTheTrajectoriesOfItsNetworks(t *testing.T) {
	f := newFake()
	c := f.containers[mustEnsure(t, f, want("1")).ID]
	f.networks = append(f.networks,
		network.Summary{ID: "x", Name: "t1_external", Labels: map[string]string{"com.docker.compose.project": "t1"}},
		network.Summary{ID: "y", Name: "t1_external_2", Labels: map[string]string{"com.docker.compose.project": "t2"}})
	c.networks, f.unready, f.now = []string{"t1_external", "other"}, true, f.now.Add(time.Minute)
	_, err := Ensure(context.Background(), f, want("2"))
	var busy *BusyError
	if !errors.As(err, &busy) || !slices.Equal(busy.Attached, []string{"other", "t1"}) {
		t.Errorf("Ensure = %v, want a *BusyError naming other and t1", err)
	}
	if _, err := Remove(context.Background(), f, "ctis", RemoveOptions{}); !errors.As(err, &busy) || !slices.Equal(busy.Attached, []string{"other", "t1"}) {
		t.Errorf("Remove = %v, want a *BusyError naming other and t1", err)
	}
}

func TestRetiredSimulatorOfADeadProcessIsReplaced(t *testing.T) {
	f := newFake()
	id := mustEnsure(t, f, want("1")).ID
	f.containers[id].retired, f.calls = true, nil
	if r := mustEnsure(t, f, want("1")); r.ID == id {
		t.Error("a retired simulator is reused")
	}
}

func TestProcessesThatReplaceAtOnceEndWithOneSimulator(t *testing.T) {
	f := newFake()
	mustEnsure(t, f, want("1"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := Ensure(context.Background(), f, want("2"))
			if err != nil {
				t.Error(err)
				return
			}
			r.Client.Close()
		}()
	}
	wg.Wait()
	if len(f.containers) != 1 {
		t.Errorf("%d containers, want 1", len(f.containers))
	}
	for _, c := range f.containers {
		if c.config.Image != "r:src-2" || c.state != "running" {
			t.Errorf("container = %+v", c)
		}
	}
}

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	cases := map[string]func(*fakeEngine){
		"container": func(f *fakeEngine) {
			config, host := containerConfig("ctis", Want{}, "")
			config.Labels = nil
			_, _ = f.ContainerCreate(context.Background(), config, host, nil, nil, "ctis-simulator")
		},
		"volume":  func(f *fakeEngine) { f.volumes["ctis-state"] = volume.Volume{Name: "ctis-state"} },
		"network": func(f *fakeEngine) { f.networks = []network.Summary{{ID: "n", Name: "ctis-link"}} },
	}
	for kind, prepare := range cases {
		t.Run(kind, func(t *testing.T) {
			f := newFake()
			prepare(f)
			_, err := Ensure(context.Background(), f, want("1"))
			var foreign *ForeignError
			if !errors.As(err, &foreign) || foreign.Kind != kind {
				t.Errorf("Ensure = %v (%T), want a *ForeignError about the %s", err, err, kind)
			}
			if _, err := Remove(context.Background(), f, "ctis", RemoveOptions{Volume: true, Force: true}); !errors.As(err, &foreign) || foreign.Kind != kind {
				t.Errorf("Remove = %v (%T), want a *ForeignError about the %s", err, err, kind)
			}
		})
	}
}

func TestRefusedLimitOfOpenFilesIsGivenUp(t *testing.T) {
	f := newFake()
	f.onStart = func(c *fakeContainer) error {
		if len(c.host.Ulimits) > 0 {
			return errors.New("error setting rlimits for ready process: operation not permitted")
		}
		return nil
	}
	r := mustEnsure(t, f, want("1"))
	if len(f.containers) != 1 || f.containers[r.ID].state != "running" {
		t.Errorf("containers = %+v", f.containers)
	}
}

func TestStartThatFailsAnywayReportsTheFirstReasonAndLeavesNothing(t *testing.T) {
	f := newFake()
	attempts := 0
	f.onStart = func(*fakeContainer) error { attempts++; return fmt.Errorf("reason %d", attempts) }
	_, err := Ensure(context.Background(), f, want("1"))
	if err == nil || !strings.Contains(err.Error(), "reason 1") || len(f.containers) != 0 {
		t.Errorf("error = %v with %d containers left", err, len(f.containers))
	}
}

func TestSimulatorThatDoesNotAnswerIsReportedWithItsLogs(t *testing.T) {
	f := newFake()
	f.unready = true
	o := want("1")
	o.Timeout = time.Millisecond
	_, err := Ensure(context.Background(), f, o)
	var nr *NotReadyError
	if !errors.As(err, &nr) {
		t.Fatalf("error = %v (%T), want a *NotReadyError", err, err)
	}
	for _, part := range []string{"ctis-simulator", "running", "admin.sock: no such file", "\n  panic: no"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not say %q: %s", part, err)
		}
	}
}

func TestSimulatorThatKeepsCrashingIsReportedBeforeTheTimeout(t *testing.T) {
	f := newFake()
	f.crashing = true
	_, err := Ensure(context.Background(), f, want("1"))
	var nr *NotReadyError
	if !errors.As(err, &nr) || !strings.Contains(err.Error(), "crashed 3 times") {
		t.Errorf("error = %v, want a *NotReadyError that counts crashes", err)
	}
}

func TestPrunedLinkNetworkIsMadeAgain(t *testing.T) {
	f := newFake()
	id := mustEnsure(t, f, want("1")).ID
	f.containers[id].state, f.networks, f.calls = "exited", nil, nil
	if r := mustEnsure(t, f, want("1")); r.ID == id {
		t.Error("the container without its network is reused")
	}
	f.said(t, "remove ctis-simulator", "create network ctis-link", "create ctis-simulator from r:src-1", "start ctis-simulator")
}

func TestCancelledEnsureLeavesNoContainer(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(context.Background())
	f.onStart = func(*fakeContainer) error { cancel(); return ctx.Err() }
	if _, err := Ensure(ctx, f, want("1")); !errors.Is(err, context.Canceled) || len(f.containers) != 0 {
		t.Errorf("error = %v with %d containers left", err, len(f.containers))
	}
}

func TestRemoveTakesAllOfAnIdleInstanceAndCanBeRepeated(t *testing.T) {
	f := newFake()
	mustEnsure(t, f, want("1"))
	f.registered["ctis-state"] = []string{"a"}
	var busy *BusyError
	if _, err := Remove(context.Background(), f, "ctis", RemoveOptions{}); !errors.As(err, &busy) {
		t.Fatalf("error = %v, want a *BusyError", err)
	}
	f.registered["ctis-state"], f.calls = nil, nil
	r, err := Remove(context.Background(), f, "ctis", RemoveOptions{Volume: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(*r); got != "{[ctis-simulator] [ctis-link] [ctis-state]}" {
		t.Errorf("removed = %s", got)
	}
	f.said(t, "retire ctis-simulator", "stop ctis-simulator", "remove ctis-simulator", "remove network ctis-link", "remove volume ctis-state")
	if r, err = Remove(context.Background(), f, "ctis", RemoveOptions{Volume: true}); err != nil || fmt.Sprint(*r) != "{[] [] []}" {
		t.Errorf("again: removed = %v, %v", r, err)
	}
	f.said(t)
}

func TestForcedRemoveAsksNobody(t *testing.T) {
	f := newFake()
	mustEnsure(t, f, want("1"))
	f.registered["ctis-state"], f.calls = []string{"a"}, nil
	if _, err := Remove(context.Background(), f, "ctis", RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if len(f.containers) != 0 || len(f.volumes) != 1 {
		t.Errorf("containers %v, volumes %v; want none and the state", f.containers, f.volumes)
	}
}

func TestInstanceNamesAreChecked(t *testing.T) {
	for name, ok := range map[string]bool{
		"ctis": true, "a": true, "0-x_y": true, strings.Repeat("a", 31): true,
		"": false, "-a": false, "_a": false, "A": false, "a b": false, "a/b": false, "a.b": false, strings.Repeat("a", 32): false, "a\n": false,
	} {
		if err := ValidateInstance(name); (err == nil) != ok {
			t.Errorf("ValidateInstance(%q) = %v", name, err)
		}
		if _, err := Ensure(context.Background(), newFake(), EnsureOptions{Instance: name, Image: want("1").Image}); !ok && err == nil {
			t.Errorf("Ensure takes instance %q", name)
		}
	}
}
