package commands

import (
	"fmt"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func TestUpstreamDrift(t *testing.T) {
	u := func(hosts ...string) (list []api.Upstream) {
		for _, h := range hosts {
			list = append(list, api.Upstream{Host: h})
		}
		return list
	}
	running := &gatewayStatus{Container: "ctis-gateway", State: "running"}
	claims := map[string]api.Claims{"t1": {Upstreams: u("a.example", "b.example")}}
	for _, c := range []struct {
		name   string
		t      api.TrajectoryStatus
		g      *gatewayStatus
		claims map[string]api.Claims
		want   string
	}{
		{"no upstreams, no gateway", api.TrajectoryStatus{Trajectory: "t1"}, nil, nil, "[]"},
		{"all held", api.TrajectoryStatus{Trajectory: "t1", Upstreams: u("b.example", "a.example")}, running, claims, "[]"},
		{"gone", api.TrajectoryStatus{Trajectory: "t1", Upstreams: u("a.example")}, nil, nil, "[upstream proxies: the gateway is gone]"},
		{"stopped", api.TrajectoryStatus{Trajectory: "t1", Upstreams: u("a.example")}, &gatewayStatus{Container: "ctis-gateway", State: "exited"}, nil,
			`[upstream proxies: the gateway "ctis-gateway" is exited and does not answer]`},
		{"forgotten", api.TrajectoryStatus{Trajectory: "t2", Upstreams: u("a.example")}, running, claims, "[upstream proxies: the gateway knows of no claim]"},
		{"one of them", api.TrajectoryStatus{Trajectory: "t1", Upstreams: u("a.example", "c.example")}, running, claims, `[upstream proxies: the gateway knows of no claim on "c.example"]`},
	} {
		if got := fmt.Sprint(upstreamDrift(c.t, c.g, c.claims)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
