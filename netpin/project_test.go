package netpin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

var (
	anonymousA = strings.Repeat("a", 64)
	anonymousB = strings.Repeat("b", 64)
)

// projectWorld has a project t1 with everything, and a t11 that must stay.
func projectWorld() *fakeEngine {
	f := world()
	f.addNetwork("n11", "t11_external", "198.18.2.0/27", map[string]string{labelProject: "t11", labelNetwork: "external"})
	on := func(id, service, project string, networks map[string]*network.EndpointSettings) {
		f.addContainer(id, project+"-"+service+"-1", map[string]string{labelProject: project, labelService: service}).NetworkSettings.Networks = networks
	}
	on("c1", "running", "t1", map[string]*network.EndpointSettings{"t1_external": {NetworkID: "n1", IPAddress: "198.18.0.17", GlobalIPv6Address: "fd00::2"}})
	on("c2", "created", "t1", map[string]*network.EndpointSettings{"t1_external": {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: "198.18.0.18"}}})
	on("c3", "addressless", "t1", map[string]*network.EndpointSettings{"t1_external": {}, "elsewhere": nil})
	on("c4", "default", "t11", map[string]*network.EndpointSettings{"t11_external": {NetworkID: "n11", IPAddress: "198.18.2.17"}})
	f.states = map[string]string{"c1": "running", "c2": "created"}
	f.ports = map[string][]container.Port{"c1": {{IP: "0.0.0.0", PublicPort: 32768, PrivatePort: 80, Type: "tcp"}, {PrivatePort: 443, Type: "tcp"}}}
	f.mounts = map[string][]container.MountPoint{"c1": {{Type: mount.TypeVolume, Name: anonymousA}, {Type: mount.TypeVolume, Name: "t1_db"}, {Type: mount.TypeBind}}}
	f.volumes = []*volume.Volume{{Name: "t1_db", Labels: map[string]string{labelProject: "t1"}}, {Name: anonymousB, Labels: map[string]string{labelProject: "t1"}},
		{Name: anonymousA}, {Name: "t11_db", Labels: map[string]string{labelProject: "t11"}}}
	return f
}

func TestAProjectIsFoundByLabelInAnyState(t *testing.T) {
	p, err := FindProject(context.Background(), projectWorld(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Names(); got != "container t1-addressless-1, container t1-created-1, container t1-running-1, network t1_external" {
		t.Errorf("found %s", got)
	}
	if !slices.Equal(p.Volumes, []string{"t1_db"}) || !slices.Equal(p.Anonymous, []string{anonymousA, anonymousB}) {
		t.Errorf("volumes %v, anonymous %v", p.Volumes, p.Anonymous)
	}
	if c := p.Containers[2]; c.State != "running" || c.Service != "running" || !slices.Equal(c.Ports, []string{"0.0.0.0:32768->80/tcp"}) {
		t.Errorf("container %+v", c)
	}
	if empty, err := FindProject(context.Background(), projectWorld(), "t2"); err != nil || !empty.Empty() || p.Empty() {
		t.Errorf("t2: %+v, %v", empty, err)
	}
}

func TestServicesAreKnownByTheAddressTheyHaveOrWillHave(t *testing.T) {
	p, err := FindProject(context.Background(), projectWorld(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Peers("n1", nil, "c2")); got != "[{created 198.18.0.18 c2 true} {running 198.18.0.17 c1 false} {running fd00::2 c1 false}]" {
		t.Errorf("peers %s", got)
	}
	if got := p.Peers("n11", nil); got == nil || len(got) != 0 {
		t.Errorf("peers on another network: %v", got)
	}
	if got := fmt.Sprint(p.ByService("n1")); got != "map[created:[198.18.0.18] running:[198.18.0.17 fd00::2]]" {
		t.Errorf("by service %s", got)
	}
}

func TestSweepingRemovesWhatIsTheProjectsAndNothingElse(t *testing.T) {
	for _, volumes := range []bool{false, true} {
		f := projectWorld()
		for range 2 { // the second finds nothing left
			gone := []string{anonymousA}
			if volumes {
				gone = append(gone, "t1_db")
			}
			if err := Sweep(context.Background(), f, "t1", SweepOptions{Volumes: gone, Timeout: 3 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		var left []string
		for _, c := range f.containers {
			left = append(left, c.Name)
		}
		for _, n := range f.networks {
			left = append(left, n.Name)
		}
		for _, v := range f.volumes {
			left = append(left, v.Name)
		}
		want := []string{"/ctis-simulator", "/t11-default-1", "t11_external", "t1_db", "t11_db"}
		if volumes {
			want = slices.Delete(want, 3, 4)
		}
		if !reflect.DeepEqual(left, want) {
			t.Errorf("volumes %t: left %v, want %v", volumes, left, want)
		}
		if !slices.Contains(f.calls, "stop c1 3") {
			t.Errorf("calls %v", f.calls)
		}
	}
}

func TestSweepingGoesOnPastWhatTheEngineRefuses(t *testing.T) {
	f := projectWorld()
	refusal := errors.New("driver failed")
	f.before = func(call string) error {
		if strings.HasPrefix(call, "rm c1") || strings.HasPrefix(call, "stop c2") {
			return refusal
		}
		return nil
	}
	err := Sweep(context.Background(), f, "t1", SweepOptions{})
	if !errors.Is(err, refusal) || !strings.Contains(err.Error(), "t1-running-1") || !strings.Contains(err.Error(), "t1-created-1") {
		t.Errorf("got %v", err)
	}
	if len(f.networks) != 1 || len(f.containers) != 3 {
		t.Errorf("%d networks and %d containers are left", len(f.networks), len(f.containers))
	}
}

func TestFreeFindsRoomForAPurpose(t *testing.T) {
	p, err := Free(DefaultPool, 28, nil, "link")
	if err != nil || p.Bits() != 28 || !DefaultPool.Contains(p.Addr()) {
		t.Errorf("%s, %v", p, err)
	}
	var full *ExhaustedError
	if _, err := Free(DefaultPool, 28, []netip.Prefix{DefaultPool}, "link"); !errors.As(err, &full) || !slices.Equal(full.Networks, []string{"link"}) {
		t.Errorf("a pool that is taken: %v", err)
	}
	if _, err := Free(netip.Prefix{}, 28, nil, "link"); err == nil {
		t.Error("no pool was accepted")
	}
}

// TestSweepingThatSettlesSeesWhatComesLate: the engine finishes what a process
// that was just ended had asked for.
func TestSweepingThatSettlesSeesWhatComesLate(t *testing.T) {
	f := projectWorld()
	late := false
	f.before = func(call string) error {
		if !late && strings.HasPrefix(call, "remove n1") {
			late = true
			f.addNetwork("late", "t1_late", "198.18.9.0/27", map[string]string{labelProject: "t1", labelNetwork: "late"})
		}
		return nil
	}
	if err := Sweep(t.Context(), f, "t1", SweepOptions{Settle: true}); err != nil {
		t.Fatal(err)
	}
	if left, err := FindProject(t.Context(), f, "t1"); err != nil || !left.Empty() || !late {
		t.Errorf("left %s (%v), late %t", left.Names(), err, late)
	}
}

func TestImagesThatComposeBuiltForTheProjectGoWithIt(t *testing.T) {
	f := projectWorld()
	f.images = []image.Summary{
		{ID: "i1", RepoTags: []string{"t1-default:latest"}, Labels: map[string]string{labelProject: "t1", labelService: "default"}},
		{ID: "i2", RepoTags: []string{"somebody/else:1", "t1-default:kept-elsewhere"}, Labels: map[string]string{labelProject: "t1", labelService: "db"}},
		{ID: "i3", RepoTags: []string{"t11-default:latest"}, Labels: map[string]string{labelProject: "t11", labelService: "default"}},
	}
	if err := Sweep(t.Context(), f, "t1", SweepOptions{}); err != nil {
		t.Fatal(err)
	}
	var gone []string
	for _, call := range f.calls {
		if ref, ok := strings.CutPrefix(call, "rmi "); ok {
			gone = append(gone, ref)
		}
	}
	if !slices.Equal(gone, []string{"t1-default:latest"}) {
		t.Errorf("removed images %q", gone)
	}
}

func TestTrajectoriesAreFoundByTheirInstancesLabel(t *testing.T) {
	f := projectWorld()
	for _, c := range f.containers {
		if labels := c.Config.Labels; labels[labelProject] != "" {
			labels[LabelTrajectory], labels[labelInstance] = labels[labelProject], "ctis"
		}
	}
	if ids, err := Trajectories(t.Context(), f, "ctis"); err != nil || !slices.Contains(ids, "t1") || !slices.Contains(ids, "t11") {
		t.Errorf("%q, %v", ids, err)
	}
	if ids, err := Trajectories(t.Context(), f, "other"); err != nil || len(ids) != 0 {
		t.Errorf("%q, %v", ids, err)
	}
}

// TestSweepingLeavesWhatWasThereBefore: by id, for what is made anew has the old name.
func TestSweepingLeavesWhatWasThereBefore(t *testing.T) {
	f := projectWorld()
	before, err := FindProject(t.Context(), f, "t1")
	if err != nil {
		t.Fatal(err)
	}
	f.addNetwork("n9", "t1_external", "198.18.9.0/27", map[string]string{labelProject: "t1", labelNetwork: "external"})
	f.volumes = append(f.volumes, &volume.Volume{Name: "t1_new", Labels: map[string]string{labelProject: "t1"}})
	before.Containers = slices.DeleteFunc(before.Containers, func(c Container) bool { return c.Name == "t1-created-1" }) // so it is new
	if err := Sweep(t.Context(), f, "t1", SweepOptions{Before: before, Named: true}); err != nil {
		t.Fatal(err)
	}
	after, err := FindProject(t.Context(), f, "t1")
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Names(); got != "container t1-addressless-1, container t1-running-1, network t1_external" || after.Networks[0].ID != "n1" {
		t.Errorf("left: %s (%s)", got, after.Networks[0].ID)
	}
	if !slices.Equal(after.Volumes, []string{"t1_db"}) {
		t.Errorf("volumes %v", after.Volumes)
	}
}
