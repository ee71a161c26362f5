package simulator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/pkg/stdcopy"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/linuxarena/ctis/server/api"
)

// fakeEngine keeps containers, networks and volumes as an engine of before 25
// does: container names are unique, network names are not. What runs answers on
// its bridge like a simulator whose registrations are on its volume.
type fakeEngine struct {
	mu         sync.Mutex
	now        time.Time
	next       int
	containers map[string]*fakeContainer // by id
	networks   []network.Summary
	volumes    map[string]volume.Volume
	registered map[string][]string // by volume
	calls      []string            // that change something
	told       []string            // to the containers, over their bridges
	heldID     string              // that another process holds at the simulator

	// What may go wrong; called without the lock, nil for nothing.
	onStart    func(c *fakeContainer) error
	onSubnet   func(subnet string) error
	onRetire   func()
	tick       time.Duration   // how far each question for the time moves it
	unready    bool            // what is started does not answer
	creates    int             // how often a container was asked for
	crashing   bool            // what is started crashes
	noImage    map[string]bool // images that are gone
	bridgeFail string          // the bridge ends at once, saying this
}

type fakeContainer struct {
	id, name, state string
	config          *container.Config
	host            *container.HostConfig
	created         time.Time
	started         time.Time
	networks        []string
	restarts        int
	retired         bool
	link            string // id, where it was connected to the link afterwards
}

func newFake() *fakeEngine {
	return &fakeEngine{
		now:        time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		containers: map[string]*fakeContainer{}, volumes: map[string]volume.Volume{}, registered: map[string][]string{},
	}
}

func (f *fakeEngine) id(kind string) string { f.next++; return fmt.Sprintf("%s%d", kind, f.next) }

func (f *fakeEngine) log(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeEngine) find(ref string) (*fakeContainer, error) {
	if c, ok := f.containers[ref]; ok {
		return c, nil
	}
	for _, c := range f.containers {
		if c.name == ref {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no such container %q: %w", ref, cerrdefs.ErrNotFound)
}

func (f *fakeEngine) Info(context.Context) (system.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(f.tick)
	return system.Info{SystemTime: f.now.Format(time.RFC3339Nano)}, nil
}

func (f *fakeEngine) ContainerInspect(_ context.Context, ref string) (container.InspectResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(ref)
	if err != nil {
		return container.InspectResponse{}, err
	}
	if f.crashing && c.state == "restarting" {
		c.restarts++
	}
	nets := map[string]*network.EndpointSettings{}
	for _, n := range c.networks {
		nets[n] = &network.EndpointSettings{}
	}
	for _, n := range f.networks { // the gateway's
		if c.link != "" && n.ID == string(c.host.NetworkMode) {
			nets[n.Name] = &network.EndpointSettings{NetworkID: n.ID, IPAddress: "192.0.2.99"}
		}
	}
	if id := cmp.Or(c.link, string(c.host.NetworkMode)); id != "" { // kept when the network is pruned
		nets["ctis-link"] = &network.EndpointSettings{NetworkID: id, IPAddress: "192.0.2.2"}
	}
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID: c.id, Name: "/" + c.name, Image: "id-of-" + c.config.Image, Created: c.created.Format(time.RFC3339Nano),
			RestartCount: c.restarts,
			State: &container.State{
				Status: container.ContainerState(c.state), Running: c.state == "running",
				StartedAt: c.started.Format(time.RFC3339Nano),
			},
		},
		Config:          c.config,
		NetworkSettings: &container.NetworkSettings{Networks: nets},
	}, nil
}

func (f *fakeEngine) ContainerCreate(_ context.Context, config *container.Config, host *container.HostConfig, _ *network.NetworkingConfig, _ *ocispec.Platform, name string) (container.CreateResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(name); err == nil {
		return container.CreateResponse{}, fmt.Errorf("name %q is in use: %w", name, cerrdefs.ErrConflict)
	}
	f.creates++
	if f.noImage[config.Image] {
		return container.CreateResponse{}, fmt.Errorf("No such image: %s: %w", config.Image, cerrdefs.ErrNotFound)
	}
	c := &fakeContainer{id: f.id("c"), name: name, state: "created", config: config, host: host, created: f.now}
	f.containers[c.id] = c
	f.log("create %s from %s", name, config.Image)
	return container.CreateResponse{ID: c.id}, nil
}

func (f *fakeEngine) ContainerStart(_ context.Context, ref string, _ container.StartOptions) error {
	f.mu.Lock()
	c, err := f.find(ref)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if f.onStart != nil {
		if err := f.onStart(c); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, err = f.find(ref); err != nil {
		return err
	}
	if !slices.ContainsFunc(f.networks, func(n network.Summary) bool { return n.ID == string(c.host.NetworkMode) }) {
		return fmt.Errorf("network %s not found: %w", c.host.NetworkMode, cerrdefs.ErrNotFound)
	}
	c.state, c.started, c.retired = "running", f.now, false
	if f.crashing {
		c.state = "restarting"
	}
	f.log("start %s", c.name)
	return nil
}

func (f *fakeEngine) ContainerUnpause(_ context.Context, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(ref)
	if err == nil {
		c.state = "running"
		f.log("unpause %s", c.name)
	}
	return err
}

func (f *fakeEngine) ContainerStop(_ context.Context, ref string, _ container.StopOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(ref)
	if err == nil {
		c.state = "exited"
		f.log("stop %s", c.name)
	}
	return err
}

func (f *fakeEngine) ContainerRemove(_ context.Context, ref string, o container.RemoveOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(ref)
	if err != nil {
		return err
	}
	if c.state == "running" && !o.Force {
		return fmt.Errorf("container is running: %w", cerrdefs.ErrConflict)
	}
	delete(f.containers, c.id)
	f.log("remove %s", c.name)
	return nil
}

func (f *fakeEngine) ContainerLogs(context.Context, string, container.LogsOptions) (io.ReadCloser, error) {
	var b bytes.Buffer
	fmt.Fprint(stdcopy.NewStdWriter(&b, stdcopy.Stderr), "listening\npanic: no\n")
	return io.NopCloser(&b), nil
}

func (f *fakeEngine) NetworkCreate(_ context.Context, name string, o network.CreateOptions) (network.CreateResponse, error) {
	if f.onSubnet != nil {
		subnet := ""
		if o.IPAM != nil {
			subnet = o.IPAM.Config[0].Subnet
		}
		if err := f.onSubnet(subnet); err != nil {
			return network.CreateResponse{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(time.Millisecond)
	n := network.Summary{ID: f.id("n"), Name: name, Labels: o.Labels, Created: f.now, Internal: o.Internal, Driver: o.Driver}
	f.networks = append(f.networks, n)
	f.log("create network %s", name)
	return network.CreateResponse{ID: n.ID}, nil
}

func (f *fakeEngine) NetworkList(_ context.Context, o network.ListOptions) ([]network.Summary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []network.Summary
	for _, n := range f.networks {
		if slices.ContainsFunc(o.Filters.Get("name"), func(s string) bool { return strings.Contains(n.Name, s) }) {
			out = append(out, n)
		}
	}
	return out, nil
}

func (f *fakeEngine) NetworkInspect(_ context.Context, id string, _ network.InspectOptions) (network.Inspect, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.networks {
		if n.ID == id {
			return network.Inspect{ID: n.ID, Name: n.Name, IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: "198.18.9.0/28"}}}}, nil
		}
	}
	return network.Inspect{}, fmt.Errorf("no network %q: %w", id, cerrdefs.ErrNotFound)
}

func (f *fakeEngine) NetworkConnect(_ context.Context, id, ref string, e *network.EndpointSettings) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(ref)
	if err != nil {
		return err
	}
	c.link = id
	at := ""
	if e != nil && e.IPAMConfig != nil {
		at = e.IPAMConfig.IPv4Address
	}
	f.log("connect %s to %s at %q", c.name, id, at)
	return nil
}

func (f *fakeEngine) NetworkRemove(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, n := range f.networks {
		if n.ID == id {
			f.networks = slices.Delete(f.networks, i, i+1)
			f.log("remove network %s", n.Name)
			return nil
		}
	}
	return fmt.Errorf("no network %q: %w", id, cerrdefs.ErrNotFound)
}

func (f *fakeEngine) VolumeCreate(_ context.Context, o volume.CreateOptions) (volume.Volume, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.volumes[o.Name]
	if !ok {
		v = volume.Volume{Name: o.Name, Labels: o.Labels}
		f.volumes[o.Name] = v
		f.log("create volume %s", o.Name)
	}
	return v, nil
}

func (f *fakeEngine) VolumeInspect(_ context.Context, name string) (volume.Volume, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v, ok := f.volumes[name]; ok {
		return v, nil
	}
	return volume.Volume{}, fmt.Errorf("no volume %q: %w", name, cerrdefs.ErrNotFound)
}

func (f *fakeEngine) VolumeRemove(_ context.Context, name string, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.volumes, name)
	f.log("remove volume %s", name)
	return nil
}

func (f *fakeEngine) ContainerExecCreate(_ context.Context, ref string, _ container.ExecOptions) (container.ExecCreateResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(ref)
	if err != nil {
		return container.ExecCreateResponse{}, err
	}
	if c.state != "running" {
		return container.ExecCreateResponse{}, fmt.Errorf("container %s is not running: %w", ref, cerrdefs.ErrConflict)
	}
	return container.ExecCreateResponse{ID: c.id}, nil
}

func (f *fakeEngine) ContainerExecAttach(_ context.Context, id string, _ container.ExecAttachOptions) (types.HijackedResponse, error) {
	near, far := net.Pipe()
	switch {
	case f.unready:
		go func() {
			defer far.Close()
			fmt.Fprint(stdcopy.NewStdWriter(far, stdcopy.Stderr), "dial unix /run/ctis/admin.sock: no such file")
		}()
	case f.bridgeFail != "":
		go func() {
			defer far.Close()
			fmt.Fprint(stdcopy.NewStdWriter(far, stdcopy.Stderr), f.bridgeFail)
		}()
	default:
		go f.serve(id, far)
	}
	return types.NewHijackedResponse(near, types.MediaTypeMultiplexedStream), nil
}

func (f *fakeEngine) ContainerExecInspect(context.Context, string) (container.ExecInspect, error) {
	if f.unready || f.bridgeFail != "" {
		return container.ExecInspect{ExitCode: 1}, nil
	}
	return container.ExecInspect{}, nil
}

// serve is the far end of a bridge.
func (f *fakeEngine) serve(id string, far net.Conn) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		c, err := f.find(id)
		if err != nil {
			panic(http.ErrAbortHandler) // its process ended, and the connection with it
		}
		n, _ := strconv.Atoi(c.config.Labels[LabelProtocol])
		if c.config.Labels[LabelRole] == RoleGateway {
			st := api.GatewayStatus{Protocol: n, Retired: c.retired, Identity: "gateway of " + c.id}
			for _, t := range f.registered[c.host.Mounts[0].Source] {
				st.Claims = append(st.Claims, api.Claims{Trajectory: t})
			}
			_ = json.NewEncoder(w).Encode(st)
			return
		}
		st := api.Status{Identity: "simulator of " + c.id, Protocol: n, Retired: c.retired}
		for _, t := range f.registered[c.host.Mounts[0].Source] {
			st.Trajectories = append(st.Trajectories, api.TrajectoryStatus{Trajectory: t})
		}
		_ = json.NewEncoder(w).Encode(st)
	})
	mux.HandleFunc("POST /v1/retire", func(w http.ResponseWriter, _ *http.Request) {
		if f.onRetire != nil {
			f.onRetire()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		c, err := f.find(id)
		if err != nil {
			panic(http.ErrAbortHandler) // its process ended, and the connection with it
		}
		if held := f.registered[c.host.Mounts[0].Source]; len(held) > 0 {
			e := api.Errorf(409, api.CodeBusy, "busy")
			e.Holders = held
			api.WriteError(w, e)
			return
		}
		c.retired = true
		f.log("retire %s", c.name)
		fmt.Fprint(w, "{}")
	})
	told := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.told = append(f.told, fmt.Sprintf("%s %s", r.URL.Path, b))
		fmt.Fprint(w, "{}")
	}
	mux.HandleFunc("PUT /v1/peer", told)
	mux.HandleFunc("PUT /v1/gateway", told)
	mux.HandleFunc("POST /v1/trajectories/{id}/hold", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == f.heldID {
			api.WriteError(w, api.Errorf(409, api.CodeHeld, "held"))
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("DELETE /v1/trajectories/{id}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if c, err := f.find(id); err == nil {
			v := c.host.Mounts[0].Source
			f.registered[v] = slices.DeleteFunc(f.registered[v], func(t string) bool { return t == r.PathValue("id") })
			f.log("%s forgets %s", c.name, r.PathValue("id"))
		}
		fmt.Fprint(w, "{}")
	})
	l := &oneConn{conn: framed{far, stdcopy.NewStdWriter(far, stdcopy.Stdout)}}
	_ = http.Serve(l, mux)
}

// framed writes as the engine does for a process's standard output.
type framed struct {
	net.Conn
	out io.Writer
}

func (c framed) Write(p []byte) (int, error) { return c.out.Write(p) }

// oneConn is a listener with one connection.
type oneConn struct {
	conn net.Conn
	once sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	var c net.Conn
	l.once.Do(func() { c = l.conn })
	if c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
