package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/linuxarena/ctis/e2e/images"
)

// lab is an environment whose default service is on "external", with more of a
// Compose file: keys of the service, indented by four, and keys of the top level.
func lab(t *testing.T, service, top string) string {
	t.Helper()
	ref := image(t, images.Agent())
	if !strings.Contains(top, "networks:") {
		top = "networks:\n  external: {}\n" + top
	}
	return environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf("services:\n  default:\n    image: %s\n    command: [wait]\n    networks: [external]\n%s%s",
			ref, service, strings.ReplaceAll(top, "IMAGE", ref)),
	})
}

// number is one that no other scenario of this engine has at the moment, or hardly.
func (b *bed) number() int {
	n := 0
	for _, c := range b.instance {
		n = (n*31 + int(c)) % 60000
	}
	return n
}

// conflict is what `ctis up --json` says of one.
type conflict struct {
	Error struct {
		Code, Message, Hint string
		Details             struct {
			Kind, Name, Key, File string
			Line, Column          int
			Holders               []string
		}
	} `json:"error"`
}

func (b *bed) conflict(r run) conflict {
	b.t.Helper()
	var c conflict
	if err := json.Unmarshal([]byte(r.must(b.t, 3).stdout), &c); err != nil || c.Error.Code != "conflict" {
		b.t.Fatalf("%v in %s", err, r.stdout)
	}
	return c
}

// TestWhatOneTrajectoryHasASecondIsRefused: with the line and the holder, before
// anything is made, also by a simulator that was started again; and given to it
// once the first is down.
func TestWhatOneTrajectoryHasASecondIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	n := b.number()
	name := b.id("thing")
	b.docker("network", "create", name+"-ext")
	b.docker("volume", "create", name+"-ext")
	ref := image(t, images.Agent())
	b.docker("run", "-d", "--name", name+"-ext", ref, "wait")
	t.Cleanup(func() {
		b.docker("rm", "-f", name+"-ext")
		b.docker("network", "rm", name+"-ext")
		b.docker("volume", "rm", name+"-ext")
	})
	for _, c := range []struct {
		name, service, top string
		kind, key          string
		line               int
	}{
		{"subnet", "", fmt.Sprintf("networks:\n  external:\n    ipam:\n      config:\n        - subnet: 10.%d.%d.0/24\n", 100+n%100, n/256), "subnet", "external", 10},
		{"subnet-ipv6", "", fmt.Sprintf("networks:\n  external:\n    enable_ipv6: true\n    ipam:\n      config:\n        - subnet: 10.%d.%d.0/24\n        - subnet: fd5c:%x::/64\n", 100+n%100, n/256, n), "subnet", "external", 11},
		{"network-name", "", "networks:\n  external:\n    name: " + name + "-n\n", "network", "external", 8},
		{"volume-name", "    volumes: [data:/data]\n", "volumes:\n  data:\n    name: " + name + "-v\n", "volume", "data", 11},
		{"external-network", "", "networks:\n  external:\n    external: true\n    name: " + name + "-ext\n", "network", "external", 8},
		{"external-volume", "    volumes: [data:/data]\n", "volumes:\n  data:\n    external: true\n    name: " + name + "-ext\n", "volume", "data", 11},
		{"bridge", "", fmt.Sprintf("networks:\n  external:\n    driver_opts:\n      com.docker.network.bridge.name: br-ct%d\n", n), "bridge", "external", 9},
		{"container", "", "  near:\n    image: IMAGE\n    command: [wait]\n    network_mode: container:" + name + "-ext\nnetworks:\n  external: {}\n", "container", "near", 9},
		{"host", "", "  near:\n    image: IMAGE\n    command: [wait]\n    network_mode: host\nnetworks:\n  external: {}\n", "host", "near", 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := lab(t, c.service, c.top)
			first, second := b.id(c.name+"-1"), b.id(c.name+"-2")
			up := b.up(dir, first)
			t.Cleanup(func() { b.ctis("down", second, "--volumes", "--timeout", "0s") })
			refused := func() {
				t.Helper()
				said := b.conflict(b.ctis("up", dir, "--id", second, "--json")).Error
				if d := said.Details; d.Kind != c.kind || d.Key != c.key || d.Line != c.line || len(d.Holders) != 1 || d.Holders[0] != first {
					t.Errorf("%+v", said)
				}
				if !strings.Contains(said.Message, fmt.Sprintf("compose.yml:%d:", c.line)) || !strings.Contains(said.Message, fmt.Sprintf("which trajectory %q has; only one", first)) ||
					said.Hint != "ctis down "+first+" releases it" {
					t.Errorf("says %q, hints %q", said.Message, said.Hint)
				}
				if left := b.leftOf(second); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			}
			refused()
			if c.kind == "volume" {
				b.docker("restart", "--time", "5", b.instance+"-simulator")
				refused()
			}
			b.exec(up.container(t, "default"), images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")
			b.ctis("down", first, "--volumes", "--timeout", "0s").must(t, 0)
			next := b.up(dir, second)
			b.exec(next.container(t, "default"), images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")
			b.ctis("down", second, "--volumes", "--timeout", "0s").must(t, 0)
		})
	}
	for _, kind := range []string{"network", "volume", "container"} {
		if _, err := exec.Command("docker", kind, "inspect", name+"-ext").CombinedOutput(); err != nil {
			t.Errorf("the external %s is gone", kind)
		}
	}
}

// TestOfTwoAtOnceOneGetsIt: started at the same moment with other ids, one comes up
// and the other says which.
func TestOfTwoAtOnceOneGetsIt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.up(scratchHost(t), b.id("keeper")) // the simulator is there
	dir := lab(t, "    volumes: [data:/data]\n", "volumes:\n  data:\n    name: "+b.id("v")+"\n")
	for round := range 3 {
		ids := []string{b.id(fmt.Sprint("a", round)), b.id(fmt.Sprint("b", round))}
		runs := atOnce(t, b, dir, ids, b)
		winner := 0
		if runs[0].code != 0 {
			winner = 1
		}
		runs[winner].must(t, 0)
		said := b.conflict(runs[1-winner]).Error
		if d := said.Details; len(d.Holders) != 1 || d.Holders[0] != ids[winner] || d.Kind != "volume" {
			t.Errorf("%+v", said)
		}
		if left := b.leftOf(ids[1-winner]); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		b.ctis("down", ids[winner], "--volumes", "--timeout", "0s").must(t, 0)
	}
}

// atOnce runs an up of each id at the same moment, the second in another bed.
func atOnce(t *testing.T, b *bed, dir string, ids []string, other *bed) []run {
	t.Helper()
	runs := make([]run, 2)
	var group sync.WaitGroup
	for i, bed := range []*bed{b, other} {
		t.Cleanup(func() { bed.ctis("down", ids[i], "--volumes", "--timeout", "0s") })
		cmd := bed.command("up", dir, "--id", ids[i], "--json")
		group.Go(func() { runs[i] = finish(t, cmd) })
	}
	group.Wait()
	return runs
}

// TestAnotherInstanceOnTheEngineIsSeen: its simulator knows nothing of this one's
// trajectories, the engine does. Two at once never both come up.
func TestAnotherInstanceOnTheEngineIsSeen(t *testing.T) {
	t.Parallel()
	b, other := newBed(t), newBed(t)
	b.up(scratchHost(t), b.id("keeper"))
	other.up(scratchHost(t), other.id("keeper"))
	b.docker("network", "create", b.id("ext"))
	t.Cleanup(func() { b.docker("network", "rm", b.id("ext")) })
	for kind, dir := range map[string]string{
		"volume":   lab(t, "    volumes: [data:/data]\n", "volumes:\n  data:\n    name: "+b.id("v")+"\n"),
		"network":  lab(t, "", "networks:\n  external:\n    name: "+b.id("n")+"\n"),
		"external": lab(t, "", "networks:\n  external:\n    external: true\n    name: "+b.id("ext")+"\n"),
	} {
		first, second := b.id(kind+"-1"), other.id(kind+"-2")
		b.up(dir, first)
		if said := b.conflict(other.ctis("up", dir, "--id", second, "--json")).Error; said.Details.Holders[0] != first ||
			kind != "volume" && said.Hint != "ctis --instance "+b.instance+" down "+first+" releases it" {
			t.Errorf("%s: %+v", kind, said)
		}
		b.ctis("down", first, "--volumes", "--timeout", "0s").must(t, 0)
		for round := range 2 {
			ids := []string{b.id(fmt.Sprint(kind, "-a", round)), other.id(fmt.Sprint(kind, "-b", round))}
			up := 0
			for i, r := range atOnce(t, b, dir, ids, other) {
				if bed := []*bed{b, other}[i]; r.code == 0 {
					up++
					bed.ctis("down", ids[i], "--volumes", "--timeout", "0s").must(t, 0)
				} else if r.code != 3 && (r.code != 1 || !strings.Contains(r.stderr, "exists 2 times")) {
					t.Errorf("%s: the loser ends with %d:\n%s", kind, r.code, r.stderr)
				} else if left := bed.leftOf(ids[i]); len(left) > 0 {
					t.Errorf("%s: left: %q", kind, left)
				}
			}
			if up > 1 {
				t.Fatalf("%s: both came up", kind)
			}
		}
	}
}

// TestAKilledUpHoldsNothingForEver: what it made is named with the way to remove it.
func TestAKilledUpHoldsNothingForEver(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.up(scratchHost(t), b.id("keeper"))
	dir := lab(t, "    volumes: [data:/data]\n", "volumes:\n  data:\n    name: "+b.id("v")+"\n")
	for _, step := range progress[1:] {
		id, next := b.id("killed"), b.id("next")
		t.Cleanup(func() { b.ctis("down", id, next, "--volumes", "--timeout", "0s") })
		cmd := b.command("up", dir, "--id", id)
		errs, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		for sc := bufio.NewScanner(errs); sc.Scan(); {
			if strings.HasPrefix(sc.Text(), "✔ "+step) {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
		b.ctis("down", id, "--volumes", "--timeout", "0s").must(t, 0)
		b.up(dir, next)
		if step == progress[len(progress)-1] {
			if said := b.conflict(b.ctis("up", dir, "--id", id, "--json")).Error; said.Details.Holders[0] != next {
				t.Errorf("%+v", said)
			}
		}
		b.ctis("down", next, "--volumes", "--timeout", "0s").must(t, 0)
	}
}

// TestAVolumeThatAnEarlierTrajectoryLeftGoesToNoOther: only to one of the same id.
func TestAVolumeThatAnEarlierTrajectoryLeftGoesToNoOther(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	volume := b.id("v")
	t.Cleanup(func() { b.docker("volume", "rm", volume) })
	dir := lab(t, "    volumes: [data:/data]\n", "volumes:\n  data:\n    name: "+volume+"\n")
	first, second := b.id("first"), b.id("second")
	b.up(dir, first)
	b.ctis("down", first, "--timeout", "0s").must(t, 0)
	t.Cleanup(func() { b.ctis("down", second, "--volumes", "--timeout", "0s") })
	said := b.conflict(b.ctis("up", dir, "--id", second, "--json")).Error
	if !strings.Contains(said.Message, fmt.Sprintf("which %q has or left behind", first)) || !strings.Contains(said.Hint, "docker volume rm "+volume) ||
		!strings.Contains(said.Hint, "ctis down "+first+" --volumes") {
		t.Errorf("%+v", said)
	}
	if left := b.leftOf(second); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	b.up(dir, first) // its own
	b.ctis("down", first, "--volumes", "--timeout", "0s").must(t, 0)
	b.up(dir, second)
	b.ctis("down", second, "--volumes", "--timeout", "0s").must(t, 0)
	b.docker("volume", "create", volume)
	if said := b.conflict(b.ctis("up", dir, "--id", first, "--json")).Error; !strings.Contains(said.Message, "no Compose project's") {
		t.Errorf("a volume that nobody labelled: %+v", said)
	}
}

// TestWhatIsExternalMustBeThereAndOthersOnItAreNamed.
func TestWhatIsExternalMustBeThereAndOthersOnItAreNamed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	name := b.id("ext")
	for kind, dir := range map[string]string{
		"network": lab(t, "", "networks:\n  external:\n    external: true\n    name: "+name+"\n"),
		"volume":  lab(t, "    volumes: [data:/data]\n", "volumes:\n  data:\n    external: true\n    name: "+name+"\n"),
	} {
		id := b.id(kind)
		r := b.ctis("up", dir, "--id", id).must(t, 1)
		if !strings.Contains(r.stderr, "which does not exist") || !strings.Contains(r.stderr, "docker "+kind+" create "+name+" makes it") {
			t.Errorf("says\n%s", r.stderr)
		}
		if left := b.leftOf(id); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		b.docker(kind, "create", name)
		t.Cleanup(func() { b.docker(kind, "rm", name) })
		mount := map[string][]string{"network": {"--network", name}, "volume": {"-v", name + ":/x"}}[kind]
		stranger := b.id("stranger-" + kind)
		b.docker(append(append([]string{"run", "-d", "--name", stranger}, mount...), image(t, images.Agent()), "wait")...)
		t.Cleanup(func() { b.docker("rm", "-f", stranger) })
		t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
		r = b.ctis("up", dir, "--id", id).must(t, 0)
		if n := strings.Count(r.stderr, `is external and not the trajectory's alone: container "`+stranger+`"`); n != 1 {
			t.Errorf("named %d times:\n%s", n, r.stderr)
		}
	}
}
