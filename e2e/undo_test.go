package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
)

// manyThings is an environment with several networks, a named volume and a
// command that a variable decides.
func manyThings(t *testing.T) string {
	t.Helper()
	return environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: ["${VERB:-wait}", "${ARGUMENT:-}"]
    networks: [external, n1, n2, n3, n4]
    volumes: [work:/work]
networks: {external: {}, n1: {}, n2: {}, n3: {}, n4: {}}
volumes: {work: {}}
`, image(t, images.Agent())),
	})
}

// TestAFailedUpKeepsTheVolumesOfAnEarlierRun: it takes back what it made itself
// and nothing else.
func TestAFailedUpKeepsTheVolumesOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("kept")
	dir := manyThings(t)
	t.Cleanup(func() { b.docker("volume", "rm", "-f", id+"_work") })
	for _, c := range []struct {
		exists bool
		want   string
	}{{false, ""}, {true, id + "_work"}} {
		if c.exists {
			b.docker("volume", "create", "--label", "com.docker.compose.project="+id, "--label", "com.docker.compose.volume=work", id+"_work")
		}
		cmd := b.command("up", dir, "--id", id)
		cmd.Env = append(cmd.Env, "VERB=exit", "ARGUMENT=3")
		finish(t, cmd).must(t, 1)
		if got := b.docker("volume", "ls", "-q", "--filter", "label=com.docker.compose.project="+id); got != c.want {
			t.Errorf("volumes afterwards: %q, not %q", got, c.want)
		}
	}
}

// TestDownWithVolumesAfterDownRemovesThem: what the first left on purpose the
// second takes.
func TestDownWithVolumesAfterDownRemovesThem(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("later")
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"default\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf("services:\n  default:\n    image: %s\n    command: [wait]\n    volumes: [work:/work]\nvolumes: {work: {}}\n",
			image(t, images.Agent())),
	})
	up := b.up(dir, id)
	b.exec(up.container(t, "default"), images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")
	list := func() string {
		return b.docker("volume", "ls", "-q", "--filter", "label=com.docker.compose.project="+id)
	}
	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	if list() != id+"_work" {
		t.Errorf("down without --volumes leaves %q", list())
	}
	if r := b.ctis("down", id, "--volumes", "--json").must(t, 0); list() != "" || !strings.Contains(r.stdout, id+"_work") {
		t.Errorf("down --volumes leaves %q and says %s", list(), r.stdout)
	}
}

// TestInterruptAnywhereLeavesNothing stops ctis up after times that fall into the
// middle of its steps: the engine finishes what Compose had asked for, and that
// must be taken back too.
func TestInterruptAnywhereLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := manyThings(t)
	b.up(scratchHost(t), b.id("keeper"))
	for i, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGKILL} {
		for j := range 8 {
			id := fmt.Sprintf("%s-%d-%d", b.id("cut"), i, j)
			t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
			cmd := b.command("up", dir, "--id", id)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// Not a wait for anything: a different moment each time is the point.
			time.Sleep(time.Duration(150+j*110) * time.Millisecond)
			_ = cmd.Process.Signal(sig) // it may have come to its end
			err := cmd.Wait()
			if sig == syscall.SIGKILL {
				b.ctis("down", id, "--volumes", "--timeout", "0s").must(t, 0)
			} else if err == nil {
				continue // it was up before the signal
			}
			if left := b.leftOf(id); len(left) > 0 {
				t.Errorf("%v at moment %d: left %q", sig, j, left)
			}
		}
	}
}

// TestAResultThatCannotBeToldIsTakenBack: whoever waits for it would not know
// that something is up. Progress that nobody reads does no harm.
func TestAResultThatCannotBeToldIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := scratchHost(t)
	id := b.id("full")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	defer full.Close()
	cmd := b.command("up", dir, "--id", id, "--json")
	cmd.Stdout = full
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d", cmd.ProcessState.ExitCode())
	}
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}

	deaf := b.id("deaf")
	t.Cleanup(func() { b.ctis("down", deaf, "--timeout", "0s") })
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	cmd = b.command("up", dir, "--id", deaf)
	cmd.Stderr = w
	if err := cmd.Run(); err != nil {
		t.Errorf("progress that nobody reads: %v", err)
	}
}

// TestDownDoesNotNeedASimulatorThatAnswers: paused, stopped, it keeps nobody from
// taking a trajectory down, and no count is made up.
func TestDownDoesNotNeedASimulatorThatAnswers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := scratchHost(t)
	for _, state := range []string{"pause", "stop"} {
		id := b.id(state)
		up := b.up(dir, id)
		b.exec(up.container(t, "default"), images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")
		b.docker(state, b.instance+"-simulator")
		if r := b.ctis("status").must(t, 0); !strings.Contains(r.stdout, id) {
			t.Errorf("%s: status does not list %s:\n%s", state, id, r.stdout)
		}
		r := b.ctis("down", id, "--json", "--timeout", "0s").must(t, 0)
		if !strings.Contains(r.stdout, `"requests":null`) || !strings.Contains(r.stderr, "does not answer") {
			t.Errorf("%s: down says %s %s", state, r.stdout, r.stderr)
		}
		if left := b.docker("ps", "-aq", "--filter", "label=com.docker.compose.project="+id) + b.docker("network", "ls", "-q", "--filter", "label=com.docker.compose.project="+id); left != "" {
			t.Errorf("%s: left %s", state, left)
		}
		b.docker(map[string]string{"pause": "unpause", "stop": "start"}[state], b.instance+"-simulator")
		eventually(t, "the simulator answers", func() bool { return b.ctis("ca").code == 0 })
		b.ctis("down", id).must(t, 0)
		if records := b.journal(id); len(records) != 1 {
			t.Errorf("%s: %d records afterwards", state, len(records))
		}
	}
}

// TestAnExternalNetworkIsLeftAndFoundAgain: the simulator leaves a network that is
// not the project's own at down, and is put back on it when it was made anew.
func TestAnExternalNetworkIsLeftAndFoundAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id, net := b.id("guest"), b.id("foreign")
	if out := b.docker("network", "create", net); strings.Contains(out, "rror") {
		t.Fatal(out)
	}
	t.Cleanup(func() { b.docker("network", "rm", net) })
	dir := environment(t, map[string]string{
		"ctis.toml":   "network = \"outside\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf("services:\n  default:\n    image: %s\n    command: [wait]\n    networks: [outside]\nnetworks:\n  outside: {external: true, name: %s}\n", image(t, images.Agent()), net),
	})
	up := b.up(dir, id)
	agent := up.container(t, "default")
	b.exec(agent, images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")

	b.docker("rm", "-f", b.instance+"-simulator")
	b.up(scratchHost(t), b.id("another")) // makes the simulator anew
	b.exec(agent, images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")

	b.docker("network", "disconnect", "-f", net, b.instance+"-simulator")
	b.up(dir, id) // again: finds that it is off the network
	b.exec(agent, images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")

	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	if on := b.docker("network", "inspect", net, "--format", "{{range .Containers}}{{.Name}} {{end}}"); on != "" {
		t.Errorf("still on the network: %s", on)
	}
}

// TestWhatIsLeftOfAForeignProjectIsNotOurs: a network alone shows whose it is as
// well as a container.
func TestWhatIsLeftOfAForeignProjectIsNotOurs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("foreign")
	b.docker("network", "create", "--label", "com.docker.compose.project="+id, "--label", "com.docker.compose.network=default", id+"_default")
	b.docker("volume", "create", "--label", "com.docker.compose.project="+id, "--label", "com.docker.compose.volume=data", id+"_data")
	t.Cleanup(func() { b.docker("network", "rm", id+"_default"); b.docker("volume", "rm", id+"_data") })
	b.ctis("down", id, "--volumes").must(t, 3)
	b.ctis("up", scratchHost(t), "--id", id).must(t, 3)
	b.docker("network", "rm", id+"_default")
	if r := b.ctis("down", id, "--volumes").must(t, 0); !strings.Contains(r.stdout, "nothing to do") {
		t.Errorf("says %s", r.stdout)
	}
	if out, err := exec.Command("docker", "volume", "inspect", id+"_data").CombinedOutput(); err != nil {
		t.Errorf("the volume is gone: %s", out)
	}
}

// TestAResumedUpTakesBackWhatItDid: what an earlier, killed up made stays, and is
// said to; what this one did on top goes.
func TestAResumedUpTakesBackWhatItDid(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("resumed")
	dir := manyThings(t)
	t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
	cmd := b.command("up", dir, "--id", id, "--keep-on-failure")
	cmd.Env = append(cmd.Env, "VERB=exit", "ARGUMENT=3")
	finish(t, cmd).must(t, 1)
	cmd = b.command("up", dir, "--id", id)
	cmd.Env = append(cmd.Env, "VERB=exit", "ARGUMENT=3")
	r := finish(t, cmd).must(t, 1)
	if !strings.Contains(r.stderr, "ctis down "+id) && !strings.Contains(r.stderr, "down "+id) {
		t.Errorf("does not say how to remove the rest:\n%s", r.stderr)
	}
	b.ctis("down", id, "--volumes", "--timeout", "0s").must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
