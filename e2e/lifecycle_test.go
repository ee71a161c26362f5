package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/linuxarena/ctis/e2e/images"
)

// TestDownLeavesNothingAndTheNeighbourNeverNotices takes a trajectory down while
// another one makes requests without a pause.
func TestDownLeavesNothingAndTheNeighbourNeverNotices(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	going, staying := b.id("going"), b.id("staying")
	dir := scratchHost(t)
	b.up(dir, going)
	up := b.up(dir, staying)
	agent := up.container(t, "default")

	loop := exec.Command("docker", "exec", agent, images.Program, "loop", "https://filebin.net/webhook")
	var out bytes.Buffer
	loop.Stdout, loop.Stderr = &out, &out
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loop runs", func() bool { return len(b.journal(staying, "--limit", "20")) == 20 })
	r := b.ctis("down", going, "--json").must(t, 0)
	var down struct {
		Removed  struct{ Containers, Networks []string }
		Requests int
	}
	if err := json.Unmarshal([]byte(r.stdout), &down); err != nil || len(down.Removed.Containers) != 1 || len(down.Removed.Networks) != 1 {
		t.Errorf("down says %s (%v)", r.stdout, err)
	}
	if left := b.leftOf(going); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	// The loop ends with its container; its count of failures is what it prints then.
	b.exec(agent, images.Program, "stop", "loop")
	if err := loop.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	var result struct {
		Requests, Failures int
		Errors             []string
	}
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || result.Requests < 20 || result.Failures != 0 {
		t.Errorf("the neighbour noticed: %s (%v)", out.String(), err)
	}

	// What is down stays readable, and down again is nothing to do.
	b.ctis("logs", going, "--json").must(t, 0)
	if r := b.ctis("down", going).must(t, 0); !strings.Contains(r.stdout, "nothing to do") {
		t.Errorf("down again says %q", r.stdout)
	}
}

// TestUpAgainChangesNothingAndOtherSettingsConflict: the same settings succeed,
// others are refused and touch nothing.
func TestUpAgainChangesNothingAndOtherSettingsConflict(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("again")
	dir := scratchHost(t)
	first := b.up(dir, id)
	ids := func() string {
		return b.docker("ps", "-aq", "--no-trunc", "--filter", "label=io.ctis.instance="+b.instance)
	}
	before := ids()
	second := b.up(dir, id)
	if ids() != before || second.container(t, "default") != first.container(t, "default") {
		t.Errorf("up again made other containers:\n%s\n%s", before, ids())
	}
	path := filepath.Join(dir, "ctis.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "server_header = \"Apache\"\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	r := b.ctis("up", dir, "--id", id, "--json").must(t, 3)
	if !strings.Contains(r.stdout, `"code":"conflict"`) || !strings.Contains(r.stderr, "ctis down "+id) {
		t.Errorf("conflict says %s %s", r.stdout, r.stderr)
	}
	if ids() != before {
		t.Error("the refused up touched containers")
	}
	b.exec(first.container(t, "default"), images.Program, "fetch", "https://filebin.net/")
}

// TestAnIDUsedAgainBeginsAnew: the second run of an id sees neither the files nor
// the records of the first, whose journal stays readable beside its own.
func TestAnIDUsedAgainBeginsAnew(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("twice")
	dir := scratchHost(t)
	for _, run := range []string{"first", "second"} {
		up := b.up(dir, id)
		agent := up.container(t, "default")
		if out, err := exec.Command("docker", "exec", agent, images.Program, "fetch", "https://filebin.net/data/key").CombinedOutput(); err != nil || !strings.Contains(string(out), `"status":404`) {
			t.Errorf("%s run finds the key of an earlier one: %s (%v)", run, out, err)
		}
		b.exec(agent, images.Program, "fetch", "-X", "PUT", "-d", run, "https://filebin.net/data/key")
		b.ctis("down", id, "--timeout", "0s").must(t, 0)
	}
	for name, want := range map[string]string{id + "~1": "first", id: "second"} {
		records := b.journal(name)
		if len(records) != 2 || records[0].Seq != 1 || records[1].Request.Body.Content != want {
			t.Errorf("journal of %s: %+v", name, records)
		}
	}
}

// TestAProjectThatIsNotOursIsNeverTouched: neither up nor down acts on a Compose
// project that ctis did not make.
func TestAProjectThatIsNotOursIsNeverTouched(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("foreign")
	dir := scratchHost(t)
	compose := func(args ...string) {
		t.Helper()
		out, err := exec.Command("docker", append([]string{"compose", "-p", id, "-f", filepath.Join(dir, "compose.yml")}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Cleanup(func() { compose("down", "--timeout", "0") })
	compose("up", "-d")
	before := b.docker("ps", "-q", "--filter", "label=com.docker.compose.project="+id)
	for _, args := range [][]string{{"down", id}, {"up", dir, "--id", id}} {
		if r := b.ctis(args...).must(t, 3); !strings.Contains(r.stderr, "was not made by ctis") {
			t.Errorf("%s says %s", args[0], r.stderr)
		}
	}
	if after := b.docker("ps", "-q", "--filter", "label=com.docker.compose.project="+id); after != before || before == "" {
		t.Errorf("containers before and after: %q, %q", before, after)
	}
}

// progress are the lines `ctis up` prints as its steps end, in order.
var progress = []string{"Simulator image", "Simulator ", "Creating containers", "Attaching the simulator", "Registering personas", "Installing trust"}

// TestInterruptLeavesNothingAndKillLeavesWhatDownRemoves stops ctis up after
// each of its steps: by SIGINT it takes everything back itself, by SIGKILL ctis
// down does.
func TestInterruptLeavesNothingAndKillLeavesWhatDownRemoves(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %[1]s
    command: [wait]
    networks: [external]
    volumes: [data:/data]
    healthcheck: {test: [CMD, %[2]s, health, /never], interval: 1s, retries: 1000}
networks:
  external: {}
volumes:
  data: {}
`, image(t, images.Agent()), images.Program),
	})
	keeper := b.id("keeper")
	b.up(scratchHost(t), keeper) // so that the simulator stays and has somebody to lose
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		for i, step := range progress {
			if sig == syscall.SIGTERM && i != 3 {
				continue // the same path as SIGINT
			}
			id := fmt.Sprintf("%s-%d-%d", b.id("stop"), int(sig), i)
			t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
			cmd := b.command("up", dir, "--id", id)
			errs, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var said []string
			hit := false
			for sc := bufio.NewScanner(errs); sc.Scan(); {
				said = append(said, sc.Text())
				if !hit && strings.HasPrefix(sc.Text(), "✔ "+step) {
					hit = true
					if err := cmd.Process.Signal(sig); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = cmd.Wait() // its exit code is looked at below
			if !hit {
				t.Fatalf("%v after %q: never got there:\n%s", sig, step, strings.Join(said, "\n"))
			}
			if sig == syscall.SIGKILL {
				b.ctis("down", id, "--volumes").must(t, 0)
			} else if code := cmd.ProcessState.ExitCode(); code != 130 {
				t.Errorf("%v after %q: exit code %d\n%s", sig, step, code, strings.Join(said, "\n"))
			}
			if left := b.leftOf(id); len(left) > 0 {
				t.Errorf("%v after %q: left %q\n%s", sig, step, left, strings.Join(said, "\n"))
			}
		}
	}
	if !slices.Contains(b.ids(), keeper) {
		t.Error("the trajectory that was not meant is gone")
	}
}

// ids lists the registered trajectories.
func (b *bed) ids() []string {
	b.t.Helper()
	var status struct {
		Trajectories []struct{ Trajectory string }
	}
	if err := json.Unmarshal([]byte(b.ctis("status", "--json").must(b.t, 0).stdout), &status); err != nil {
		b.t.Fatal(err)
	}
	var ids []string
	for _, t := range status.Trajectories {
		ids = append(ids, t.Trajectory)
	}
	return ids
}

// TestDownWorksWithTheSimulatorGone: nothing of the project is left, and the next
// simulator is told by the next down.
func TestDownWorksWithTheSimulatorGone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("orphan")
	b.up(scratchHost(t), id)
	b.docker("rm", "-f", b.instance+"-simulator")
	b.ctis("down", id).must(t, 0)
	if out := b.docker("ps", "-aq", "--filter", "label=com.docker.compose.project="+id); out != "" {
		t.Errorf("left: %s", out)
	}
	if out := b.docker("network", "ls", "-q", "--filter", "label=com.docker.compose.project="+id); out != "" {
		t.Errorf("left: %s", out)
	}
	// The state volume remembers the registration; a new simulator says that it is stale.
	other := b.id("other")
	b.up(scratchHost(t), other)
	if r := b.ctis("status").must(t, 0); !strings.Contains(r.stdout, "stale") {
		t.Errorf("status does not call it stale:\n%s", r.stdout)
	}
	b.ctis("down", id).must(t, 0)
	if ids := b.ids(); !slices.Equal(ids, []string{other}) {
		t.Errorf("registered: %q", ids)
	}
}

// TestAnotherContainerOnTheNetworkIsNamed: down never cuts off what it did not
// make; it fails and says who holds the network.
func TestAnotherContainerOnTheNetworkIsNamed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("held")
	b.up(scratchHost(t), id)
	holder := b.id("holder")
	if out, err := exec.Command("docker", "run", "-d", "--name", holder, "--network", id+"_external", image(t, images.Agent()), "wait").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { b.docker("rm", "-f", holder) })
	if r := b.ctis("down", id).must(t, 1); !strings.Contains(r.stderr, holder) || !strings.Contains(r.stderr, "docker network disconnect") {
		t.Errorf("down says %s", r.stderr)
	}
	b.docker("rm", "-f", holder)
	b.ctis("down", id).must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestTheSimulatorIsReplacedOnlyWhileIdle: another image is refused while a
// trajectory is attached, naming it and touching nothing, and put in place when
// none is.
func TestTheSimulatorIsReplacedOnlyWhileIdle(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("first")
	dir := scratchHost(t)
	up := b.up(dir, id)
	other := "ctis-test/other:" + b.instance
	b.docker("tag", up.Image, other)
	t.Cleanup(func() {
		b.clean() // a simulator would hold the image
		b.docker("rmi", other)
	})
	// The same bytes under another name are another image only if their id says so.
	build := exec.Command("docker", "build", "-q", "-t", other, "-")
	build.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	build.Stdin = strings.NewReader("FROM " + up.Image + "\nLABEL io.ctis.source-hash= other=1\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := b.docker("inspect", b.instance+"-simulator", "--format", "{{.Id}}")
	ca := b.ctis("ca").must(t, 0).stdout
	second := b.id("second")
	r := b.ctis("up", dir, "--id", second, "--image", other).must(t, 3)
	if !strings.Contains(r.stderr, id) || !strings.Contains(r.stderr, other) {
		t.Errorf("the refusal names neither who is attached nor what was wanted: %s", r.stderr)
	}
	if after := b.docker("inspect", b.instance+"-simulator", "--format", "{{.Id}}"); after != before {
		t.Error("the refused up replaced the simulator")
	}
	b.ctis("down", id).must(t, 0)
	replaced := b.up(dir, second, "--image", other)
	if replaced.Image != other || replaced.Simulator.Reused {
		t.Errorf("not replaced: %+v", replaced)
	}
	if b.ctis("ca").must(t, 0).stdout != ca {
		t.Error("the new simulator has another certificate authority")
	}
	b.ctis("logs", id).must(t, 0) // the old one's journal
}
