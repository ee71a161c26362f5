package compose

import (
	"testing"
	"time"
)

func TestJudgeGivesEachStateItsVerdict(t *testing.T) {
	one := ServiceFacts{Name: "s", Replicas: 1}
	two := ServiceFacts{Name: "s", Replicas: 2}
	c := func(state string, change ...func(*ContainerState)) ContainerState {
		s := ContainerState{Service: "s", Container: "p-s-1", State: state, RestartPolicy: "no", Uptime: time.Minute}
		for _, f := range change {
			f(&s)
		}
		return s
	}
	health := func(h string) func(*ContainerState) {
		return func(s *ContainerState) { s.Health, s.HasHealthcheck = h, true }
	}
	code := func(n int) func(*ContainerState) { return func(s *ContainerState) { s.ExitCode = n } }
	policy := func(p string) func(*ContainerState) { return func(s *ContainerState) { s.RestartPolicy = p } }
	restarted := func(n int, up time.Duration) func(*ContainerState) {
		return func(s *ContainerState) { s.RestartCount, s.Uptime = n, up }
	}
	failing := func(e string) func(*ContainerState) { return func(s *ContainerState) { s.Error = e } }
	other := c("exited", code(3))
	other.Service = "other"

	for _, x := range []struct {
		name       string
		facts      ServiceFacts
		containers []ContainerState
		outcome    Outcome
		text       string
	}{
		{"running without healthcheck", one, []ContainerState{c("running")}, Ready, `service "s" is running`},
		{"running and healthy", one, []ContainerState{c("running", health("healthy"))}, Ready, `service "s" is healthy`},
		{"health undecided", one, []ContainerState{c("running", health("starting"))}, Waiting, `service "s" is starting`},
		{"health not reported yet", one, []ContainerState{c("running", health(""))}, Waiting, `service "s" is starting`},
		{"health switched off", one, []ContainerState{c("running", func(s *ContainerState) { s.Health = "none" })}, Ready, `service "s" is running`},
		{"unhealthy", one, []ContainerState{c("running", health("unhealthy"))}, Failed, `service "s" is unhealthy`},
		{"one-shot done", one, []ContainerState{c("exited")}, Ready, `service "s" has completed`},
		{"one-shot done, restarted only on failure", one, []ContainerState{c("exited", policy("on-failure:3"))}, Ready, `service "s" has completed`},
		{"one-shot with a healthcheck done", one, []ContainerState{c("exited", health("starting"))}, Ready, `service "s" has completed`},
		{"one-shot failed", one, []ContainerState{c("exited", code(1))}, Failed, `service "s" exited with code 1`},
		{"given up on after failures", one, []ContainerState{c("exited", code(2), policy("on-failure:3"), restarted(3, 0))}, Failed, `service "s" exited with code 2`},
		{"stopped although it always restarts", one, []ContainerState{c("exited", policy("always"))}, Failed, `service "s" exited with code 0 (restart: always, but it was stopped)`},
		{"refused by the engine after it exited", one, []ContainerState{c("exited", failing("no such device"))}, Failed, `service "s" exited with code 0 (no such device)`},
		{"restarting the first time", one, []ContainerState{c("restarting", code(1), restarted(1, 0))}, Waiting, `service "s" is restarting`},
		{"restarting over and over", one, []ContainerState{c("restarting", code(1), restarted(8, 0))}, Failed, `service "s" is restarting repeatedly (8 restarts, last exit code 1)`},
		{"running between two crashes", one, []ContainerState{c("running", restarted(2, time.Second))}, Waiting, `service "s" is restarting`},
		{"running between many crashes", one, []ContainerState{c("running", restarted(9, time.Second))}, Failed, `service "s" is restarting repeatedly (9 restarts, last exit code 0)`},
		{"running for good after crashes", one, []ContainerState{c("running", restarted(9, time.Minute))}, Ready, `service "s" is running`},
		{"healthy after crashes", one, []ContainerState{c("running", health("healthy"), restarted(9, time.Second))}, Ready, `service "s" is healthy`},
		{"created", one, []ContainerState{c("created")}, Waiting, `service "s" is created`},
		{"not startable", one, []ContainerState{c("created", failing("exec: not found"))}, Failed, `service "s" has not started (exec: not found)`},
		{"paused", one, []ContainerState{c("paused")}, Failed, `service "s" is paused`},
		{"dead", one, []ContainerState{c("dead")}, Failed, `service "s" is dead`},
		{"being removed", one, []ContainerState{c("removing")}, Failed, `service "s" is dead`},
		{"no container yet", one, nil, Waiting, `service "s" has no container`},
		{"other services' containers", one, []ContainerState{other, c("running")}, Ready, `service "s" is running`},
		{"only other services' containers", one, []ContainerState{other}, Waiting, `service "s" has no container`},
		{"one of two replicas", two, []ContainerState{c("running")}, Waiting, `service "s" has no container (1 of 2 replicas exist)`},
		{"two replicas", two, []ContainerState{c("running"), c("running")}, Ready, `service "s" is running`},
		{"the worse of two replicas", two, []ContainerState{c("running"), c("exited", code(5))}, Failed, `service "s" exited with code 5`},
		{"a failed one of too few", two, []ContainerState{c("exited", code(5))}, Failed, `service "s" exited with code 5`},
		{"waiting beats ready", two, []ContainerState{c("running", health("starting")), c("running", health("healthy"))}, Waiting, `service "s" is starting`},
		{"no replicas wanted", ServiceFacts{Name: "s"}, nil, Ready, `service "s" runs no container`},
		{"run by a provider", ServiceFacts{Name: "s", Replicas: 1, Provider: true}, nil, Ready, `service "s" runs no container`},
		{"a state of the future", one, []ContainerState{c("hibernating")}, Waiting, `service "s" has no container`},
	} {
		v := Judge(x.facts, x.containers)
		if v.Outcome != x.outcome || v.String() != x.text || v.Service != "s" {
			t.Errorf("%s: %s, %s; want %s, %s", x.name, v.Outcome, v, x.outcome, x.text)
		}
	}
}
