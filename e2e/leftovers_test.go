package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
)

// leftNetwork makes a network as a killed ctis up of an older state of the
// environment leaves it: of the same key, by another name and with other addresses.
func (b *bed) leftNetwork(id, name string) {
	b.t.Helper()
	out := b.docker("network", "create", "--label", "com.docker.compose.project="+id, "--label", "com.docker.compose.network=external",
		"--label", "io.ctis.instance="+b.instance, "--label", "io.ctis.trajectory="+id, "--subnet", fmt.Sprintf("10.219.%d.0/24", time.Now().UnixNano()/1e3%250), name)
	if len(out) != 64 {
		b.t.Fatalf("docker network create: %s", out)
	}
	b.t.Cleanup(func() { b.docker("network", "rm", name) })
}

// TestNetworksThatAKilledUpLeftAreRemovedFirst: the environment's network had another
// name then. With one that somebody uses nothing is begun, and whatever fails later is
// taken back.
func TestNetworksThatAKilledUpLeftAreRemovedFirst(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id, old := b.id("left"), b.id("old")
	t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
	dir := scratchHost(t)

	b.leftNetwork(id, old)
	failing := b.command("up", manyThings(t), "--id", id)
	failing.Env = append(failing.Env, "VERB=exit", "ARGUMENT=3")
	r := finish(t, failing).must(t, 1)
	if left := b.leftOf(id); len(left) > 0 || !strings.Contains(r.stderr, "exited with code 3") {
		t.Errorf("left: %q\n%s", left, r.stderr)
	}

	b.leftNetwork(id, old)
	up := b.up(dir, id)
	b.exec(up.container(t, "default"), images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")
	if got := b.docker("network", "ls", "-q", "--filter", "name="+old); got != "" {
		t.Errorf("the old network is still there: %s", got)
	}
	b.ctis("down", id, "--volumes", "--timeout", "0s").must(t, 0)

	b.leftNetwork(id, old)
	holder := b.id("holder")
	t.Cleanup(func() { b.docker("rm", "-f", holder) })
	b.docker("run", "-d", "--name", holder, "--network", old, image(t, images.Agent()), "wait")
	r = b.ctis("up", dir, "--id", id).must(t, 3)
	for _, want := range []string{holder, old, "docker network disconnect"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("does not say %q:\n%s", want, r.stderr)
		}
	}
	if got := b.docker("ps", "-aq", "--filter", "label=com.docker.compose.project="+id); got != "" {
		t.Errorf("containers were made: %s", got)
	}
}

// TestOfAProjectThatIsPartlyThereWhatAFailedUpAddsGoes: the container that was there
// stays, the one that was made on top does not.
func TestOfAProjectThatIsPartlyThereWhatAFailedUpAddsGoes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("partly")
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default: {image: %[1]s, command: [wait], networks: [external]}
  other: {image: %[1]s, command: [exit, "3"], networks: [external, n1]}
networks: {external: {}, n1: {}}
`, image(t, images.Agent())),
	})
	t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
	b.ctis("up", dir, "--id", id, "--keep-on-failure").must(t, 1)
	kept := b.docker("inspect", id+"-default-1", "--format", "{{.Id}}")
	b.docker("rm", "-f", id+"-other-1")
	b.docker("network", "rm", id+"_n1")

	r := b.ctis("up", dir, "--id", id).must(t, 1)
	if !strings.Contains(r.stderr, "down "+id) {
		t.Errorf("does not say how to remove the rest:\n%s", r.stderr)
	}
	want := "container " + id + "-default-1\nnetwork " + id + "_external"
	label := "label=com.docker.compose.project=" + id
	got := b.docker("ps", "-a", "--filter", label, "--format", "container {{.Names}}") + "\n" +
		b.docker("network", "ls", "--filter", label, "--format", "network {{.Name}}")
	if got != want || b.docker("inspect", id+"-default-1", "--format", "{{.Id}}") != kept {
		t.Errorf("there is %q, not %q", got, want)
	}
}
