package netpin

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/linuxarena/ctis/server/api"
)

// drifting is a trajectory as it was set up: the simulator on its network, a
// prepared container on it, and one beside it.
func drifting(t *testing.T) (*fakeEngine, api.TrajectoryStatus) {
	t.Helper()
	f := world()
	f.states = map[string]string{"c1": "running", "c2": "running", "c3": "running"}
	mine := map[string]string{labelProject: "t1", labelService: "default", LabelTrajectory: "t1"}
	f.addContainer("c1", "t1-default-1", mine)
	f.addContainer("c2", "t1-db-1", map[string]string{labelProject: "t1", labelService: "db", LabelTrajectory: "t1"})
	for id, ip := range map[string]string{simID: "198.18.0.16", "c1": "198.18.0.17"} {
		e := &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: ip}}
		if id == simID {
			e.Aliases = []string{"filebin.net"}
		}
		if err := f.connect("n1", map[string]string{simID: "ctis-simulator", "c1": "t1-default-1"}[id], e); err != nil {
			t.Fatal(err)
		}
	}
	return f, api.TrajectoryStatus{Trajectory: "t1", Personas: []string{"filebin.net"}, Networks: []api.Network{{
		Name: "external", ID: "n1", Subnets: []netip.Prefix{pfx("198.18.0.0/27")}, Addresses: []netip.Addr{adr("198.18.0.16")},
		Peers: []api.Peer{{Service: "default", Address: adr("198.18.0.17"), Container: "c1"}},
	}}}
}

// exposing gives the trajectory a sidecar for the hostname api.example, with an alias.
func exposing(t *testing.T, f *fakeEngine, s *api.TrajectoryStatus, alias string) {
	t.Helper()
	s.Exposed = []api.Exposed{{Host: "api.example", Service: "default", Port: 80}}
	f.states["c9"] = "running"
	f.addContainer("c9", "t1-edge-1", map[string]string{labelProject: "t1", labelService: "edge", LabelTrajectory: "t1", labelSidecar: "exposed"})
	e := &network.EndpointSettings{Aliases: []string{alias}, IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: "198.18.0.18"}}
	if err := f.connect("n1", "t1-edge-1", e); err != nil {
		t.Fatal(err)
	}
	s.Networks[0].Peers = append(s.Networks[0].Peers, api.Peer{Service: "edge", Address: adr("198.18.0.18"), Container: "c9"})
}

func TestDriftIsFoundInEveryForm(t *testing.T) {
	labels := map[string]string{labelProject: "t1", labelNetwork: "external"}
	endpointOf := func(f *fakeEngine, name string) *network.EndpointSettings {
		c, _ := f.container(name)
		return c.NetworkSettings.Networks["t1_external"]
	}
	for _, tc := range []struct {
		name   string
		change func(*fakeEngine, *api.TrajectoryStatus)
		want   string // kinds
		says   string
		deep   bool
	}{
		{"as it was set up", func(*fakeEngine, *api.TrajectoryStatus) {}, "", "", false},
		{"the simulator is taken off", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			_ = f.NetworkDisconnect(t.Context(), "n1", "ctis-simulator", true)
		}, "detached", `not on network "external"`, false},
		{"its services are exposed, and there is no sidecar", func(_ *fakeEngine, t *api.TrajectoryStatus) {
			t.Exposed = []api.Exposed{{Host: "api.example", Service: "default", Port: 80}}
		}, "sidecar", "the sidecar of the exposed services is gone", true},
		{"the sidecar ended", func(f *fakeEngine, s *api.TrajectoryStatus) {
			exposing(t, f, s, "api.example")
			f.states["c9"] = "exited"
		}, "sidecar", "the sidecar of the exposed services is exited", true},
		{"the sidecar lost a hostname", func(f *fakeEngine, s *api.TrajectoryStatus) {
			exposing(t, f, s, "other.example")
		}, "sidecar", `not known as "api.example" on network "external"`, true},
		{"the sidecar does not find a target any more", func(f *fakeEngine, s *api.TrajectoryStatus) {
			exposing(t, f, s, "api.example")
			c, _ := f.container("t1-default-1")
			c.Config.Labels[labelExposed] = "external=x0123"
		}, "sidecar", `without a way to container "t1-default-1"`, true},
		{"the sidecar finds its target", func(f *fakeEngine, s *api.TrajectoryStatus) {
			exposing(t, f, s, "api.example")
			c, _ := f.container("t1-default-1")
			c.Config.Labels[labelExposed] = "external=x0123"
			endpointOf(f, "t1-default-1").Aliases = []string{"x0123"}
		}, "", "", false},
		{"the sidecar is as it was set up", func(f *fakeEngine, s *api.TrajectoryStatus) {
			exposing(t, f, s, "api.example")
		}, "", "", false},
		{"the simulator has another address", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			endpointOf(f, "ctis-simulator").IPAddress = "198.18.0.9"
		}, "address", "198.18.0.9, not 198.18.0.16", false},
		{"the simulator lost its names", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			endpointOf(f, "ctis-simulator").Aliases = []string{"example.com"}
		}, "names", "example.com", false},
		{"a container has another address", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			endpointOf(f, "t1-default-1").IPAddress = "198.18.0.3"
		}, "peer", "198.18.0.3", false},
		{"a container that does not run has none", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			*endpointOf(f, "t1-default-1") = network.EndpointSettings{NetworkID: "n1"}
		}, "", "", false},
		{"a container is taken off", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			_ = f.NetworkDisconnect(t.Context(), "n1", "t1-default-1", true)
		}, "off", `"t1-default-1" was taken off`, true},
		{"a container is made anew", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			_ = f.ContainerRemove(t.Context(), "c1", container.RemoveOptions{})
			f.addContainer("c3", "t1-default-1", map[string]string{labelProject: "t1", labelService: "default", LabelTrajectory: "t1"})
			_ = f.connect("n1", "t1-default-1", &network.EndpointSettings{})
		}, "container", `"t1-default-1" was made anew`, true},
		{"one beside it, too", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			c, _ := f.container("c2")
			delete(c.Config.Labels, LabelTrajectory)
		}, "container", `"t1-db-1" was made anew`, true},
		{"docker compose run is nobody's service", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			f.addContainer("c3", "t1-default-run-1", map[string]string{labelProject: "t1", labelService: "default", labelOneoff: "True"})
			_ = f.connect("n1", "t1-default-run-1", &network.EndpointSettings{})
		}, "", "", false},
		{"still without the authority after a repair", func(_ *fakeEngine, s *api.TrajectoryStatus) {
			s.Networks[0].Peers[0].Unprepared = true
		}, "container", "certificate authority", true},
		{"the network is made anew", func(f *fakeEngine, _ *api.TrajectoryStatus) {
			f.networks[0].ID = "n9"
		}, "network off", "its id is n9, not n1", true},
		{"the network is gone", func(f *fakeEngine, _ *api.TrajectoryStatus) { f.networks = nil }, "gone", "gone", true},
		{"an external network", func(f *fakeEngine, _ *api.TrajectoryStatus) { f.networks[0].Labels = nil }, "", "", false},
		{"registered before containers were known by id", func(_ *fakeEngine, s *api.TrajectoryStatus) {
			s.Networks[0].Peers[0].Container = ""
		}, "", "", false},
	} {
		f, registered := drifting(t)
		tc.change(f, &registered)
		project, err := FindProject(t.Context(), f, "t1")
		if err != nil {
			t.Fatal(err)
		}
		found, err := FindDrift(t.Context(), f, simID, registered, project)
		if err != nil {
			t.Fatal(err)
		}
		var kinds, says []string
		deep := false
		for _, d := range found {
			kinds, says, deep = append(kinds, string(d.Kind)), append(says, d.String()), deep || d.Deep()
		}
		if strings.Join(kinds, " ") != tc.want || !strings.Contains(fmt.Sprint(says), tc.says) || deep != tc.deep {
			t.Errorf("%s: %q, deep %t; want %s", tc.name, says, deep, tc.want)
		}
	}

	f, registered := drifting(t)
	f.networks[0].ID = "n8"
	f.addNetwork("n9", "t1_external", "198.18.1.0/27", labels)
	project, err := FindProject(t.Context(), f, "t1")
	if err != nil {
		t.Fatal(err)
	}
	var twice *AmbiguousNetworkError
	if _, err := FindDrift(t.Context(), f, simID, registered, project); !errors.As(err, &twice) || strings.Join(twice.IDs, " ") != "n8 n9" {
		t.Errorf("two networks in its place: %v", err)
	}
}

func TestPeersOfContainersThatDoNotRunAreKept(t *testing.T) {
	f, registered := drifting(t)
	before := append(registered.Networks[0].Peers,
		api.Peer{Service: "db", Address: adr("198.18.0.3"), Container: "c2"},
		api.Peer{Service: "gone", Address: adr("198.18.0.4"), Container: "c9"})
	project, err := FindProject(t.Context(), f, "t1")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(project.Peers("n1", before)); got != "[{db 198.18.0.3 c2 false} {default 198.18.0.17 c1 false}]" {
		t.Errorf("%s", got)
	}
	before[1].Address = adr("198.18.0.17") // which another has by now
	if got := fmt.Sprint(project.Peers("n1", before)); got != "[{default 198.18.0.17 c1 false}]" {
		t.Errorf("%s", got)
	}
}
