package simulator

import (
	"testing"
	"time"
)

func TestDecisionAndItsCause(t *testing.T) {
	want := Want{Image: "r:src-2", ImageID: "sha256:2", Hash: "2", Protocol: 1}
	user := Want{Image: "mine:1", ImageID: "sha256:9", Protocol: 1}
	is := func(state string, change func(*Observed)) Observed {
		o := Observed{Instance: "ctis", ID: "c1", State: state, Image: "r:src-2", ImageID: "sha256:2", Hash: "2",
			Protocol: 1, Config: configVersion, Answering: state == "running", Up: time.Minute, Age: time.Minute}
		if change != nil {
			change(&o)
		}
		return o
	}
	other := func(o *Observed) { o.Image, o.ImageID, o.Hash = "r:src-1", "sha256:1", "1" }
	tests := []struct {
		name string
		want Want
		obs  Observed
		says string
	}{
		{"nothing there", want, Observed{Instance: "ctis"}, "create: there is none"},
		{"the wanted one", want, is("running", nil), "reuse"},
		{"the wanted one, in use", want, is("running", func(o *Observed) { o.Trajectories = []string{"a"} }), "reuse"},
		{"same source, built again", want, is("running", func(o *Observed) { o.ImageID = "sha256:3" }), "reuse"},
		{"somebody else's container", want, is("running", func(o *Observed) { o.Foreign = true }), "refuse: the container of that name is not ctis's"},
		{"other image, idle", want, is("running", other), "replace: its image differs (have r:src-1, want r:src-2)"},
		{"other image, in use", want, is("running", func(o *Observed) { other(o); o.Trajectories = []string{"a", "b"} }),
			"refuse: its image differs (have r:src-1, want r:src-2); attached: a, b"},
		{"other image, idle, on a network whose trajectory is not registered", want,
			is("running", func(o *Observed) { other(o); o.Networks = []string{"t1_external"} }), "replace: its image differs (have r:src-1, want r:src-2)"},
		{"user's image is not the one of the source", user, is("running", nil), "replace: its image differs (have r:src-2, want mine:1)"},
		{"user's image, the very one", user, is("running", func(o *Observed) { o.Image, o.ImageID, o.Hash = "mine:1", "sha256:9", "" }), "reuse"},
		{"user's image that was tagged anew", user, is("running", func(o *Observed) { o.Image, o.ImageID, o.Hash = "mine:1", "sha256:8", "" }),
			"replace: its image differs (have mine:1, want mine:1)"},
		{"source wanted, user's image runs", want, is("running", func(o *Observed) { o.Image, o.ImageID, o.Hash = "mine:1", "sha256:2", "" }),
			"replace: its image differs (have mine:1, want r:src-2)"},
		{"other protocol", want, is("running", func(o *Observed) { o.Protocol = 2 }), "replace: its administrative interface differs (have version 2, want 1)"},
		{"other settings", want, is("running", func(o *Observed) { o.Config = "" }), "replace: its settings differ (have version unknown, want " + configVersion + ")"},
		{"other settings, in use", want, is("running", func(o *Observed) { o.Config = "0"; o.Trajectories = []string{"a"} }),
			"refuse: its settings differ (have version 0, want " + configVersion + "); attached: a"},
		{"retired by a process that died", want, is("running", func(o *Observed) { o.Retired = true }), "replace: it has retired"},
		{"starting", want, is("running", func(o *Observed) { o.Answering = false; o.Up = time.Second }), "wait: it does not answer yet"},
		{"silent for long", want, is("running", func(o *Observed) { o.Answering = false }), "wait: it does not answer yet"},
		{"other and starting", want, is("running", func(o *Observed) { other(o); o.Answering = false; o.Up = time.Second }), "wait: it does not answer yet"},
		{"other and silent", want, is("running", func(o *Observed) { other(o); o.Answering = false }),
			"replace: it does not answer, is on no trajectory's network, and its image differs (have r:src-1, want r:src-2)"},
		{"other and silent, on a network", want, is("running", func(o *Observed) { other(o); o.Answering = false; o.Networks = []string{"t1_external"} }),
			"refuse: it does not answer and its image differs (have r:src-1, want r:src-2); attached: t1_external"},
		{"crashing", want, is("restarting", nil), "wait: it does not answer yet"},
		{"other and crashing", want, is("restarting", other),
			"replace: it does not answer, is on no trajectory's network, and its image differs (have r:src-1, want r:src-2)"},
		{"just created", want, is("created", func(o *Observed) { o.Age = 9 * time.Second }), "wait: another process has just created it"},
		{"created by a process that died", want, is("created", func(o *Observed) { o.Age = 10 * time.Second }), "replace: it was created 10s ago and never started"},
		{"stopped", want, is("exited", nil), "start: it is stopped"},
		{"stopped and other", want, is("exited", other),
			"replace: it is stopped, on no trajectory's network, and its image differs (have r:src-1, want r:src-2)"},
		{"stopped and other, on a network", want, is("exited", func(o *Observed) { other(o); o.Networks = []string{"t1_external"} }), "start: it is stopped"},
		{"paused", want, is("paused", nil), "start: it is paused"},
		{"being removed", want, is("removing", nil), "wait: it is being removed"},
		{"dead", want, is("dead", nil), "replace: the engine could not remove it wholly"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Decide(tt.want, tt.obs).String(); got != tt.says {
				t.Errorf("decision = %s\n    want = %s", got, tt.says)
			}
		})
	}
}
