package simulator

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/server/api"
)

// realEngine is the engine of the environment. These tests run with CTIS_E2E=1.
func realEngine(t *testing.T) *client.Client {
	t.Helper()
	if os.Getenv("CTIS_E2E") != "1" {
		t.Skip("needs a Docker engine: set CTIS_E2E=1")
	}
	eng, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	return eng
}

// patient is a context that ends before the test run does.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// realContext is the repository, or the context CTIS_BUILD_CONTEXT names, as the
// inputs of its Dockerfile alone, so that a test may change it.
func realContext(t *testing.T) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	s := source(t, os.DirFS(cmp.Or(os.Getenv("CTIS_BUILD_CONTEXT"), "..")), "templates/image/Dockerfile", nil)
	err := s.Each(func(in imagehash.Input, r io.Reader) error {
		f := &fstest.MapFile{Data: []byte(in.Target), Mode: fs.ModeSymlink}
		if in.Kind == imagehash.KindFile {
			data, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			f = &fstest.MapFile{Data: data, Mode: 0o644}
		}
		m[in.Path] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// realImage makes sure of the image of fsys. The tag is removed after the test if
// the test made it, since other tests build other sources.
func realImage(t *testing.T, eng *client.Client, fsys fs.FS) ImageResult {
	t.Helper()
	o := fromSource(source(t, fsys, "templates/image/Dockerfile", nil))
	o.Go, o.Environ = goCommand(t), os.Environ()
	var said []string
	o.Progress = func(s string) { said = append(said, s) }
	r, err := EnsureImage(patient(t), eng, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(said, "\n"))
	}
	return *r
}

// realInstance names an instance of this test's own and removes it afterwards.
func realInstance(t *testing.T, eng *client.Client) string {
	t.Helper()
	name := "ctis-test-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := Remove(ctx, eng, name, RemoveOptions{Volume: true, Force: true}); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return name
}

func realEnsure(t *testing.T, eng *client.Client, instance string, img ImageResult) *Result {
	t.Helper()
	r, err := Ensure(patient(t), eng, EnsureOptions{Instance: instance, Image: img})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Client.Close)
	return r
}

// onThisMachine tells whether a process id that the engine gave is a simulator
// here: another machine's or process namespace's means somebody else here.
func onThisMachine(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && exe == "/ctis-server"
}

// changed is the source with another comment in it.
func changedContext(t *testing.T) fs.FS {
	m := realContext(t)
	const main = "server/cmd/ctis-server/main.go"
	m[main].Data = append(m[main].Data, "\n// another\n"...)
	return m
}

func TestRealImageIsBuiltFromNothingAndThenReused(t *testing.T) {
	eng := realEngine(t)
	m := realContext(t)
	m["templates/image/Dockerfile"].Data = append(m["templates/image/Dockerfile"].Data, "# "+rand.Text()+"\n"...)
	first := realImage(t, eng, m)
	t.Cleanup(func() {
		if _, err := eng.ImageRemove(context.Background(), first.Ref, image.RemoveOptions{PruneChildren: true}); err != nil {
			t.Error(err)
		}
	})
	if !first.Built || first.Protocol != api.Protocol {
		t.Errorf("first = %+v, want it built, with the protocol's label", first)
	}
	got, err := eng.ImageInspect(patient(t), first.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if got.Config.Labels[LabelHash] != first.Hash || got.Config.User != "65532:65532" || got.Config.Healthcheck == nil ||
		!slices.Equal(got.Config.Entrypoint, []string{"/ctis-server"}) {
		t.Errorf("configuration = %+v", got.Config)
	}
	begin := time.Now()
	second := realImage(t, eng, m)
	t.Logf("hashed and found in %s", time.Since(begin))
	if second.Built || second.ID != first.ID {
		t.Errorf("second = %+v, want %s reused", second, first.ID)
	}
}

func TestRealSimulatorIsHardenedAndAnswers(t *testing.T) {
	eng := realEngine(t)
	img, instance := realImage(t, eng, realContext(t)), realInstance(t, eng)
	begin := time.Now()
	r := realEnsure(t, eng, instance, img)
	t.Logf("created and ready in %s", time.Since(begin))
	if r.Reused || !r.Address.IsValid() {
		t.Errorf("result = %+v", r)
	}
	begin = time.Now()
	if again := realEnsure(t, eng, instance, img); !again.Reused || again.ID != r.ID {
		t.Errorf("again = %+v, want %s reused", again, r.ID)
	}
	t.Logf("reused in %s", time.Since(begin))

	c, err := eng.ContainerInspect(patient(t), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	h := c.HostConfig
	if !h.ReadonlyRootfs || h.Privileged || len(h.CapAdd) > 0 || len(h.CapDrop) != 1 || c.Config.User != "65532:65532" ||
		!slices.Contains(h.SecurityOpt, "no-new-privileges") || h.RestartPolicy.Name != container.RestartPolicyUnlessStopped ||
		len(h.PortBindings) > 0 || h.LogConfig.Config["max-size"] == "" || len(c.NetworkSettings.Networks) != 1 {
		t.Errorf("host configuration = %+v", h)
	}
	for k := range c.Config.Labels {
		if strings.HasPrefix(k, "com.docker.compose") {
			t.Errorf("label %s", k)
		}
	}
	if !onThisMachine(c.State.Pid) {
		t.Skip("the engine is not on this machine: the process cannot be looked at")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.State.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Uid:\t65532\t65532\t65532\t65532"} {
		if !strings.Contains(string(status), want+"\n") {
			t.Errorf("the process has not %q", want)
		}
	}
	for key, want := range h.Sysctls {
		path := "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
		out, err := exec.Command("nsenter", "-t", fmt.Sprint(c.State.Pid), "-n", "cat", path).CombinedOutput()
		if err != nil {
			t.Skipf("cannot enter the simulator's network: %v: %s", err, out)
		}
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
}

func TestRealProcessesThatEnsureAtOnceShareOneContainer(t *testing.T) {
	eng := realEngine(t)
	img, instance := realImage(t, eng, realContext(t)), realInstance(t, eng)
	var wg sync.WaitGroup
	ids := make([]string, 6)
	for i := range ids {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := Ensure(patient(t), eng, EnsureOptions{Instance: instance, Image: img, LinkSubnet: func(context.Context) (netip.Prefix, error) {
				return netip.MustParsePrefix("198.19.255.240/28"), nil
			}})
			if err != nil {
				t.Error(err)
				return
			}
			r.Client.Close()
			ids[i] = r.ID
		}()
	}
	wg.Wait()
	if slices.Sort(ids); len(slices.Compact(ids)) != 1 {
		t.Errorf("containers = %q, want one", ids)
	}
}

func TestRealSimulatorComesBackAfterBeingKilled(t *testing.T) {
	eng := realEngine(t)
	img, instance := realImage(t, eng, realContext(t)), realInstance(t, eng)
	r := realEnsure(t, eng, instance, img)
	c, err := eng.ContainerInspect(patient(t), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !onThisMachine(c.State.Pid) {
		t.Log("the engine is not on this machine: the process cannot be killed")
	} else if err := syscall.Kill(c.State.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	} else if again := realEnsure(t, eng, instance, img); again.ID != r.ID {
		t.Errorf("after kill -9 of its process: container %s, want %s", again.ID, r.ID)
	}
	// The engine takes this for the user's wish and leaves it stopped.
	if err := eng.ContainerKill(patient(t), r.ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	if again := realEnsure(t, eng, instance, img); again.ID != r.ID {
		t.Errorf("after docker kill: container %s, want %s", again.ID, r.ID)
	}
}

func TestRealSimulatorIsReplacedOnlyWhileIdle(t *testing.T) {
	eng := realEngine(t)
	one, two, instance := realImage(t, eng, realContext(t)), realImage(t, eng, changedContext(t)), realInstance(t, eng)
	t.Cleanup(func() {
		if _, err := Remove(context.Background(), eng, instance, RemoveOptions{Volume: true, Force: true}); err != nil {
			t.Error(err)
		}
		if _, err := eng.ImageRemove(context.Background(), two.Ref, image.RemoveOptions{PruneChildren: true}); err != nil {
			t.Error(err)
		}
	})
	first := realEnsure(t, eng, instance, one)
	reg := &api.Registration{
		Trajectory: "t1", Environment: "env", Settings: strings.Repeat("0", 64),
		Networks: []api.Network{{
			Name: "external", ID: strings.Repeat("a", 64), Subnets: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/27")},
			Addresses: []netip.Addr{netip.MustParseAddr("198.18.0.30")}, Peers: []api.Peer{},
		}},
		Personas: []api.Persona{{Host: "filebin.net", ServerHeader: "nginx", Endpoints: []string{"webhook"}}},
	}
	if _, err := first.Client.Register(patient(t), reg); err != nil {
		t.Fatal(err)
	}
	_, err := Ensure(patient(t), eng, EnsureOptions{Instance: instance, Image: two})
	var busy *BusyError
	if !errors.As(err, &busy) || !slices.Equal(busy.Attached, []string{"t1"}) {
		t.Fatalf("error = %v (%T), want a *BusyError naming t1", err, err)
	}
	if same := realEnsure(t, eng, instance, one); same.ID != first.ID || !same.Reused {
		t.Errorf("the busy simulator was touched: %+v", same)
	}
	if _, err := first.Client.Unregister(patient(t), "t1"); err != nil {
		t.Fatal(err)
	}
	ca, caErr := first.Client.CA(patient(t))
	begin := time.Now()
	second := realEnsure(t, eng, instance, two)
	t.Logf("replaced in %s", time.Since(begin))
	if second.ID == first.ID {
		t.Error("the idle simulator was not replaced")
	}
	if again, err := second.Client.CA(patient(t)); caErr == nil && (err != nil || string(again) != string(ca)) {
		t.Errorf("the CA did not survive: %v", err)
	}
}

func TestRealContainerThatWasNeverStartedIsSeenWithItsAge(t *testing.T) {
	eng := realEngine(t)
	img, instance := realImage(t, eng, realContext(t)), realInstance(t, eng)
	w := Want{Image: img.Ref, ImageID: img.ID, Hash: img.Hash, Protocol: api.Protocol}
	link, err := ensureLink(patient(t), eng, instance, nil, linkPatience)
	if err != nil {
		t.Fatal(err)
	}
	if err := ensureVolume(patient(t), eng, instance); err != nil {
		t.Fatal(err)
	}
	config, host := containerConfig(instance, w, link)
	if _, err := eng.ContainerCreate(patient(t), config, host, nil, nil, ContainerName(instance)); err != nil {
		t.Fatal(err)
	}
	obs, err := Observe(patient(t), eng, instance)
	if err != nil {
		t.Fatal(err)
	}
	if obs.State != "created" || obs.Age < 0 || obs.Age > 9*time.Second || len(obs.Networks) != 0 {
		t.Errorf("observed %+v", obs)
	}
	if d := Decide(w, obs); d.Action != Wait {
		t.Errorf("decision = %s", d)
	}
}

func TestRealSimulatorWhoseLinkWasPrunedComesBack(t *testing.T) {
	eng := realEngine(t)
	img, instance := realImage(t, eng, realContext(t)), realInstance(t, eng)
	r := realEnsure(t, eng, instance, img)
	if err := eng.ContainerStop(patient(t), r.ID, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := eng.NetworkRemove(patient(t), LinkName(instance)); err != nil {
		t.Fatal(err)
	}
	if again := realEnsure(t, eng, instance, img); !again.Address.IsValid() {
		t.Errorf("result = %+v", again)
	}
}

func TestRealBridgeSaysWhyItFails(t *testing.T) {
	eng := realEngine(t)
	img, instance := realImage(t, eng, realContext(t)), realInstance(t, eng)
	r := realEnsure(t, eng, instance, img)
	if err := eng.ContainerPause(patient(t), r.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := Dialer(eng, r.ID)(patient(t)); err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("error = %v, want it to say that the container is paused", err)
	}
	if again := realEnsure(t, eng, instance, img); again.ID != r.ID {
		t.Error("a paused simulator is replaced")
	}
}

func TestRealDockerfileOfTheUsersOwnGetsItsInputsAndNothingElse(t *testing.T) {
	eng := realEngine(t)
	fsys := fstest.MapFS{
		"d/Dockerfile":              {Data: []byte("FROM scratch AS unused\nFROM scratch\nARG V=a\nCOPY src /src\nCOPY one-$V.* l/deep /x/\nCMD [\"/none\"]\n# " + rand.Text())},
		"d/Dockerfile.dockerignore": {Data: []byte("**/*_test.go\n")},
		"src/a.go":                  {Data: []byte("a")}, "src/a_test.go": {Data: []byte("t")}, "src/run": {Data: []byte("r"), Mode: 0o755},
		"src/link": {Data: []byte("a.go"), Mode: fs.ModeSymlink},
		"one-a.1":  {Data: []byte("1")}, "one-b.1": {Data: []byte("2")}, "other": {Data: []byte("3")},
		"l": {Data: []byte("real"), Mode: fs.ModeSymlink}, "real/deep/f": {Data: []byte("f")},
	}
	s := source(t, fsys, "d/Dockerfile", nil)
	o := fromSource(s)
	o.NoCache = true // see buildHere: other tests remove images
	r, err := EnsureImage(patient(t), eng, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := eng.ImageRemove(context.Background(), r.Ref, image.RemoveOptions{PruneChildren: true}); err != nil {
			t.Error(err)
		}
	})
	made, err := eng.ContainerCreate(patient(t), &container.Config{Image: r.Ref}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	var got []string
	for _, dir := range []string{"/src", "/x"} {
		stream, _, err := eng.CopyFromContainer(patient(t), made.ID, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for tr := tar.NewReader(stream); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag != tar.TypeDir {
				got = append(got, fmt.Sprintf("%s %o %s", h.Name, h.Mode&0o777, h.Linkname))
			}
		}
	}
	slices.Sort(got)
	want := []string{"src/a.go 644 ", "src/link 777 a.go", "src/run 755 ", "x/f 644 ", "x/one-a.1 644 "}
	if !slices.Equal(got, want) {
		t.Errorf("image has %q, want %q", got, want)
	}
}
