package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/cli/cli/connhelper"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/docker/go-connections/tlsconfig"
	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/simulator"
)

// minAPI is the oldest engine API ctis works with: that of Docker Engine 20.10.
const minAPI = "1.41"

// app is one run of the program: where it reads and writes, what it was told,
// and the connections it has opened so far.
type app struct {
	streams Streams
	setting Setting
	env     map[string]string

	instance      string
	dockerContext string
	dockerHost    string
	noColor       bool
	quiet         bool
	logLevel      string
	json          bool // set by the verb that runs

	ui     *ui
	log    *slog.Logger
	engine *client.Client // nil until openEngine
	where  endpoint
	runner *compose.Runner // nil until composeRunner
}

func newApp(streams Streams, setting Setting) *app {
	a := &app{streams: streams, setting: setting, env: map[string]string{}}
	for _, kv := range setting.Environ {
		k, v, _ := strings.Cut(kv, "=")
		a.env[k] = v
	}
	a.ui = newUI(streams.Err, a.env, uiOptions{})
	a.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	return a
}

func (a *app) globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "instance", Usage: "name `PREFIX` that keeps several simulators on one engine apart (CTIS_INSTANCE)", Destination: &a.instance},
		&cli.StringFlag{Name: "docker-context", Usage: "Docker context `NAME` of the engine to use", Destination: &a.dockerContext},
		&cli.StringFlag{Name: "docker-host", Usage: "`URL` of the engine to use", Destination: &a.dockerHost},
		&cli.BoolFlag{Name: "no-color", Usage: "no colours (NO_COLOR)", Destination: &a.noColor},
		&cli.BoolFlag{Name: "quiet", Usage: "no progress, only results, warnings and errors", Destination: &a.quiet},
		&cli.StringFlag{Name: "log-level", Usage: "what is logged on stderr: `LEVEL` is error, warn, info or debug", Value: "warn", Destination: &a.logLevel},
	}
}

// jsonFlag is the --json of every verb with a result.
func (a *app) jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "the result as JSON on stdout, errors too", Destination: &a.json}
}

// before settles what the global flags and the environment say together.
func (a *app) before(*cli.Context) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return &usageError{msg: fmt.Sprintf("--log-level %q is none of error, warn, info, debug", a.logLevel)}
	}
	a.log = slog.New(slog.NewTextHandler(a.streams.Err, &slog.HandlerOptions{Level: level}))
	a.ui = newUI(a.streams.Err, a.env, uiOptions{noColor: a.noColor, quiet: a.quiet})
	if a.dockerHost != "" && a.dockerContext != "" {
		return &usageError{msg: "--docker-host and --docker-context exclude each other", hint: "give one of them"}
	}
	if a.instance == "" {
		a.instance = a.env["CTIS_INSTANCE"]
	}
	if a.instance == "" {
		a.instance = "ctis"
	}
	if err := simulator.ValidateInstance(a.instance); err != nil {
		return &usageError{msg: err.Error(), hint: "choose another --instance or CTIS_INSTANCE"}
	}
	return nil
}

// openEngine connects to the engine the user means and makes sure that it is
// reachable and new enough.
func (a *app) openEngine(ctx context.Context) (*client.Client, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	where, err := resolveEndpoint(a.dockerHost, a.dockerContext, a.env)
	if err != nil {
		return nil, &engineError{err: err, hint: "docker context ls lists the contexts there are"}
	}
	eng, err := where.dial()
	if err != nil {
		return nil, &engineError{err: err, hint: "check --docker-host, --docker-context, DOCKER_HOST and DOCKER_CONTEXT"}
	}
	ping, err := eng.Ping(ctx)
	if err != nil {
		_ = eng.Close() // nothing was sent
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &engineError{err: fmt.Errorf("the Docker engine at %s does not answer: %w", where, err),
			hint: "start it (systemctl start docker), or say which one to use with --docker-host or --docker-context"}
	}
	eng.NegotiateAPIVersionPing(ping)
	if v := where.version; v != "" && (olderAPI(v, minAPI) || olderAPI(ping.APIVersion, v)) {
		_ = eng.Close() // nothing is in work
		return nil, &engineError{err: fmt.Errorf("DOCKER_API_VERSION is %q; the Docker engine at %s speaks %s and ctis needs at least %s", v, where, ping.APIVersion, minAPI),
			hint: "unset DOCKER_API_VERSION: the version is negotiated"}
	}
	if olderAPI(ping.APIVersion, minAPI) {
		_ = eng.Close()
		return nil, &engineError{err: fmt.Errorf("the Docker engine at %s speaks API %s; ctis needs %s", where, ping.APIVersion, minAPI),
			hint: "install Docker Engine 20.10 or newer"}
	}
	a.engine, a.where = eng, where
	a.log.Info("engine", "endpoint", where.String(), "api", eng.ClientVersion())
	return eng, nil
}

// dial makes a client; nothing is sent yet. It negotiates the API version, so
// that every engine from 20.10 to the newest is spoken to in its own.
func (e endpoint) dial() (*client.Client, error) {
	opts := []client.Opt{client.WithAPIVersionNegotiation()}
	helper, err := connhelper.GetConnectionHelper(e.host)
	switch {
	case err != nil:
		return nil, fmt.Errorf("engine %s: %w", e.host, err)
	case helper != nil:
		opts = append(opts, client.WithHost(helper.Host), client.WithDialContext(helper.Dialer))
	default:
		if e.tlsDir != "" {
			config, err := tlsconfig.Client(tlsconfig.Options{
				CAFile:             filepath.Join(e.tlsDir, "ca.pem"),
				CertFile:           filepath.Join(e.tlsDir, "cert.pem"),
				KeyFile:            filepath.Join(e.tlsDir, "key.pem"),
				InsecureSkipVerify: !e.verify,
				ExclusiveRootPools: true,
			})
			if err != nil {
				return nil, fmt.Errorf("engine %s: TLS files: %w", e.host, err)
			}
			opts = append(opts, client.WithHTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: config}, CheckRedirect: client.CheckRedirect}))
		}
		opts = append(opts, client.WithHost(e.host))
	}
	if e.version != "" {
		opts = append(opts, client.WithVersion(e.version))
	}
	return client.NewClientWithOpts(opts...)
}

// containerLog reads the last lines a container wrote, both streams together.
func (a *app) containerLog(ctx context.Context, id string, lines int) ([]byte, error) {
	r, err := a.engine.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(lines)})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	in, err := a.engine.ContainerInspect(ctx, id)
	if err != nil {
		return nil, err
	}
	limited := io.LimitReader(r, 1<<20)
	if in.Config != nil && in.Config.Tty {
		return io.ReadAll(limited) // with a terminal the streams are one already
	}
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, limited)
	return out.Bytes(), err
}

// instances lists every instance that has something on the engine.
func (a *app) instances(ctx context.Context) ([]string, error) {
	labelled := filters.NewArgs(filters.Arg("label", simulator.LabelInstance))
	found := map[string]bool{}
	containers, err := a.engine.ContainerList(ctx, container.ListOptions{All: true, Filters: labelled})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, c := range containers {
		found[c.Labels[simulator.LabelInstance]] = true
	}
	volumes, err := a.engine.VolumeList(ctx, volume.ListOptions{Filters: labelled})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	for _, v := range volumes.Volumes {
		found[v.Labels[simulator.LabelInstance]] = true
	}
	images, err := a.engine.ImageList(ctx, image.ListOptions{Filters: labelled})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	for _, i := range images {
		found[i.Labels[simulator.LabelInstance]] = true
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// exec runs a command in a container and returns what it wrote on stdout.
func (a *app) exec(ctx context.Context, id string, argv ...string) ([]byte, error) {
	made, err := a.engine.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: argv, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", argv[0], err)
	}
	at, err := a.engine.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", argv[0], err)
	}
	defer at.Close()
	defer context.AfterFunc(ctx, at.Close)() // reading below ends with the context
	var out, errs bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &errs, at.Reader); err != nil {
		return out.Bytes(), errors.Join(ctx.Err(), fmt.Errorf("run %s: %w", argv[0], err))
	}
	done, err := a.engine.ContainerExecInspect(ctx, made.ID)
	if err != nil {
		return out.Bytes(), fmt.Errorf("run %s: %w", argv[0], err)
	}
	if done.ExitCode != 0 {
		return out.Bytes(), fmt.Errorf("%s ended with exit code %d: %s", argv[0], done.ExitCode, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// program is how this program was called, so that what is printed can be typed
// again.
func (a *app) program() string {
	name := a.setting.Program
	if name == "" {
		name = "ctis"
	}
	if a.instance != simulator.DefaultInstance && a.env["CTIS_INSTANCE"] != a.instance {
		name += " --instance " + a.instance
	}
	return name
}

func (a *app) close() {
	if a.engine != nil {
		_ = a.engine.Close() // the process ends
	}
}

// addressPool is where subnets are taken from.
func (a *app) addressPool() (netip.Prefix, error) {
	s := a.env["CTIS_ADDRESS_POOL"]
	if s == "" {
		return netpin.DefaultPool, nil
	}
	p, err := netpin.ParsePool(s)
	if err != nil {
		return netip.Prefix{}, &usageError{msg: "CTIS_ADDRESS_POOL: " + err.Error(), hint: "write it like " + netpin.DefaultPool.String()}
	}
	return p, nil
}

// olderAPI compares engine API versions ("1.41").
func olderAPI(have, want string) bool {
	var h, w [2]int
	for _, v := range []struct {
		text  string
		parts *[2]int
	}{{have, &h}, {want, &w}} {
		if _, err := fmt.Sscanf(v.text+"\n", "%d.%d\n", &v.parts[0], &v.parts[1]); err != nil {
			return true // no version at all is none to work with
		}
	}
	return slices.Compare(h[:], w[:]) < 0
}

// workingDir is where relative paths start.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("the current directory cannot be named: %w", err)
	}
	return dir, nil
}
