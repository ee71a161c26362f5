package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/server/api"
)

// unprotected are a network's options. Engines from 28 on drop packets that come to
// a container by way of another network; here they are asked not to, because ctis
// must keep trajectories apart without their help. Older ones never did, and do not
// know the options.
const unprotected = `{com.docker.network.bridge.gateway_mode_ipv4: nat-unprotected, com.docker.network.bridge.gateway_mode_ipv6: nat-unprotected}`

// hostile is a Compose file of an agent's container that runs an image, does nothing
// by itself, and may do to its network what it likes.
func hostile(image string) string {
	return fmt.Sprintf(`services:
  default:
    image: %s
    command: [sleep, infinity]
    init: true
    networks: [external]
    cap_add: [NET_ADMIN, NET_RAW]
networks:
  external:
    driver_opts: %s
`, image, unprotected)
}

// oneHost is an environment with one persona whose server header is given, in
// which the agent's container runs an image and does nothing.
func oneHost(t *testing.T, image, header string) string {
	t.Helper()
	return environment(t, map[string]string{
		"ctis.toml": fmt.Sprintf(`network = "external"
[personas."filebin.net"]
server_header = %q
endpoints = ["webhook", "data", "assets", "public"]
`, header),
		"compose.yml": hostile(image),
	})
}

// TestTwoTrajectoriesWithOneHostnameSeeOnlyTheirOwn: one simulator, one
// hostname, two sets of settings; files, journals and headers stay apart, and
// every tool in the containers verifies the certificate with the system's trust.
func TestTwoTrajectoriesWithOneHostnameSeeOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := debian(t)
	red, blue := b.id("red"), b.id("blue")
	upRed := b.up(oneHost(t, ref, "RedServer/1.0"), red)
	upBlue := b.up(oneHost(t, ref, "BlueServer/2.0"), blue)
	if upRed.Simulator.Container != upBlue.Simulator.Container || !upBlue.Simulator.Reused {
		t.Errorf("not one simulator: %+v and %+v", upRed.Simulator, upBlue.Simulator)
	}
	for id, c := range map[string]struct{ container, header string }{
		red:  {upRed.container(t, "default"), "RedServer/1.0"},
		blue: {upBlue.container(t, "default"), "BlueServer/2.0"},
	} {
		for _, user := range []string{"root", "nobody"} {
			head := b.exec(c.container, "su", "-s", "/bin/sh", user, "-c", "curl -sS -D - -o /dev/null https://filebin.net/")
			if !strings.Contains(head, "200") || !strings.Contains(head, c.header) {
				t.Errorf("%s, as %s:\n%s", id, user, head)
			}
		}
		// docker exec has the variables ctis set; su cleared none of the system's bundles either.
		b.exec(c.container, "env", "-i", "curl", "-sS", "-o", "/dev/null", "https://filebin.net/")
		got := b.exec(c.container, "python3", "-c", `import ssl, urllib.request as u
print(u.urlopen("https://filebin.net/", context=ssl.create_default_context()).headers["Server"])`)
		if strings.TrimSpace(got) != c.header {
			t.Errorf("%s: Python's ssl sees %q", id, got)
		}
		b.exec(c.container, "curl", "-sS", "-f", "-T", "/etc/hostname", "https://filebin.net/data/"+id)
		b.exec(c.container, "curl", "-sS", "-f", "-d", "posted by "+id, "https://filebin.net/webhook")
	}
	for _, c := range []struct{ container, own, other string }{
		{upRed.container(t, "default"), red, blue},
		{upBlue.container(t, "default"), blue, red},
	} {
		list := b.exec(c.container, "curl", "-sS", "https://filebin.net/data")
		if !strings.Contains(list, c.own) || strings.Contains(list, c.other) {
			t.Errorf("data of %s: %s", c.own, list)
		}
		if status := b.exec(c.container, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "https://filebin.net/data/"+c.other); status != "404" {
			t.Errorf("%s gets data of %s: %s", c.own, c.other, status)
		}
		records := b.journal(c.own)
		for i, r := range records {
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if r.Trajectory != c.own || r.Client.Service != "default" || r.Seq != uint64(i+1) {
				t.Errorf("record of %s: %s", c.own, text)
			}
			if strings.Contains(string(text), "posted by "+c.other) {
				t.Errorf("the journal of %s has what %s sent: %s", c.own, c.other, text)
			}
		}
		if len(records) != 8 {
			t.Errorf("%s has %d records, not 8", c.own, len(records))
		}
	}
}

// TestARouteToAnotherTrajectoryIsRefusedAndRecordedUnderItsMaker: an agent with
// NET_ADMIN reaches the simulator's address in another network, which must not
// answer, must not enter the other's journal, and must be in its own.
func TestARouteToAnotherTrajectoryIsRefusedAndRecordedUnderItsMaker(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := debian(t)
	attacker, victim := b.id("attacker"), b.id("victim")
	upA := b.up(oneHost(t, ref, "nginx"), attacker)
	upV := b.up(oneHost(t, ref, "nginx"), victim)
	agent := upA.container(t, "default")
	own, err := netip.ParseAddr(upA.Simulator.Address)
	if err != nil {
		t.Fatal(err)
	}
	b.exec(agent, "ip", "route", "add", upV.Simulator.Address+"/32", "via", own.String())
	for _, port := range []string{"80", "443"} {
		out := b.docker("exec", agent, "curl", "-sS", "-k", "--max-time", "5", "--resolve", "filebin.net:"+port+":"+upV.Simulator.Address,
			"-w", "status=%{http_code}", map[string]string{"80": "http", "443": "https"}[port]+"://filebin.net/webhook", "-d", "from outside")
		if !strings.Contains(out, "status=000") {
			t.Errorf("port %s of the other trajectory answers: %s", port, out)
		}
	}
	if records := b.journal(victim); len(records) != 0 {
		t.Errorf("the victim's journal has %d records: %+v", len(records), records)
	}
	var refused int
	for _, r := range b.journal(attacker) {
		if r.Kind == api.KindRefused && r.Client.Service == "default" {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("the attacker's journal has %d refused connections, not 2", refused)
	}

	// A forged source address inside the victim's network: no handshake, no record.
	agentOfVictim := ""
	for _, s := range upV.Services {
		agentOfVictim = s.Addresses["external"]
	}
	b.exec(agent, "ip", "addr", "add", agentOfVictim+"/32", "dev", "lo")
	out := b.docker("exec", agent, "curl", "-sS", "--max-time", "3", "--interface", agentOfVictim,
		"--resolve", "filebin.net:80:"+upV.Simulator.Address, "-w", "status=%{http_code}", "http://filebin.net/webhook", "-d", "forged")
	if !strings.Contains(out, "status=000") {
		t.Errorf("a forged source address is answered: %s", out)
	}
	if records := b.journal(victim); len(records) != 0 {
		t.Errorf("a forged source address is in the victim's journal: %+v", records)
	}
}

// TestNothingAdministrativeIsReachableFromAContainer looks at every port of the
// simulator from an agent's container.
func TestNothingAdministrativeIsReachableFromAContainer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("t")
	up := b.up(oneHost(t, debian(t), "nginx"), id)
	agent := up.container(t, "default")
	open := b.exec(agent, "python3", "-c", `import socket, sys
found = []
for port in range(1, 65536):
    s = socket.socket()
    s.settimeout(2)
    if s.connect_ex((sys.argv[1], port)) == 0:
        found.append(port)
    s.close()
print(found)`, up.Simulator.Address)
	if strings.TrimSpace(open) != "[80, 443]" {
		t.Errorf("open ports: %s", open)
	}
	for _, path := range []string{"/v1/status", "/v1/ca", "/v1/trajectories"} {
		if status := b.exec(agent, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: simulator", "http://"+up.Simulator.Address+path); status != "404" {
			t.Errorf("%s answers %s", path, status)
		}
	}
}

// TestTheServiceThatCallsWhileItBootsFindsItsPersona: created before it is
// started, a service has its certificate authority from its first instruction.
func TestTheServiceThatCallsWhileItBootsFindsItsPersona(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("boot")
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"default\"\n[personas.\"api.example.com\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %[1]s
    command: [wait]
    depends_on:
      boot: {condition: service_completed_successfully}
  boot:
    image: %[1]s
    command: [fetch, -d, booting, "https://api.example.com/webhook"]
`, image(t, images.Agent())),
	})
	b.up(dir, id)
	records := b.journal(id)
	if len(records) != 1 || records[0].Kind != api.KindWebhook || records[0].Client.Service != "boot" || records[0].TLS == nil {
		t.Errorf("records: %+v", records)
	}
}

// TestAReadOnlyServiceTrustsToo: files cannot be put into a read-only root, so
// it has a volume for its bundle of authorities.
func TestAReadOnlyServiceTrustsToo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := image(t, images.Agent())
	id := b.id("sealed")
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: [wait]
    read_only: true
    user: "1000:1000"
    networks: [external]
networks:
  external: {}
`, ref),
	})
	up := b.up(dir, id)
	b.exec(up.container(t, "default"), images.Program, "fetch", "-d", "x", "https://filebin.net/webhook")
	b.ctis("down", id).must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if left := b.docker("volume", "ls", "-q", "--filter", "dangling=true", "--filter", "label=com.docker.compose.project="+id); left != "" {
		t.Errorf("left volumes: %s", left)
	}
}
