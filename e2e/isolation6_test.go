package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/server/api"
)

// sixNetwork is an environment whose network has IPv6, in subnets of its own.
func sixNetwork(t *testing.T, image string, v4, v6 netip.Prefix) string {
	t.Helper()
	return environment(t, map[string]string{
		"ctis.toml": `network = "external"
[personas."filebin.net"]
endpoints = ["webhook", "data"]
`,
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: [sleep, infinity]
    init: true
    networks: [external]
    cap_add: [NET_ADMIN, NET_RAW]
networks:
  external:
    enable_ipv6: true
    driver_opts: %s
    ipam:
      config: [{subnet: %s}, {subnet: %s}]
`, image, unprotected, v4, v6),
	})
}

// advertise sends router advertisements that put a prefix on the sender's link.
const advertise = `import socket, struct, sys, time
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex("eth0"))
prefix, length = sys.argv[1].split("/")
ra = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 0, 0, 0)
info = struct.pack("!BBBBIII", 3, 4, int(length), 0x80, 3600, 3600, 0) + socket.inet_pton(socket.AF_INET6, prefix)
for _ in range(3):
    s.sendto(ra + info, ("ff02::1", 0, 0, socket.if_nametoindex("eth0")))
    time.sleep(0.3)`

// TestAForgedAddressOfAnotherTrajectoryIsRefusedOverIPv6: an agent that bends the
// simulator's way back to itself has both addresses of a connection inside
// another's network, and is still in its own. Twice: as the simulator is created,
// and restarted, when an older engine makes its settings only after its interfaces.
func TestAForgedAddressOfAnotherTrajectoryIsRefusedOverIPv6(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := debian(t)
	attacker, victim := b.id("attacker"), b.id("victim")
	n := 16 + len(b.instance)%8
	upA := b.up(sixNetwork(t, ref, netip.MustParsePrefix(fmt.Sprintf("10.216.%d.0/24", n)), netip.MustParsePrefix(fmt.Sprintf("fd00:216:%d::/64", n))), attacker)
	upV := b.up(sixNetwork(t, ref, netip.MustParsePrefix(fmt.Sprintf("10.217.%d.0/24", n)), netip.MustParsePrefix(fmt.Sprintf("fd00:217:%d::/64", n))), victim)
	agent, agentV := upA.container(t, "default"), upV.container(t, "default")
	simulator := b.instance + "-simulator"
	six := func(id string) string {
		return b.docker("inspect", simulator, "--format", fmt.Sprintf("{{(index .NetworkSettings.Networks %q).GlobalIPv6Address}}", id+"_external"))
	}
	forged := fmt.Sprintf("fd00:217:%d:0:dead::5", n)
	ask := func(container, address string, more ...string) string {
		return b.docker(append([]string{"exec", container, "curl", "-sS", "--max-time", "4", "-w", "status=%{http_code}",
			"--resolve", "filebin.net:80:[" + address + "]", "http://filebin.net/webhook", "-d", "x"}, more...)...)
	}
	look := func(script string) string {
		return b.docker("run", "--rm", "--network", "container:"+simulator, ref, "sh", "-c", script)
	}
	if got := look("for i in /proc/sys/net/ipv6/conf/*; do [ $(cat $i/disable_ipv6) = 1 ] || echo $(cat $i/accept_ra $i/accept_redirects $i/autoconf); done | sort -u"); !strings.Contains(got, "0 0 0") {
		t.Errorf("settings of the simulator's interfaces: %s", got)
	}
	b.exec(agent, "ip", "-6", "addr", "add", forged+"/128", "dev", "eth0", "nodad")
	attack := func(when string, before int) {
		local := strings.TrimSpace(b.exec(agent, "sh", "-c", fmt.Sprintf(
			"ping -6 -c1 -W2 %[1]s >/dev/null 2>&1; python3 -c 'import socket; s=socket.socket(socket.AF_INET6); s.settimeout(3); s.connect((\"%[1]s\", 80))'; ip -6 neigh show %[1]s", six(attacker))))
		fields := strings.Fields(local)
		if len(fields) < 5 {
			t.Fatalf("%s: no neighbour: %q", when, local)
		}
		// The way to the victim's address: the simulator's own card, by its link address.
		mac := fields[4]
		b.exec(agent, "python3", "-c", advertise, fmt.Sprintf("fd00:217:%d:0:dead::/80", n))
		b.exec(agent, "sh", "-c", fmt.Sprintf("ip -6 route replace %[1]s/128 dev eth0 src %[2]s; ip -6 neigh replace %[1]s lladdr %[3]s dev eth0 nud permanent", six(victim), forged, mac))
		b.docker("exec", agent, "ip", "-6", "addr", "change", forged+"/128", "dev", "eth0", "nodad")
		if out := ask(agent, six(victim), "--interface", forged); !strings.Contains(out, "status=000") {
			t.Errorf("%s: answered: %s", when, out)
		}
		if out := ask(agentV, six(victim)); !strings.Contains(out, "status=200") {
			t.Errorf("%s: the victim itself is not served: %s", when, out)
		}
		if out := ask(agent, six(attacker)); !strings.Contains(out, "status=200") {
			t.Errorf("%s: the attacker's own network is not served: %s", when, out)
		}
		for _, r := range b.journal(victim) {
			if r.Kind != api.KindWebhook || r.Client.IP == forged {
				t.Errorf("%s: in the victim's journal: %+v", when, r)
			}
		}
		if records := b.journal(victim); len(records) != before+1 {
			t.Errorf("%s: the victim's journal has %d records, not %d", when, len(records), before+1)
		}
		t.Logf("%s: the attacker's journal: %d refused", when, len(b.journal(attacker, "--kind", api.KindRefused)))
	}
	attack("as created", 0)
	b.docker("restart", "-t", "5", simulator)
	eventually(t, "the simulator answers again", func() bool { return b.ctis("status", "--json").code == 0 })
	// Current engines make the settings first there too: no connection comes to be.
	listens := strings.Contains(look("cat /proc/sys/net/ipv6/conf/eth*/accept_ra"), "1")
	attack("restarted", 1)
	refused := b.journal(attacker, "--kind", api.KindRefused)
	if listens && len(refused) == 0 {
		t.Error("the attacker's journal says nothing of what it tried")
	}
	for _, r := range refused {
		if r.Client.IP != forged {
			t.Errorf("refused: %+v", r)
		}
	}
}

// TestAProcessOfTheHostIsNobody: what runs in the network of the engine's host
// reaches every bridge, by its gateway's address.
func TestAProcessOfTheHostIsNobody(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := image(t, images.Agent())
	id := b.id("host")
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: [wait]
    networks: [external]
  monitor:
    image: %s
    command: [sleep, infinity]
    network_mode: host
networks:
  external: {}
`, ref, debian(t)),
	})
	up := b.up(dir, id)
	monitor := b.docker("ps", "-q", "--filter", "label=com.docker.compose.project="+id, "--filter", "label=com.docker.compose.service=monitor")
	out := b.docker("exec", monitor, "curl", "-sS", "--max-time", "5", "-w", "status=%{http_code}",
		"--resolve", "filebin.net:80:"+up.Simulator.Address, "http://filebin.net/webhook", "-d", "from the host")
	if !strings.Contains(out, "status=000") {
		t.Errorf("the host is answered: %s", out)
	}
	if records := b.journal(id); len(records) != 0 {
		t.Errorf("the trajectory's journal: %+v", records)
	}
	b.exec(up.container(t, "default"), images.Program, "fetch", "-d", "x", "http://filebin.net/webhook")
	if records := b.journal(id); len(records) != 1 {
		t.Errorf("the trajectory's journal: %+v", records)
	}
}
