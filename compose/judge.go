package compose

import (
	"fmt"
	"strings"
	"time"
)

// ContainerState is what an inspection says about one container of a service.
type ContainerState struct {
	Service   string
	Container string // name
	ID        string

	State          string // created, running, restarting, paused, removing, exited, dead
	Health         string // starting, healthy, unhealthy; "" or none without a healthcheck
	HasHealthcheck bool   // from the Compose file or the image
	ExitCode       int
	RestartCount   int
	RestartPolicy  string        // no, always, unless-stopped, on-failure or on-failure:N
	Uptime         time.Duration // since it was last started; 0 if not known
	Error          string        // the engine's own, when a start failed
}

// Outcome is where a service stands.
type Outcome string

const (
	Ready   Outcome = "ready"
	Waiting Outcome = "waiting" // look again
	Failed  Outcome = "failed"  // looking again will not help
)

// Reason says what decided an Outcome.
type Reason string

const (
	ReasonRunning    Reason = "running"    // no healthcheck to wait for
	ReasonHealthy    Reason = "healthy"    //
	ReasonCompleted  Reason = "completed"  // exited 0 and is not to be restarted
	ReasonNone       Reason = "none"       // no containers wanted
	ReasonMissing    Reason = "missing"    // fewer containers than replicas
	ReasonCreated    Reason = "created"    // not started yet
	ReasonStarting   Reason = "starting"   // healthcheck still undecided
	ReasonRestarting Reason = "restarting" // came up again, not for long enough
	ReasonExited     Reason = "exited"     // for good, and not well
	ReasonUnhealthy  Reason = "unhealthy"  //
	ReasonLoop       Reason = "restarting repeatedly"
	ReasonNotStarted Reason = "not started" // the engine refused to start it
	ReasonPaused     Reason = "paused"      //
	ReasonDead       Reason = "dead"        // or being removed
)

// restartLimit is how many restarts make a loop. The engine doubles the delay
// from 100 ms each time, so that many take about 15 seconds, and more with what
// the service itself takes: longer than one usually needs whose database is
// still booting.
const restartLimit = 8

// settled is how long the engine itself wants a container to run before it
// takes a restart for successful and resets the delay.
const settled = 10 * time.Second

// Verdict is where one service stands, decided by the container that is worst off.
type Verdict struct {
	Service   string
	Outcome   Outcome
	Reason    Reason
	Container string // name; "" where no container decided
	ID        string
	ExitCode  int
	Detail    string // the engine's words or a count, if they add anything
}

// String is the verdict as an error message about the service would have it.
func (v Verdict) String() string {
	s := fmt.Sprintf("service %q is %s", v.Service, v.Reason)
	switch v.Reason {
	case ReasonExited:
		s = fmt.Sprintf("service %q exited with code %d", v.Service, v.ExitCode)
	case ReasonMissing:
		s = fmt.Sprintf("service %q has no container", v.Service)
	case ReasonNone:
		s = fmt.Sprintf("service %q runs no container", v.Service)
	case ReasonCompleted, ReasonNotStarted:
		s = fmt.Sprintf("service %q has %s", v.Service, v.Reason)
	}
	if v.Detail != "" {
		s += " (" + v.Detail + ")"
	}
	return s
}

// Judge says where a service stands, from its facts and the states of the
// project's containers (those of other services are passed over). docker
// compose up --wait is not asked: it calls a one-shot service that did its work
// a failure. Pure.
func Judge(s ServiceFacts, containers []ContainerState) Verdict {
	v := Verdict{Service: s.Name, Outcome: Ready, Reason: ReasonNone}
	if s.Provider || s.Replicas <= 0 {
		return v
	}
	worst, seen := v, 0
	for _, c := range containers {
		if c.Service != s.Name {
			continue
		}
		one := judgeContainer(c)
		if seen == 0 || rank(one.Outcome) > rank(worst.Outcome) {
			worst = one
		}
		seen++
	}
	if seen < s.Replicas && worst.Outcome != Failed {
		worst = Verdict{Service: s.Name, Outcome: Waiting, Reason: ReasonMissing}
		if seen > 0 {
			worst.Detail = fmt.Sprintf("%d of %d replicas exist", seen, s.Replicas)
		}
	}
	return worst
}

func rank(o Outcome) int { return map[Outcome]int{Ready: 0, Waiting: 1, Failed: 2}[o] }

func judgeContainer(c ContainerState) Verdict {
	v := Verdict{Service: c.Service, Container: c.Container, ID: c.ID, ExitCode: c.ExitCode}
	is := func(o Outcome, r Reason) Verdict {
		v.Outcome, v.Reason = o, r
		if r == ReasonLoop {
			v.Detail = fmt.Sprintf("%d restarts, last exit code %d", c.RestartCount, c.ExitCode)
		}
		return v
	}
	looping := c.RestartCount >= restartLimit
	switch c.State {
	case "running":
		return judgeRunning(c, is, looping)
	case "restarting":
		if looping {
			return is(Failed, ReasonLoop)
		}
		return is(Waiting, ReasonRestarting)
	case "created":
		if c.Error != "" {
			v.Detail = c.Error
			return is(Failed, ReasonNotStarted)
		}
		return is(Waiting, ReasonCreated)
	case "exited":
		v.Detail = c.Error
		if c.ExitCode == 0 && c.Error == "" && !restarts(c.RestartPolicy) {
			return is(Ready, ReasonCompleted)
		}
		if c.ExitCode == 0 && c.Error == "" {
			v.Detail = "restart: " + c.RestartPolicy + ", but it was stopped"
		}
		return is(Failed, ReasonExited)
	case "paused":
		return is(Failed, ReasonPaused)
	case "dead", "removing":
		v.Detail = c.Error
		return is(Failed, ReasonDead)
	}
	return is(Waiting, ReasonMissing)
}

func judgeRunning(c ContainerState, is func(Outcome, Reason) Verdict, looping bool) Verdict {
	switch {
	case c.Health == "unhealthy":
		return is(Failed, ReasonUnhealthy)
	case c.Health == "healthy":
		return is(Ready, ReasonHealthy)
	case c.HasHealthcheck || c.Health == "starting":
		return is(Waiting, ReasonStarting)
	// Without a healthcheck, a container that crashes every second is running
	// most times it is looked at.
	case c.RestartCount > 0 && c.Uptime < settled && looping:
		return is(Failed, ReasonLoop)
	case c.RestartCount > 0 && c.Uptime < settled:
		return is(Waiting, ReasonRestarting)
	}
	return is(Ready, ReasonRunning)
}

// restarts says whether the engine starts a container again that exited with 0.
func restarts(policy string) bool {
	name, _, _ := strings.Cut(policy, ":")
	return name == "always" || name == "unless-stopped"
}
