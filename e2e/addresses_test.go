package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/server/api"
)

// TestDozensAtOnceOfAnEnvironmentMadeForOne: a dozen processes, or as many as
// CTIS_E2E_MANY says, bring an environment up that has names and host ports of its
// own and three networks, which is more than the engine's default pools hold. Each
// works, each sees only its own, all go down at once and nothing is left.
func TestDozensAtOnceOfAnEnvironmentMadeForOne(t *testing.T) {
	n := 12
	if s := os.Getenv("CTIS_E2E_MANY"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CTIS_E2E_MANY=%q is no number of trajectories", s)
		}
	}
	b := newBed(t)
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %[1]s
    container_name: the-agent
    command: [wait]
    ports: ["18080:80", "127.0.0.1:18443:443"]
    networks: [external, internal]
  db:
    image: %[1]s
    container_name: the-database
    command: [serve, ":5432"]
    ports: ["15432:5432"]
    networks: [internal, default]
networks:
  external: {}
  internal: {internal: true}
`, image(t, images.Agent())),
	})
	ids, runs := make([]string, n), make([]run, n)
	for i := range n {
		ids[i] = b.id(fmt.Sprint("f", i))
	}
	t.Cleanup(func() { b.ctis(append([]string{"down", "--timeout", "0s"}, ids...)...) })
	begun := time.Now()
	var group sync.WaitGroup
	for i, id := range ids {
		cmd := b.command("up", dir, "--id", id, "--json", "--wait-timeout", "15m")
		group.Go(func() { runs[i] = finish(t, cmd) })
	}
	group.Wait()
	t.Logf("%d trajectories with %d networks are up after %v", n, 3*n, time.Since(begun).Round(time.Second))
	for i, r := range runs {
		if r.code != 0 {
			t.Errorf("%s: exit code %d:\n%s", ids[i], r.code, r.stderr)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	subnets := map[string]string{}
	ports := map[string]bool{}
	for i, r := range runs {
		var up upJSON
		if err := json.Unmarshal([]byte(r.stdout), &up); err != nil {
			t.Fatal(err)
		}
		for _, s := range up.Services {
			for _, p := range s.Ports {
				host, _, _ := strings.Cut(p, "->")
				if ports[host] {
					t.Errorf("%s is published twice", host)
				}
				ports[host] = true
			}
		}
		agent := up.container(t, "default")
		b.exec(agent, images.Program, "fetch", "-d", ids[i], "https://filebin.net/webhook")
		// The name that the environment gave its container leads to its own.
		if got := b.exec(agent, images.Program, "fetch", "http://the-database:5432/"); !strings.Contains(got, `"status":200`) {
			t.Errorf("%s: %s", ids[i], got)
		}
	}
	networks := lines(b.docker("network", "ls", "-q", "--filter", "label=io.ctis.instance="+b.instance, "--filter", "label=io.ctis.trajectory"))
	if len(networks) != 3*n {
		t.Errorf("%d networks, not %d", len(networks), 3*n)
	}
	for _, line := range lines(b.docker(append([]string{"network", "inspect", "--format", "{{(index .IPAM.Config 0).Subnet}} {{.Name}}"}, networks...)...)) {
		subnet, name, _ := strings.Cut(line, " ")
		if other := subnets[subnet]; other != "" {
			t.Errorf("%s and %s have the subnet %s", other, name, subnet)
		}
		subnets[subnet] = name
	}
	for _, id := range ids {
		if records := b.journal(id); len(records) != 1 || records[0].Request.Body.Content != id || records[0].Client.Service != "default" {
			t.Errorf("journal of %s: %+v", id, records)
		}
	}
	t.Logf("the simulator: %s", b.docker("stats", "--no-stream", "--format", "{{.MemUsage}}", b.instance+"-simulator"))

	begun = time.Now()
	downs := make([]run, n)
	for i, id := range ids {
		cmd := b.command("down", id, "--timeout", "0s")
		group.Go(func() { downs[i] = finish(t, cmd) })
	}
	group.Wait()
	t.Logf("all are down after %v", time.Since(begun).Round(time.Second))
	for i, id := range ids {
		downs[i].must(t, 0)
		if left := b.leftOf(id); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// addressesOf lists the addresses of a trajectory's containers, both families.
func (b *bed) addressesOf(id string) map[string]string {
	b.t.Helper()
	found := map[string]string{}
	for _, c := range lines(b.docker("ps", "-a", "--filter", "label=com.docker.compose.project="+id, "--format", "{{.Names}}")) {
		found[c] = b.docker("inspect", c, "--format", `{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.GlobalIPv6Address}} {{end}}`)
	}
	return found
}

// TestFixedAddressesSurviveRestartsInAnyOrder: each service that runs one container
// has the address it was given, whatever was stopped and started and in which order,
// on a network of ctis', on one with IPv6 and on one with an ipam of its own.
func TestFixedAddressesSurviveRestartsInAnyOrder(t *testing.T) {
	for name, network := range map[string]string{
		"own":  "{}",
		"six":  "{enable_ipv6: true}",
		"user": fmt.Sprintf("{ipam: {config: [{subnet: 10.214.%d.0/24}]}}", time.Now().UnixNano()/1e3%250),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			id := b.id(name)
			dir := environment(t, map[string]string{
				"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
				"compose.yml": fmt.Sprintf(`services:
  default: {image: %[1]s, command: [wait], networks: [external]}
  api: {image: %[1]s, command: [wait], networks: [external]}
  db: {image: %[1]s, command: [wait], networks: [external]}
  worker: {image: %[1]s, command: [wait], scale: 2, networks: [external]}
networks:
  external: %[2]s
`, image(t, images.Agent()), network),
			})
			b.up(dir, id)
			before := b.addressesOf(id)
			if len(before) != 5 {
				t.Fatalf("containers: %v", before)
			}
			same := func(after string) {
				t.Helper()
				now := b.addressesOf(id)
				for c, want := range before {
					if !strings.Contains(c, "worker") && now[c] != want {
						t.Errorf("after %s, %s has %q, not %q", after, c, now[c], want)
					}
				}
				service := []string{"default", "api", "db"}[len(b.journal(id))%3]
				b.exec(id+"-"+service+"-1", images.Program, "fetch", "-d", after, "https://filebin.net/webhook")
				if records := b.journal(id, "--limit", "1"); len(records) != 1 || records[0].Client.Service != service || records[0].Request.Body.Content != after {
					t.Errorf("after %s: %+v, not from %s", after, records, service)
				}
			}
			same("nothing")
			containers := make([]string, 0, len(before))
			for c := range before {
				containers = append(containers, c)
			}
			slices.Sort(containers)
			b.docker(append([]string{"stop", "-t", "5"}, containers...)...)
			slices.Reverse(containers)
			for _, c := range containers {
				b.docker("start", c)
			}
			same("a start in reversed order")
			for _, c := range containers {
				b.docker("restart", "-t", "5", c)
			}
			same("docker restart")
			b.docker("compose", "-p", id, "restart", "-t", "5")
			same("docker compose restart")
			b.docker("restart", "-t", "5", b.instance+"-simulator")
			eventually(t, "the simulator is healthy", func() bool {
				return b.docker("inspect", b.instance+"-simulator", "--format", "{{.State.Health.Status}}") == "healthy"
			})
			same("a restart of the simulator")
			if r := b.ctis("status", "--json").must(t, 0); name != "user" && !strings.Contains(r.stdout, `"drift":[]`) && !strings.Contains(r.stdout, `"kind":"peer"`) {
				t.Errorf("status: %s", r.stdout)
			}
		})
	}
}

// TestANetworkWithIPv6AndNoSubnetIsGivenOne: engines before 27 have none to give.
func TestANetworkWithIPv6AndNoSubnetIsGivenOne(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default: {image: %s, command: [wait], networks: [external]}
networks:
  external: {enable_ipv6: true}
`, image(t, images.Agent())),
	})
	for _, id := range []string{b.id("one"), b.id("two")} {
		agent := b.up(dir, id).container(t, "default")
		format := fmt.Sprintf(`{{with index .NetworkSettings.Networks %q}}{{.IPAddress}} {{.GlobalIPv6Address}}{{end}}`, id+"_external")
		own := strings.Fields(b.docker("inspect", agent, "--format", format))
		simulator := strings.Fields(b.docker("inspect", b.instance+"-simulator", "--format", format))
		if len(own) != 2 || len(simulator) != 2 || !strings.HasPrefix(own[1], "fd") {
			t.Fatalf("agent %q, simulator %q", own, simulator)
		}
		for i, address := range simulator {
			if i == 1 {
				address = "[" + address + "]"
			}
			got := b.exec(agent, images.Program, "fetch", "-resolve", address+":443", "-d", address, "https://filebin.net/webhook")
			if !strings.Contains(got, `"status":200`) {
				t.Errorf("over %s: %s", address, got)
			}
		}
		records := b.journal(id)
		if len(records) != 2 {
			t.Fatalf("%d records", len(records))
		}
		for i, r := range records {
			if r.Kind != api.KindWebhook || r.Client.Service != "default" || r.Client.IP != own[i] {
				t.Errorf("record: %+v, not from %s", r, own[i])
			}
		}
	}
}

// TestNetworksCopyTheMTUOfTheDefaultBridge, and leave alone what sets its own.
func TestNetworksCopyTheMTUOfTheDefaultBridge(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("mtu")
	b.up(environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n",
		"compose.yml": fmt.Sprintf(`services:
  default: {image: %s, command: [wait], networks: [external, own]}
networks:
  external: {}
  own: {driver_opts: {com.docker.network.driver.mtu: "1280"}}
`, image(t, images.Agent())),
	}), id)
	option := func(network string) string {
		return b.docker("network", "inspect", network, "--format", `{{index .Options "com.docker.network.driver.mtu"}}`)
	}
	want := option("bridge")
	if want == "1500" {
		want = "" // what every network has without being told
	}
	if got := option(id + "_external"); got != want {
		t.Errorf("MTU %q, that of the default bridge is %q", got, want)
	}
	if got := option(id + "_own"); got != "1280" {
		t.Errorf("MTU %q of a network that sets 1280", got)
	}
}

// TestAFullPoolIsExitFiveAndSaysWhoFillsIt: nothing of the failed set-up is left.
func TestAFullPoolIsExitFiveAndSaysWhoFillsIt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default: {image: %s, command: [wait], networks: [external, internal]}
networks:
  external: {}
  internal: {internal: true}
`, image(t, images.Agent())),
	})
	b.up(scratchHost(t), b.id("elsewhere")) // the simulator is there, with its own network
	pool := fmt.Sprintf("10.215.%d.%d/26", time.Now().UnixNano()/1e3%250, 64*(os.Getpid()%4))
	up := func(id string) run {
		cmd := b.command("up", dir, "--id", id, "--json")
		cmd.Env = append(cmd.Env, "CTIS_ADDRESS_POOL="+pool)
		t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
		return finish(t, cmd)
	}
	first, second := b.id("first"), b.id("second")
	up(first).must(t, 0)
	b.docker("stop", "-t", "5", first+"-default-1")
	r := up(second).must(t, 5)
	var said struct {
		Error struct {
			Code, Hint string
			Details    struct {
				Pool              string
				Networks, Stopped int
				Trajectories      []string
			}
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	e := said.Error
	if e.Code != "addresses" || e.Details.Pool != pool || e.Details.Stopped < 2 || e.Details.Networks < 4 || !slices.Contains(e.Details.Trajectories, first) || !strings.Contains(e.Hint, "CTIS_ADDRESS_POOL") {
		t.Errorf("said: %s", r.stdout)
	}
	if left := b.leftOf(second); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	b.ctis("down", first, "--timeout", "0s").must(t, 0)
	up(second).must(t, 0)
}

// TestTwoUpThatChooseOneSubnetBothSucceed: the one that loses the race takes
// another. In so small a pool they meet.
func TestTwoUpThatChooseOneSubnetBothSucceed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := scratchHost(t)
	b.up(dir, b.id("elsewhere"))
	pool := fmt.Sprintf("10.217.%d.0/25", time.Now().UnixNano()/1e3%250) // room for four
	const n = 4
	runs := make([]run, n)
	var group sync.WaitGroup
	for i := range n {
		id := b.id(fmt.Sprint("race", i))
		cmd := b.command("up", dir, "--id", id, "--json")
		cmd.Env = append(cmd.Env, "CTIS_ADDRESS_POOL="+pool)
		t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
		group.Go(func() { runs[i] = finish(t, cmd) })
	}
	group.Wait()
	for _, r := range runs {
		r.must(t, 0)
	}
}

// TestTwoNetworksOfOneNameAreRefusedWithTheirIDs: before engine 25 names are not
// unique, and using either would part the services.
func TestTwoNetworksOfOneNameAreRefusedWithTheirIDs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("twice")
	dir := scratchHost(t)
	b.up(dir, id)
	first := b.docker("network", "inspect", id+"_external", "--format", "{{.Id}}")
	second := b.docker("network", "create", "--label", "com.docker.compose.project="+id, "--label", "com.docker.compose.network=external",
		"--label", "io.ctis.instance="+b.instance, "--label", "io.ctis.trajectory="+id, "--subnet", fmt.Sprintf("10.218.%d.0/24", time.Now().UnixNano()/1e3%250), id+"_external2")
	if len(second) != 64 {
		t.Fatalf("docker network create: %s", second)
	}
	b.docker("network", "disconnect", "-f", first, b.instance+"-simulator")
	b.docker("stop", "-t", "5", id+"-default-1")
	b.docker("rm", id+"-default-1")
	// Of a project without any container both would be removed as left behind.
	if out := b.docker("create", "--name", id+"-alive", "--label", "com.docker.compose.project="+id, "--label", "com.docker.compose.service=default",
		"--label", "com.docker.compose.oneoff=True", image(t, images.Agent()), "wait"); len(out) != 64 {
		t.Fatalf("docker create: %s", out)
	}
	r := b.ctis("up", dir, "--id", id)
	if r.code != 1 || !strings.Contains(r.stderr, first) || !strings.Contains(r.stderr, second) {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// drift is what `ctis status` says of one trajectory.
func (b *bed) drift(id string) (kinds []string) {
	b.t.Helper()
	var said struct {
		Trajectories []struct {
			Trajectory string
			Drift      []struct{ Kind, Container string }
		}
	}
	r := b.ctis("status", "--json").must(b.t, 0)
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil {
		b.t.Fatal(err)
	}
	for _, t := range said.Trajectories {
		if t.Trajectory == id {
			for _, d := range t.Drift {
				kinds = append(kinds, d.Kind)
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestDriftIsShownAndRepaired: what is changed behind ctis' back is seen, and put
// right with ctis repair or ctis up; what is fine is not restarted.
func TestDriftIsShownAndRepaired(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("drift")
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default: {image: %[1]s, command: [wait], networks: [external]}
  api: {image: %[1]s, command: [wait], networks: [external]}
networks:
  external: {}
`, image(t, images.Agent())),
	})
	b.up(dir, id)
	agent, other, simulator, network := id+"-default-1", id+"-api-1", b.instance+"-simulator", id+"_external"
	want := func(kinds ...string) {
		t.Helper()
		if got := b.drift(id); !slices.Equal(got, kinds) {
			t.Fatalf("drift %q, not %q", got, kinds)
		}
	}
	n := 0
	works := func(container, service, scheme string) {
		t.Helper()
		n++
		b.exec(container, images.Program, "fetch", "-d", fmt.Sprint(n), scheme+"://filebin.net/webhook")
		if records := b.journal(id, "--limit", "1"); len(records) != 1 || records[0].Client.Service != service || records[0].Request.Body.Content != fmt.Sprint(n) {
			t.Fatalf("record: %+v", records)
		}
	}
	started := func(container string) string {
		return b.docker("inspect", container, "--format", "{{.Id}} {{.State.StartedAt}}")
	}
	want()

	// The simulator is taken off the network: ctis repair puts it back.
	before := started(agent) + started(other)
	b.docker("network", "disconnect", "-f", network, simulator)
	want("detached")
	if r := b.ctis("status").must(t, 0); !strings.Contains(r.stdout, "drift") || !strings.Contains(r.stderr, "repair "+id) {
		t.Errorf("status says %s %s", r.stdout, r.stderr)
	}
	if r := b.ctis("repair", id).must(t, 0); !strings.Contains(r.stdout, "repaired: the simulator is not on network") {
		t.Errorf("repair says %s", r.stdout)
	}
	want()
	works(agent, "default", "https")
	if r := b.ctis("repair", id).must(t, 0); !strings.Contains(r.stdout, "nothing to do") {
		t.Errorf("repair again says %s", r.stdout)
	}

	// The same without its names and address, and ctis up puts it right.
	b.docker("network", "disconnect", "-f", network, simulator)
	b.docker("network", "connect", network, simulator)
	want("address", "names")
	b.ctis("up", dir, "--id", id).must(t, 0)
	want()
	works(other, "api", "https")
	if started(agent)+started(other) != before {
		t.Error("a repair restarted containers")
	}

	// A container is made anew without ctis: what it sends is told apart again, but
	// it lacks the authority until ctis up makes it anew.
	b.docker("rm", "-f", other)
	if out, err := exec.Command("docker", "run", "-d", "--name", other, "--network", network, "--network-alias", "api",
		"--label", "com.docker.compose.project="+id, "--label", "com.docker.compose.service=api", "--label", "com.docker.compose.oneoff=False",
		"--label", "com.docker.compose.container-number=1", "--label", "com.docker.compose.config-hash=another",
		"--label", "com.docker.compose.project.config_files="+filepath.Join(dir, "compose.yml"), image(t, images.Agent()), "wait").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want("container")
	r := b.ctis("repair", id, "--json").must(t, 1)
	if !strings.Contains(r.stdout, other) || !strings.Contains(r.stdout, "ctis up "+dir+" --id "+id) {
		t.Errorf("repair says %s", r.stdout)
	}
	works(other, "api", "http")
	want("container")
	before = started(agent)
	b.ctis("up", dir, "--id", id).must(t, 0)
	want()
	works(other, "api", "https")
	if started(agent) != before {
		t.Error("up restarted what was fine")
	}

	// Compose alone, without the override, tears the trajectory up and fails in the
	// middle, because the simulator is on its network.
	cmd := exec.Command("docker", "compose", "-p", id, "up", "-d", "--force-recreate")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("docker compose up --force-recreate: %v\n%s", err, out)
	if len(b.drift(id)) == 0 {
		t.Fatal("nothing is seen of docker compose up --force-recreate")
	}
	b.ctis("up", dir, "--id", id).must(t, 0)
	want()
	works(agent, "default", "https")
	works(other, "api", "https")
	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestATrajectoryThatWasMadeAnewWholeIsFollowed: network and containers are others,
// nothing has a label of ctis any more, and still it is the trajectory's.
func TestATrajectoryThatWasMadeAnewWholeIsFollowed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := scratchHost(t)
	for _, id := range []string{b.id("repaired"), b.id("up"), b.id("down")} {
		b.up(dir, id)
		b.docker("rm", "-f", id+"-default-1")
		b.docker("network", "disconnect", "-f", id+"_external", b.instance+"-simulator")
		b.docker("network", "rm", id+"_external")
		cmd := exec.Command("docker", "compose", "-p", id, "up", "-d")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := b.drift(id); !slices.Equal(got, []string{"container", "network"}) && !slices.Equal(got, []string{"network"}) {
			t.Errorf("drift of %s: %q", id, got)
		}
		scheme := "http"
		switch id {
		case b.id("repaired"):
			b.ctis("repair", id).must(t, 1) // it lacks the authority
		case b.id("up"):
			b.ctis("up", dir, "--id", id).must(t, 0)
			scheme = "https"
		default:
			b.ctis("down", id, "--timeout", "0s").must(t, 0)
			if left := b.leftOf(id); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			continue
		}
		b.exec(id+"-default-1", images.Program, "fetch", "-d", "again", scheme+"://filebin.net/webhook")
		if records := b.journal(id); len(records) != 1 || records[0].Client.Service != "default" {
			t.Errorf("journal of %s: %+v", id, records)
		}
		b.ctis("down", id, "--timeout", "0s").must(t, 0)
		if left := b.leftOf(id); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}
