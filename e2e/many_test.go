package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/server/api"
)

// TestManyUpAtOnceFromNothingShareOneSimulator: six processes start with no
// simulator there; one makes it, all succeed, each works, nothing is left.
func TestManyUpAtOnceFromNothingShareOneSimulator(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := scratchHost(t)
	const n = 6
	runs := make([]run, n)
	var group sync.WaitGroup
	for i := range n {
		id := b.id(fmt.Sprint("n", i))
		t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
		cmd := b.command("up", dir, "--id", id, "--json")
		group.Go(func() { runs[i] = finish(t, cmd) })
	}
	group.Wait()
	containers := map[string]bool{}
	fresh := 0
	for i, r := range runs {
		r.must(t, 0)
		var up upJSON
		if err := json.Unmarshal([]byte(r.stdout), &up); err != nil {
			t.Fatal(err)
		}
		containers[up.Simulator.Container] = true
		if !up.Simulator.Reused {
			fresh++
		}
		b.exec(up.container(t, "default"), images.Program, "fetch", "-d", fmt.Sprint(i), "https://filebin.net/webhook")
	}
	if len(containers) != 1 || fresh != 1 {
		t.Errorf("%d simulators, made by %d of the processes", len(containers), fresh)
	}
	ids := make([]string, n)
	for i := range n {
		ids[i] = b.id(fmt.Sprint("n", i))
		if records := b.journal(ids[i]); len(records) != 1 || records[0].Request.Body.Content != fmt.Sprint(i) {
			t.Errorf("journal of %s: %+v", ids[i], records)
		}
	}
	b.ctis(append([]string{"down", "--timeout", "0s"}, ids...)...).must(t, 0)
	for _, id := range ids {
		if left := b.leftOf(id); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// TestTwoUpOfOneIDAtOnceEndWithOneTrajectory: whoever loses never takes down what
// the other made.
func TestTwoUpOfOneIDAtOnceEndWithOneTrajectory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := scratchHost(t)
	b.up(dir, b.id("first")) // the simulator is there
	id := b.id("same")
	t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
	runs := make([]run, 2)
	var group sync.WaitGroup
	for i := range runs {
		cmd := b.command("up", dir, "--id", id, "--json")
		group.Go(func() { runs[i] = finish(t, cmd) })
	}
	group.Wait()
	ok := 0
	for _, r := range runs {
		if r.code == 0 {
			ok++
		} else if r.code != 3 {
			t.Errorf("the loser ends with %d:\n%s", r.code, r.stderr)
		}
	}
	if ok == 0 {
		t.Fatalf("neither succeeded:\n%s\n%s", runs[0].stderr, runs[1].stderr)
	}
	again := b.up(dir, id)
	b.exec(again.container(t, "default"), images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")
	if containers := lines(b.docker("ps", "-aq", "--filter", "label=com.docker.compose.project="+id)); len(containers) != 1 {
		t.Errorf("%d containers", len(containers))
	}
}

// TestFollowShowsARecordAsItIsWritten watches a trajectory while it acts.
func TestFollowShowsARecordAsItIsWritten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("follow")
	up := b.up(scratchHost(t), id)
	agent := up.container(t, "default")
	b.exec(agent, images.Program, "fetch", "-d", "before", "https://filebin.net/webhook")
	cmd := b.command("logs", id, "--follow", "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // where it has not ended by itself
		_ = cmd.Wait()
	}()
	sc := bufio.NewScanner(out)
	next := func() (r api.Record) {
		t.Helper()
		if !sc.Scan() {
			t.Fatalf("following ended: %v", sc.Err())
		}
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := next(); r.Request.Body.Content != "before" {
		t.Errorf("first: %+v", r)
	}
	b.exec(agent, images.Program, "fetch", "-d", "while", "https://filebin.net/webhook")
	r := next()
	if r.Request.Body.Content != "while" || r.Seq != 2 {
		t.Errorf("second: %+v", r)
	}
	if late := time.Since(r.Time.Time); late > 5*time.Second {
		t.Errorf("seen %v after it was received", late)
	}
}

// TestAnInternalNetworkHasPersonasAndNothingElse: on a network without a way out
// the persona's name leads to the simulator, and a name nobody plays to nothing.
func TestAnInternalNetworkHasPersonasAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("inside")
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"closed\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: [sleep, infinity]
    init: true
    networks: [closed]
networks:
  closed: {internal: true}
`, debian(t)),
	})
	up := b.up(dir, id)
	agent := up.container(t, "default")
	if got := b.exec(agent, "getent", "hosts", "filebin.net"); !strings.HasPrefix(got, up.Simulator.Address+" ") {
		t.Errorf("the persona resolves to %q, not to %s", got, up.Simulator.Address)
	}
	b.exec(agent, "curl", "-sS", "-f", "https://filebin.net/webhook")
	if out := b.docker("exec", agent, "sh", "-c", "getent hosts never-registered.example.com; echo status=$?"); !strings.HasSuffix(out, "status=2") {
		t.Errorf("a name nobody plays resolves: %s", out)
	}
}

// TestANetworkWithIPv6IsServedOverBothFamilies: a request is attributed to the
// same trajectory and service however it came.
func TestANetworkWithIPv6IsServedOverBothFamilies(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("six")
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: [sleep, infinity]
    init: true
    networks: [external]
networks:
  external:
    enable_ipv6: true
    ipam:
      config:
        - {subnet: 10.213.77.0/24}
        - {subnet: "fd5c:213:77::/64"}
`, debian(t)),
	})
	up := b.up(dir, id)
	agent := up.container(t, "default")
	b.exec(agent, "curl", "-4", "-sS", "-f", "https://filebin.net/webhook")
	b.exec(agent, "curl", "-6", "-sS", "-f", "https://filebin.net/webhook")
	for _, r := range b.journal(id) {
		if r.Kind != api.KindWebhook || r.Client.Service != "default" {
			t.Errorf("record: %+v", r)
		}
	}
}
