package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// simulatorStatus is the shared container as `ctis status` shows it.
type simulatorStatus struct {
	Container  string   `json:"container"`
	State      string   `json:"state"` // as the engine says; "absent" when there is none
	Image      string   `json:"image,omitempty"`
	SourceHash string   `json:"source_hash,omitempty"`
	Protocol   int      `json:"protocol,omitempty"`
	Started    string   `json:"started,omitempty"`
	Retired    bool     `json:"retired,omitempty"`
	Unmatched  uint64   `json:"unattributed"`
	Problems   []string `json:"problems,omitempty"`
}

// gatewayStatus is the other shared container, shown while anybody holds an upstream.
type gatewayStatus struct {
	Container string   `json:"container"`
	State     string   `json:"state"` // as the engine says
	Image     string   `json:"image"`
	Upstreams []string `json:"upstreams"` // hosts that are held
	Keys      []string `json:"keys"`      // variables whose keys it has
	Problems  []string `json:"problems,omitempty"`
}

// trajectoryStatus is one trajectory as `ctis status` shows it.
type trajectoryStatus struct {
	Trajectory  string   `json:"trajectory"`
	Environment string   `json:"environment"`
	Network     string   `json:"network"`
	Address     string   `json:"address"`
	Personas    []string `json:"personas"`
	Upstreams   []string `json:"upstream_proxies"`
	// Exposed are the hostnames that the trajectory's sidecar answers for, with what
	// is behind them as service:port.
	Exposed   map[string]string `json:"exposed_services"`
	Requests  uint64            `json:"requests"`
	Truncated uint64            `json:"truncated"` // records whose body was not kept whole
	Dropped   uint64            `json:"dropped"`   // requests without a record of their own
	Since     time.Time         `json:"since"`
	Stale     bool              `json:"stale"` // registered, but its project has no container any more
	// Registered is false for one that has containers and that the simulator does
	// not serve: its set-up was broken off, or the simulator cannot be asked.
	Registered bool `json:"registered"`
	// Drift is in what it is no longer as it was set up; ctis repair, or ctis up
	// with the same settings, puts it right.
	Drift []netpin.Drift `json:"drift"`
}

func (a *app) statusCommand() *cli.Command {
	return verb(&cli.Command{
		Name:  "status",
		Usage: "show the simulator and the trajectories it serves",
		Description: "A trajectory is stale when it is still registered although its Compose project has no container, and\n" +
			"not served when it has containers although it is not registered: its set-up was broken off, or the\n" +
			"simulator does not run. ctis down clears both. Drift is what was changed behind ctis' back since it was\n" +
			"set up: ctis repair.\n\n" +
			"Exit status: 0 shown, 4 no engine.",
		Flags: []cli.Flag{a.jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 0, ""); err != nil {
				return err
			}
			return a.runStatus(c.Context)
		},
	})
}

func (a *app) runStatus(ctx context.Context) error {
	eng, err := a.openEngine(ctx)
	if err != nil {
		return err
	}
	seen, err := simulator.Observe(ctx, eng, a.instance)
	if err != nil {
		return err
	}
	sim := simulatorStatus{Container: simulator.ContainerName(a.instance), State: "absent"}
	trajectories := []trajectoryStatus{}
	gateway, claims, err := a.gatewayStatus(ctx)
	if err != nil {
		return err
	}
	if seen.ID != "" {
		sim.State, sim.Image, sim.SourceHash = seen.State, seen.Image, seen.Hash
	}
	if seen.Answering {
		admin, err := simulator.Connect(ctx, eng, a.instance)
		if err != nil {
			return err
		}
		defer admin.Close()
		st, err := admin.Status(ctx)
		if err != nil {
			return fmt.Errorf("the simulator %q does not answer: %w", sim.Container, err)
		}
		if st, err = a.statusWithExposed(ctx, admin, st); err != nil {
			return err
		}
		sim.Protocol, sim.Retired, sim.Unmatched, sim.Problems = st.Protocol, st.Retired, st.Unattributed, st.Problems
		sim.Started = st.Started.UTC().Format(time.RFC3339)
		for _, t := range st.Trajectories {
			row, err := a.trajectoryStatus(ctx, seen.ID, t)
			if err != nil {
				return err
			}
			if !row.Stale {
				row.Drift = append(row.Drift, upstreamDrift(t, gateway, claims)...)
			}
			trajectories = append(trajectories, row)
		}
	}
	ids, err := netpin.Trajectories(ctx, eng, a.instance)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !slices.ContainsFunc(trajectories, func(t trajectoryStatus) bool { return t.Trajectory == id }) {
			trajectories = append(trajectories, trajectoryStatus{Trajectory: id, Personas: []string{}, Upstreams: []string{}, Exposed: map[string]string{}, Drift: []netpin.Drift{}})
		}
	}
	if seen.ID != "" && !seen.Foreign && !seen.Answering {
		a.ui.warn(fmt.Sprintf("the simulator %q is %s and does not answer; docker restart %[1]s brings it back with everything it knows", sim.Container, seen.State))
	}
	if a.json {
		result := map[string]any{"simulator": sim, "trajectories": trajectories}
		if gateway != nil && len(gateway.Upstreams) > 0 {
			result["gateway"] = gateway
		}
		return a.printJSON(result)
	}
	return a.printStatus(sim, gateway, trajectories)
}

// statusWithExposed brings the requests to exposed services into the journals first,
// so that they are counted, and returns the status after that.
func (a *app) statusWithExposed(ctx context.Context, admin *api.Client, st *api.Status) (*api.Status, error) {
	exposes := false
	for _, t := range st.Trajectories {
		if len(t.Exposed) == 0 {
			continue
		}
		exposes = true
		if err := a.collectExposed(ctx, admin, t.Trajectory); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			a.ui.warn(fmt.Sprintf("trajectory %q: the newest requests to its exposed services cannot be read: %v", t.Trajectory, err))
		}
	}
	if !exposes {
		return st, nil
	}
	return admin.Status(ctx)
}

func (a *app) trajectoryStatus(ctx context.Context, simulatorID string, t api.TrajectoryStatus) (trajectoryStatus, error) {
	s := trajectoryStatus{
		Trajectory: t.Trajectory, Environment: t.Environment, Personas: t.Personas,
		Registered: true, Requests: t.Journal.Records, Truncated: t.Journal.Truncated, Dropped: t.Journal.Dropped, Since: t.Since.UTC(),
		Drift: []netpin.Drift{}, Exposed: map[string]string{}, Upstreams: []string{},
	}
	for _, u := range t.Upstreams {
		s.Upstreams = append(s.Upstreams, u.Host)
	}
	for _, x := range t.Exposed {
		s.Exposed[x.Host] = fmt.Sprintf("%s:%d", x.Service, x.Port)
	}
	for _, n := range t.Networks {
		s.Network = n.Name
		for _, addr := range n.Addresses {
			s.Address = addr.String()
			break
		}
	}
	left, err := netpin.FindProject(ctx, a.engine, t.Trajectory)
	if err != nil {
		return s, err
	}
	if s.Stale = len(left.Containers) == 0; s.Stale {
		return s, nil
	}
	s.Drift, err = netpin.FindDrift(ctx, a.engine, simulatorID, t, left)
	var twice *netpin.AmbiguousNetworkError
	if errors.As(err, &twice) { // as good as any drift to say so, and the others are to be shown
		s.Drift, err = []netpin.Drift{{Kind: netpin.DriftAmbiguous, Network: s.Network, Have: strings.Join(twice.IDs, " ")}}, nil
	}
	return s, err
}

func (a *app) printStatus(sim simulatorStatus, gateway *gatewayStatus, trajectories []trajectoryStatus) error {
	first, line := fmt.Sprintf("simulator %s: ", sim.Container), sim.State
	if sim.Image != "" {
		line += ", image " + sim.Image
	}
	if sim.Retired {
		line += ", retired"
	}
	if sim.Unmatched > 0 {
		line += ", " + plural(int(sim.Unmatched), "connection") + " that belonged to no trajectory (ctis logs --unattributed)"
	}
	if err := a.hang(first, line); err != nil {
		return err
	}
	for _, p := range sim.Problems {
		a.ui.warn("simulator: " + p)
	}
	if gateway != nil && len(gateway.Upstreams) > 0 {
		text := fmt.Sprintf("%s, upstream proxies %s", gateway.State, strings.Join(gateway.Upstreams, ", "))
		if err := a.hang("gateway "+gateway.Container+": ", text); err != nil {
			return err
		}
		for _, p := range gateway.Problems {
			a.ui.warn("gateway: " + p)
		}
	}
	if len(trajectories) == 0 {
		_, err := fmt.Fprintln(a.streams.Out, "no trajectory is up")
		return err
	}
	rows := make([][]string, 0, len(trajectories))
	for _, t := range trajectories {
		remark := ""
		switch {
		case !t.Registered:
			rows = append(rows, []string{t.Trajectory, "", "", "", "", "", "", "not served"})
			continue
		case t.Stale:
			remark = "stale"
		case len(t.Drift) > 0:
			remark = "drift"
		case t.Dropped > 0:
			remark = "journal has gaps"
		case t.Truncated > 0:
			remark = "journal truncated"
		}
		rows = append(rows, []string{t.Trajectory, t.Environment, t.Network, t.Address, strings.Join(slices.Concat(t.Personas, t.Upstreams), ","),
			strconv.FormatUint(t.Requests, 10), elapsedSince(t.Since), remark})
	}
	for _, t := range trajectories {
		for _, d := range t.Drift {
			a.ui.warn(fmt.Sprintf("trajectory %q: %s", t.Trajectory, printable(d.String())))
		}
		if len(t.Drift) > 0 {
			a.ui.note(a.program() + " repair " + t.Trajectory + " puts right what can be without the environment's files; ctis up with the same --id, all")
		}
	}
	return a.table([]string{"TRAJECTORY", "ENVIRONMENT", "NETWORK", "SIMULATOR", "PERSONAS", "REQUESTS", "UP", ""}, rows, 4)
}

// elapsedSince is the age of something, in its two largest units.
func elapsedSince(t time.Time) string {
	d := time.Since(t).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
