package simulator

import (
	"fmt"
	"strings"
	"time"
)

// Want is the simulator that is asked for.
type Want struct {
	Image    string // reference, for people
	ImageID  string
	Hash     string // of the source; "" for an image named by the user
	Protocol int    // of the administrative interface
}

// Observed is what there is, as [Observe] found it.
type Observed struct {
	Instance string

	ID      string // of the container; "" if there is none, and then nothing below is set
	Foreign bool   // the name is taken by something that is not ctis's
	State   string // as the engine calls it: created, running, exited, …
	Age     time.Duration
	Up      time.Duration // since it was last started; 0 unless it runs

	Image    string
	ImageID  string
	Hash     string
	Protocol int
	Config   string // version of the settings it was created with

	Networks []string // it is attached to, other than the link; sorted
	Restarts int      // by the engine, since it was created

	Answering    bool // the administrative interface
	Retired      bool
	Trajectories []string // registered; sorted
}

// Action is what to do about a simulator.
type Action string

// The actions.
const (
	Reuse   Action = "reuse"   // it is the wanted one and answers
	Create  Action = "create"  // there is none
	Start   Action = "start"   // it is stopped
	Replace Action = "replace" // it is another one, or broken, and nobody needs it
	Wait    Action = "wait"    // another process is at it, or it is still starting
	Refuse  Action = "refuse"  // it is another one and in use, or not ctis's
)

// Decision is an action with its reason.
type Decision struct {
	Action   Action
	Cause    string
	Attached []string // who is in the way, when refused
}

func (d Decision) String() string {
	s := string(d.Action)
	if d.Cause != "" {
		s += ": " + d.Cause
	}
	if len(d.Attached) > 0 {
		s += "; attached: " + strings.Join(d.Attached, ", ")
	}
	return s
}

// patience is how long a container may stay created without being started, or run
// without answering, until whoever was to see to it is taken for dead.
const patience = 10 * time.Second

// Decide says what to do about obs to get want. It touches nothing.
func Decide(want Want, obs Observed) Decision {
	switch {
	case obs.ID == "":
		return Decision{Action: Create, Cause: "there is none"}
	case obs.Foreign:
		return Decision{Action: Refuse, Cause: "the container of that name is not ctis's"}
	}
	differs := difference(want, obs)
	switch obs.State {
	case "created":
		if obs.Age < patience {
			return Decision{Action: Wait, Cause: "another process has just created it"}
		}
		return Decision{Action: Replace, Cause: fmt.Sprintf("it was created %s ago and never started", obs.Age.Truncate(time.Second))}
	case "removing":
		return Decision{Action: Wait, Cause: "it is being removed"}
	case "dead":
		return Decision{Action: Replace, Cause: "the engine could not remove it wholly"}
	case "paused":
		return Decision{Action: Start, Cause: "it is paused"}
	case "running", "restarting":
		return decideRunning(obs, differs)
	}
	// Only the simulator can say whether trajectories need it, so a stopped one is
	// started to be asked, unless no network is left on which any could reach it.
	if differs != "" && len(obs.Networks) == 0 {
		return Decision{Action: Replace, Cause: "it is stopped, on no trajectory's network, and " + differs}
	}
	return Decision{Action: Start, Cause: "it is stopped"}
}

func decideRunning(obs Observed, differs string) Decision {
	switch {
	case obs.Answering && differs == "" && !obs.Retired:
		return Decision{Action: Reuse}
	case obs.Answering && len(obs.Trajectories) > 0 && differs != "":
		return Decision{Action: Refuse, Cause: differs, Attached: obs.Trajectories}
	case obs.Answering && differs != "":
		return Decision{Action: Replace, Cause: differs}
	case obs.Answering:
		return Decision{Action: Replace, Cause: "it has retired"}
	case differs == "" || obs.Up < patience && obs.State == "running":
		return Decision{Action: Wait, Cause: "it does not answer yet"}
	case len(obs.Networks) > 0:
		return Decision{Action: Refuse, Cause: "it does not answer and " + differs, Attached: obs.Networks}
	}
	return Decision{Action: Replace, Cause: "it does not answer, is on no trajectory's network, and " + differs}
}

// difference says in what the simulator is not the wanted one; "" if in nothing.
// Images of one source are the same whoever built them; an image named by the user
// is that image alone.
func difference(want Want, obs Observed) string {
	same := obs.ImageID == want.ImageID
	if want.Hash != "" {
		same = obs.Hash == want.Hash
	}
	switch {
	case !same:
		return fmt.Sprintf("its image differs (have %s, want %s)", orUnknown(obs.Image), orUnknown(want.Image))
	case obs.Protocol != want.Protocol:
		return fmt.Sprintf("its administrative interface differs (have version %d, want %d)", obs.Protocol, want.Protocol)
	case obs.Config != configVersion:
		return fmt.Sprintf("its settings differ (have version %s, want %s)", orUnknown(obs.Config), configVersion)
	}
	return ""
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
