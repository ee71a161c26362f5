package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
)

// keepImages has ctis gc leave every image alone: on this engine others are at work.
const keepImages = "--grace=87600h"

// gcJSON is what the tests read of `ctis gc --json`.
type gcJSON struct {
	Images []struct{ Tag, Action string }
	Things []struct {
		Trajectory, Kind, Name, Action, Reason string
	} `json:"trajectories"`
	Reclaimed int64 `json:"reclaimed_bytes"`
}

// of lists what became of a trajectory's things, as "KIND: ACTION", sorted.
func (g gcJSON) of(id string) []string {
	var all []string
	for _, t := range g.Things {
		if t.Trajectory == id {
			all = append(all, t.Kind+": "+t.Action)
		}
	}
	slices.Sort(all)
	return all
}

func (b *bed) gc(args ...string) gcJSON {
	b.t.Helper()
	r := b.ctis(append([]string{"gc", keepImages, "--json"}, args...)...).must(b.t, 0)
	var g gcJSON
	if err := json.Unmarshal([]byte(r.stdout), &g); err != nil {
		b.t.Fatalf("%v in %s", err, r.stdout)
	}
	for _, i := range g.Images {
		if i.Action != "kept" {
			b.t.Errorf("image %s is %s", i.Tag, i.Action)
		}
	}
	return g
}

// TestOnlyWhatDeadTrajectoriesLeftIsReaped: of three trajectories one lost its
// containers behind ctis' back, one lives, and one is just being brought up.
func TestOnlyWhatDeadTrajectoriesLeftIsReaped(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dead, alive, coming := b.id("dead"), b.id("alive"), b.id("coming")
	dir := scratchHost(t)
	// An up whose service is never healthy holds its id until it is ended.
	b.t.Cleanup(func() { b.ctis("down", coming, "--volumes", "--timeout", "0s") })
	agent := b.up(dir, dead).container(t, "default")
	b.exec(agent, images.Program, "fetch", "https://filebin.net/")
	living := b.up(dir, alive).container(t, "default")
	b.exec(living, images.Program, "fetch", "https://filebin.net/")

	never := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": "services:\n  default:\n    image: " + image(t, images.Agent()) + "\n    command: [wait]\n    networks: [external]\n" +
			"    healthcheck: { test: [CMD, " + images.Program + ", nonsense], interval: 1s, retries: 1000 }\nnetworks:\n  external: {}\n",
	})
	up := b.command("up", never, "--id", coming, "--keep-on-failure")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	containers := func(id string) []string {
		return lines(b.docker("ps", "-aq", "--filter", "label=com.docker.compose.project="+id))
	}
	eventually(t, "it is being brought up", func() bool {
		return strings.Contains(b.ctis("status", "--json").stdout, `"trajectory":"`+coming+`"`)
	})
	b.docker("rm", "-f", containers(dead)[0])
	if left := containers(dead); len(left) > 0 {
		t.Fatalf("containers left: %q", left)
	}

	wantDead := []string{"attachment: removed", "journal: kept", "network: removed", "registration: removed"}
	dry := b.gc("--dry-run")
	if got, want := dry.of(dead), []string{"attachment: would_remove", "journal: kept", "network: would_remove", "registration: would_remove"}; !slices.Equal(got, want) {
		t.Errorf("a dry run tells of the dead one %q", got)
	}
	if b.docker("network", "inspect", dead+"_external", "--format", "{{.Name}}") != dead+"_external" {
		t.Error("a dry run removed the network")
	}
	g := b.gc()
	if got := g.of(dead); !slices.Equal(got, wantDead) {
		t.Errorf("of the dead one: %q", got)
	}
	if left := b.leftOf(dead); len(left) > 0 {
		t.Errorf("left of it: %q", left)
	}
	for _, id := range []string{alive, coming} {
		if got := g.of(id); !slices.Contains(got, "trajectory: kept") || slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, "removed") }) {
			t.Errorf("of %s: %q", id, got)
		}
	}
	if !slices.ContainsFunc(g.Things, func(t struct{ Trajectory, Kind, Name, Action, Reason string }) bool {
		return t.Trajectory == coming && t.Reason == "another ctis is working on it"
	}) {
		t.Errorf("the one that is held: %+v", g.Things)
	}
	b.exec(living, images.Program, "fetch", "https://filebin.net/")
	if n := len(b.journal(dead)); n != 1 {
		t.Errorf("the journal of the dead one has %d records", n)
	}

	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = up.Wait() // it says that it was interrupted

	// Journals go when they are old enough and their trajectory is over.
	if got := b.gc("--older-than", "1h").of(dead); !slices.Equal(got, []string{"journal: kept"}) {
		t.Errorf("younger than an hour: %q", got)
	}
	time.Sleep(10 * time.Millisecond) // what is older than nothing was written before now
	g = b.gc("--older-than", "0s")
	if got := g.of(dead); !slices.Equal(got, []string{"journal: removed"}) || g.Reclaimed == 0 {
		t.Errorf("older than nothing: %q, %d bytes", got, g.Reclaimed)
	}
	b.ctis("logs", dead).must(t, 1)
	if n := len(b.journal(alive)); n != 2 {
		t.Errorf("the journal of the living one has %d records", n)
	}
}
