package netpin

import (
	"reflect"
	"testing"
)

func TestACensusTellsWhoseTheNetworksAre(t *testing.T) {
	f := &fakeEngine{states: map[string]string{"c1": "running", "c2": "exited", "c3": "exited", "c4": "paused"}}
	ours := func(id string) map[string]string {
		return map[string]string{labelProject: id, LabelTrajectory: id}
	}
	for _, n := range []struct {
		id     string
		labels map[string]string
	}{
		{"bridge", nil}, {"host", nil},
		{"a1", ours("a")}, {"a2", ours("a")}, // runs
		{"b1", ours("b")},                    // stopped
		{"c1", ours("c")}, {"c2", ours("c")}, // nothing of it but networks
		{"d1", map[string]string{labelProject: "d"}},             // somebody's, stopped
		{"e1", map[string]string{labelProject: "e"}},             // left behind
		{"e2", map[string]string{labelProject: "e"}},             // the same
		{"p1", ours("paused")},                                   // as good as running
		{"x1", map[string]string{"org.example.made-by": "hand"}}, // nobody's
	} {
		f.addNetwork(n.id, n.id, "10.0.0.0/24", n.labels)
	}
	for id, project := range map[string]string{"c1": "a", "c2": "b", "c3": "d", "c4": "paused"} {
		f.addContainer(id, project+"-1", map[string]string{labelProject: project})
	}
	got, err := Count(t.Context(), f)
	want := Census{Networks: 12, Running: 3, Stopped: 3, Leftover: 2, Trajectories: []string{"b", "c"}, Projects: []string{"e"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestTheDefaultBridgesMTUIsReadWhereItIsNotTheUsualOne(t *testing.T) {
	for _, tc := range []struct {
		options map[string]string
		want    int
	}{
		{map[string]string{optionDefault: "true", OptionMTU: "1400"}, 1400},
		{map[string]string{optionDefault: "true", OptionMTU: "1500"}, 0},
		{map[string]string{optionDefault: "true"}, 0},
		{map[string]string{optionDefault: "true", OptionMTU: "large"}, 0},
		{map[string]string{optionDefault: "false", OptionMTU: "1400"}, 0},
	} {
		f := world()
		f.addNetwork("b", "bridge", "172.17.0.0/16", nil)
		f.networks[len(f.networks)-1].Options = tc.options
		if got, err := BridgeMTU(t.Context(), f); err != nil || got != tc.want {
			t.Errorf("%v: %d, %v", tc.options, got, err)
		}
	}
	if got, err := BridgeMTU(t.Context(), world()); err != nil || got != 0 {
		t.Errorf("no default bridge: %d, %v", got, err)
	}
}
