package commands

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
)

// settle is how long a service without a health check must have run before it
// counts as up: one that dies at once is then seen to.
const settle = 400 * time.Millisecond

// pollEvery is the pause between two looks at the services.
const pollEvery = 150 * time.Millisecond

// logTail is how many lines of a failed service's log an error carries.
const logTail = 15

// errWaitTimeout is why waiting for services ended.
var errWaitTimeout = errors.New("the services took too long")

// verdicts are where the services of a trajectory stand.
type verdicts []compose.Verdict

// are lists those with an outcome.
func (vs verdicts) are(o compose.Outcome) verdicts {
	return slices.DeleteFunc(slices.Clone(vs), func(v compose.Verdict) bool { return v.Outcome != o })
}

func (vs verdicts) up() bool { return len(vs.are(compose.Ready)) == len(vs) }

func (vs verdicts) String() string {
	texts := make([]string, len(vs))
	for i, v := range vs {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}

// judge looks at every container of the trajectory and gives each service a
// verdict.
//
// seen remembers when each container was first seen running, by this process's
// own clock: the engine's may be another machine's. Without it every running
// container counts as settled.
func (a *app) judge(ctx context.Context, env *compose.Environment, id string, seen map[string]time.Time) (verdicts, error) {
	project, err := netpin.FindMembers(ctx, a.engine, id)
	if err != nil {
		return nil, err
	}
	var states []compose.ContainerState
	for _, c := range project.Containers {
		in, err := a.engine.ContainerInspect(ctx, c.ID)
		if errdefs.IsNotFound(err) {
			continue // went away since it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("look at container %q: %w", c.Name, err)
		}
		s := compose.ContainerState{
			Service: c.Service, Container: c.Name, ID: c.ID, State: in.State.Status,
			ExitCode: in.State.ExitCode, RestartCount: in.RestartCount, Error: in.State.Error,
			RestartPolicy: string(in.HostConfig.RestartPolicy.Name),
		}
		if in.State.Health != nil && in.State.Health.Status != "none" {
			s.HasHealthcheck, s.Health = true, in.State.Health.Status
		}
		if s.State == "running" {
			run := c.ID + " " + in.State.StartedAt
			if _, ok := seen[run]; !ok && seen != nil {
				seen[run] = time.Now()
			}
			if s.Uptime = settle; seen != nil {
				s.Uptime = time.Since(seen[run])
			}
		}
		states = append(states, s)
	}
	var vs verdicts
	for _, facts := range env.ServiceFacts() {
		v := compose.Judge(facts, states)
		if v.Outcome == compose.Ready && v.Reason == compose.ReasonRunning && !settled(facts.Name, states) {
			v.Outcome, v.Reason = compose.Waiting, compose.ReasonStarting
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// settled says whether every running container of a service has run for a
// moment.
func settled(service string, states []compose.ContainerState) bool {
	return !slices.ContainsFunc(states, func(s compose.ContainerState) bool {
		return s.Service == service && s.State == "running" && s.Uptime < settle
	})
}

// wait waits until every service has a final verdict. The exit status of docker
// compose (upErr) is none: a one-shot service that is done makes it fail, and a
// crash loop does not.
func (a *app) wait(ctx context.Context, env *compose.Environment, id string, upErr error, line *uiStep) error {
	seen := map[string]time.Time{}
	for {
		vs, err := a.judge(context.WithoutCancel(ctx), env, id, seen)
		if err != nil {
			return err
		}
		waiting := vs.are(compose.Waiting)
		switch {
		case len(vs.are(compose.Failed)) > 0:
			return a.serviceError(ctx, vs.are(compose.Failed), nil)
		case vs.up():
			return nil
		case ctx.Err() != nil:
			if errors.Is(context.Cause(ctx), errWaitTimeout) {
				return a.serviceError(ctx, waiting, errWaitTimeout)
			}
			return ctx.Err()
		case upErr != nil && !slices.ContainsFunc(waiting, moving):
			// Compose gave up, and nothing is on its way any more.
			return &hintedError{err: upErr, hint: "--keep-on-failure leaves the containers for a look"}
		}
		line.detail(waiting.String())
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// moving tells whether a service can still come up by itself.
func moving(v compose.Verdict) bool {
	return v.Reason == compose.ReasonStarting || v.Reason == compose.ReasonRestarting
}

// serviceError says which services failed, in which state, and what they logged
// last.
func (a *app) serviceError(ctx context.Context, bad verdicts, cause error) error {
	var text strings.Builder
	details := []map[string]any{}
	for i, v := range bad {
		if i > 0 {
			text.WriteString("\n")
		}
		text.WriteString(v.String())
		lines := a.lastLines(ctx, v.ID)
		for _, l := range lines {
			fmt.Fprintf(&text, "\n    | %s", l)
		}
		details = append(details, map[string]any{"service": v.Service, "container": v.Container, "reason": v.Reason, "exit_code": v.ExitCode, "log": lines})
	}
	hint := "--keep-on-failure leaves the containers for a look"
	if errors.Is(cause, errWaitTimeout) {
		text.WriteString("\ngave up waiting")
		hint = "--wait-timeout gives them more time; " + hint
	}
	return &hintedError{err: errors.New(text.String()), hint: hint, details: map[string]any{"services": details}}
}

// lastLines is the end of a container's log, or why there is none.
func (a *app) lastLines(ctx context.Context, id string) []string {
	if id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	raw, err := a.containerLog(ctx, id, logTail)
	if err != nil {
		return []string{"(its log cannot be read: " + err.Error() + ")"}
	}
	lines := []string{}
	sc := bufio.NewScanner(bytes.NewReader(raw))
	for sc.Scan() {
		lines = append(lines, truncate(printable(sc.Text()), 200))
	}
	return lines
}
