package simulator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/linuxarena/ctis/server/api"
)

// statusTimeout bounds one question to the administrative interface. While the
// engine's own checks say that the simulator is well, or do not know yet, a late
// answer is the engine's doing: it starts a process in the container for each
// question, which takes long when dozens of processes ask at once. Asking anew
// would only add to that.
const (
	statusTimeout  = 5 * time.Second
	patientTimeout = 60 * time.Second
)

// snapshot is an observation with what acting on it needs.
type snapshot struct {
	Observed
	part
	link     netip.Addr  // the container's address on the link network
	linkID   string      // that network, as the container knows it
	client   *api.Client // nil unless it runs; the snapshot's owner closes it
	identity string      // fingerprint of its key for the link
	problem  error       // why it does not answer
}

// Observe looks at the instance's simulator.
func Observe(ctx context.Context, eng Engine, instance string) (Observed, error) {
	s, err := observe(ctx, eng, instance)
	if err != nil {
		return Observed{}, err
	}
	s.close()
	return s.Observed, nil
}

func (s *snapshot) close() {
	if s.client != nil {
		s.client.Close()
	}
}

func observe(ctx context.Context, eng Engine, instance string) (*snapshot, error) {
	return observePart(ctx, eng, instance, simulatorOf(instance))
}

func observePart(ctx context.Context, eng Engine, instance string, p part) (*snapshot, error) {
	s := &snapshot{Observed: Observed{Instance: instance}, part: p}
	name := p.container
	c, err := eng.ContainerInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s %q: %w", p.role, name, err)
	}
	s.ID, s.State = c.ID, stateOf(c)
	if c.Config == nil || c.Config.Labels[LabelInstance] != instance {
		s.Foreign = true
		return s, nil
	}
	labels := c.Config.Labels
	s.Image, s.ImageID, s.Hash, s.Config = labels[LabelImage], c.Image, labels[LabelHash], labels[LabelConfig]
	s.Protocol, _ = parseProtocol(labels) // one that cannot be read differs from every other
	s.Restarts = c.RestartCount
	if c.NetworkSettings != nil {
		for n, ep := range c.NetworkSettings.Networks {
			if n != LinkName(instance) {
				if n != EgressName(instance) {
					s.Networks = append(s.Networks, n)
				}
			} else if ep != nil {
				s.linkID = ep.NetworkID
				s.link, _ = netip.ParseAddr(ep.IPAddress) // empty unless it runs
			}
		}
		slices.Sort(s.Networks)
	}
	if s.State == "running" {
		timeout := statusTimeout
		if h := c.State.Health; h != nil && (h.Status == container.Healthy || h.Status == container.Starting) {
			timeout = patientTimeout
		}
		s.ask(ctx, eng, timeout)
	}
	if s.State == "created" || s.State == "running" && !s.Answering {
		if err := s.age(ctx, eng, c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// ask fills in what only the simulator itself knows.
func (s *snapshot) ask(ctx context.Context, eng ExecEngine, timeout time.Duration) {
	s.client = api.NewClient(Dialer(eng, s.ID))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if s.role == RoleGateway {
		s.askGateway(ctx)
		return
	}
	st, err := s.client.Status(ctx)
	if err != nil {
		s.problem = err
		return
	}
	s.Answering, s.Retired, s.Protocol, s.identity = true, st.Retired, st.Protocol, st.Identity
	for _, t := range st.Trajectories {
		s.Trajectories = append(s.Trajectories, t.Trajectory)
	}
	slices.Sort(s.Trajectories)
}

// age measures by the engine's own clock: this machine's may be another's.
func (s *snapshot) age(ctx context.Context, eng Engine, c container.InspectResponse) error {
	now, err := EngineTime(ctx, eng)
	if err != nil {
		return err
	}
	if t, err := time.Parse(time.RFC3339Nano, c.Created); err == nil {
		s.Age = now.Sub(t)
	}
	if s.State == "running" && c.State != nil {
		if t, err := time.Parse(time.RFC3339Nano, c.State.StartedAt); err == nil {
			s.Up = now.Sub(t)
		}
	}
	return nil
}

// holders names the trajectories whose networks the simulator is on, for when it
// cannot say itself; a network that is of no Compose project goes by its own name.
func holders(ctx context.Context, eng Engine, networks []string) []string {
	var names []string
	for _, name := range networks {
		holder := name
		found, err := eng.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", name))})
		for _, n := range found {
			if project := n.Labels["com.docker.compose.project"]; err == nil && n.Name == name && project != "" {
				holder = project
			}
		}
		names = append(names, holder)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// stateOf is the container's state in the engine's words.
func stateOf(c container.InspectResponse) string {
	if c.ContainerJSONBase == nil || c.State == nil {
		return "unknown"
	}
	return string(c.State.Status)
}
