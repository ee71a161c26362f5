package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/server/api"
)

// origins is an image of the program in e2e/origin.
func origins(t *testing.T) string {
	t.Helper()
	return image(t, images.ScratchSpec{Name: "origin", Package: "github.com/linuxarena/ctis/e2e/origin"})
}

// newExposedBed is a bed on which the sidecar's nginx is Debian's.
func newExposedBed(t *testing.T) (b *bed, nginx string) {
	b = newBed(t)
	nginx = debian(t)
	b.env = append(b.env, "CTIS_NGINX_IMAGE="+nginx)
	return b, nginx
}

// silenceTime is how long an event stream says nothing. nginx gives up after a minute
// unless it is told otherwise.
func silenceTime(t *testing.T) time.Duration {
	t.Helper()
	d := 65 * time.Second
	if s := os.Getenv("CTIS_E2E_SILENCE"); s != "" {
		var err error
		if d, err = time.ParseDuration(s); err != nil || d < time.Second {
			t.Fatalf("CTIS_E2E_SILENCE=%q is no duration of a second or more", s)
		}
	}
	return d
}

// asked is what an origin says of a request.
type asked struct {
	Origin, Method, Host, Target, Peer, For, Proto string
	ForwardedHost                                  string `json:"forwarded_host"`
}

// curl runs curl in a container and returns what it wrote, whatever came of it.
func (b *bed) curl(container string, args ...string) string {
	out, _ := exec.Command("docker", append([]string{"exec", container, "curl", "-sS", "--max-time", "100"}, args...)...).CombinedOutput()
	return string(out)
}

// echoProgram speaks a line over a connection that switched protocols, over TLS with
// the container's own trust or without.
const echoProgram = `
import socket, ssl, sys
host, port = sys.argv[1], int(sys.argv[2])
s = socket.create_connection((host, port), 20)
if port == 443:
    s = ssl.create_default_context().wrap_socket(s, server_hostname=host)
s.sendall(b"GET /echo HTTP/1.1\r\nHost: " + host.encode() + b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
f = s.makefile("rb")
print(f.readline().decode().strip())
while f.readline().strip():
    pass
for i in range(3):
    s.sendall(b"\x81\x05hello")
    print(f.read(7))
`

func TestExposedServicesAreReachedByTheirPublicNames(t *testing.T) {
	t.Parallel()
	b, nginx := newExposedBed(t)
	dir := environment(t, map[string]string{
		"ctis.toml": `network = "external"
[personas."filebin.net"]
endpoints = ["webhook"]
[exposed_services]
"api.taskflow.co" = "web:3000"
"admin.taskflow.co" = "web:3001"
"deep.taskflow.co" = "deep:80"
"pool.taskflow.co" = "pool:8000"
"late.taskflow.co" = "late:3000"
"absent.taskflow.co" = "absent:80"
`,
		"compose.yaml": fmt.Sprintf(`services:
  default: {image: %[1]q, command: [sleep, infinity], init: true, networks: [external]}
  asker: {image: %[1]q, command: [sleep, infinity], init: true, networks: [external], dns: [192.0.2.1]}
  web: {image: %[2]q, command: [web, ":3000", ":3001"], networks: [external, middle]}
  deep: {image: %[2]q, command: [deep, ":80"], networks: [deep]}
  pool: {image: %[2]q, command: [pool, ":8000"], networks: [middle], scale: 2}
  late: {image: %[2]q, command: [late, ":3000"], networks: [middle]}
  absent: {image: %[2]q, command: [absent, ":80"], networks: [deep], scale: 0}
networks:
  external: {driver: bridge}
  middle: {}
  deep: {internal: true}
`, nginx, origins(t)),
	})
	id := b.id("exposed")
	up := b.up(dir, id)
	if want := map[string]string{"api.taskflow.co": "web:3000", "admin.taskflow.co": "web:3001", "deep.taskflow.co": "deep:80", "pool.taskflow.co": "pool:8000", "late.taskflow.co": "late:3000", "absent.taskflow.co": "absent:80"}; fmt.Sprint(up.ExposedServices) != fmt.Sprint(want) {
		t.Errorf("exposed: %v", up.ExposedServices)
	}
	agent, edge := up.container(t, "default"), up.container(t, "edge")

	// The longest thing first, beside the rest.
	var wait sync.WaitGroup
	wait.Go(func() {
		begun, silence := time.Now(), silenceTime(t)
		got := b.curl(agent, "--max-time", fmt.Sprint(silence.Seconds()+60), "-N", "https://api.taskflow.co/silence?for="+silence.String())
		if got != "data: first\n\ndata: second\n\n" || time.Since(begun) < silence {
			t.Errorf("after %s: %q", time.Since(begun), got)
		}
	})
	defer wait.Wait()

	forged := []string{"-H", "X-Forwarded-For: 192.0.2.66", "-H", "X_Forwarded_For: 192.0.2.66", "-H", "X-Forwarded-Host: forged.example", "-H", "Connection: X-Forwarded-For"}
	for host, c := range map[string]struct{ origin, network string }{
		"api.taskflow.co": {"web", "external"}, "admin.taskflow.co": {"web", "external"}, "deep.taskflow.co": {"deep", "deep"}, "pool.taskflow.co": {"pool", "middle"},
	} {
		for _, scheme := range []string{"http", "https"} {
			var got asked
			url := scheme + "://" + host + "/a%2Fb//c?x=%20&y"
			if err := json.Unmarshal([]byte(b.curl(agent, append(forged, "--path-as-is", url)...)), &got); err != nil || got.Origin != c.origin || got.Method != "GET" || got.Host != host ||
				got.Target != "/a%2Fb//c?x=%20&y" || got.Proto != scheme || got.For != up.address(t, "default", "external") || got.ForwardedHost != host ||
				!strings.HasPrefix(got.Peer, up.address(t, "edge", c.network)+":") {
				t.Errorf("%s: %+v, %v", url, got, err)
			}
		}
	}
	if got := b.curl(up.container(t, "asker"), "http://api.taskflow.co/"); !strings.Contains(got, `"origin":"web"`) {
		t.Errorf("from a service with dns of its own: %q", got)
	}

	// Bodies, headers and protocols go through as they are.
	size := largeUpload(t)
	zeros := fmt.Sprintf("head -c %d /dev/zero", size)
	sum := strings.Fields(b.exec(agent, "sh", "-c", zeros+" | sha256sum"))[0]
	if got := b.exec(agent, "sh", "-c", zeros+" | curl -sS --max-time 300 -T - https://api.taskflow.co/upload"); got != fmt.Sprintf(`{"size":%d,"sha256":%q}`, size, sum) {
		t.Errorf("upload of %d bytes: %q, want %s", size, got, sum)
	}
	if got := b.exec(agent, "sh", "-c", fmt.Sprintf("curl -sS --max-time 300 'http://deep.taskflow.co/download?n=%d' | sha256sum", size)); strings.Fields(got)[0] != sum {
		t.Errorf("download of %d bytes: %q, want %s", size, got, sum)
	}
	for port := range map[string]bool{"80": true, "443": true} {
		if got := b.exec(agent, "python3", "-c", echoProgram, "deep.taskflow.co", port); got != "HTTP/1.1 101 Switching Protocols\n"+strings.Repeat("b'\\x81\\x05hello'\n", 3) {
			t.Errorf("port %s: %q", port, got)
		}
	}
	if got := b.exec(agent, "sh", "-c", `curl -sS -D - -H "X-Large: $(head -c 32768 /dev/zero | tr '\0' x)" https://api.taskflow.co/header`); !strings.HasSuffix(got, "\r\n\r\n32768") || len(got) < 32768 {
		t.Errorf("a field of 32 KB: %d bytes, %.300q", len(got), got)
	}
	for _, code := range []string{"404", "502", "504", "302"} {
		got := b.curl(agent, "-D", "-", "http://api.taskflow.co/status/"+code)
		for _, want := range []string{"HTTP/1.1 " + code, "Server: origin/1", "X-Accel-Redirect: /elsewhere", "Location: http://internal:3000/next", "status " + code + " of my own"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", code, want, got)
			}
		}
	}
	if got := b.curl(agent, "-o", "/dev/null", "-w", "%{http_code}", "https://absent.taskflow.co/"); got != "502" {
		t.Errorf("a target that never was there: %q", got)
	}
	for _, probe := range [][]string{{"-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: nobody.example", "http://api.taskflow.co/"}, {"-o", "/dev/null", "-w", "%{http_code}", "--connect-to", "nobody.example:443:api.taskflow.co:443", "https://nobody.example/"}} {
		if got := b.curl(agent, probe...); got != "404" && !strings.Contains(got, "unrecognized name") {
			t.Errorf("another hostname: %q", got)
		}
	}

	b.checkSidecarIsShut(edge)
	b.checkNothingButTheTarget(up, agent)
	b.checkExposedJournal(id, agent, up, dir)
	wait.Wait()

	// Also what ended last, and after the end.
	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	found := map[string]int{}
	for _, r := range b.journal(id, "--kind", "exposed") {
		if r.Request != nil {
			found[r.Exposed.Target+strings.SplitN(r.Request.Target, "?", 2)[0]]++
		}
	}
	for _, want := range []string{"web:3000/upload", "deep:80/download", "web:3000/silence", "deep:80/echo"} {
		if found[want] == 0 {
			t.Errorf("no %s in the journal after down: %v", want, found)
		}
	}
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// address is a service's on a network.
func (u upJSON) address(t *testing.T, service, network string) string {
	t.Helper()
	for _, s := range u.Services {
		if s.Service == service {
			return s.Addresses[network]
		}
	}
	t.Fatalf("no service %q in %+v", service, u.Services)
	return ""
}

// checkSidecarIsShut holds the sidecar to having nothing that it does not need.
func (b *bed) checkSidecarIsShut(edge string) {
	b.t.Helper()
	const what = "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{len .HostConfig.PortBindings}} {{index .HostConfig.LogConfig.Config \"max-size\"}} {{.HostConfig.Binds}}"
	if got := b.docker("inspect", edge, "--format", what); got != "65532:65532 true [ALL] [no-new-privileges:true] 0 10m []" {
		b.t.Errorf("sidecar: %s", got)
	}
	if got := b.exec(edge, "sh", "-c", "grep CapEff /proc/1/status; cat /proc/sys/net/ipv4/ip_forward; touch /etc/edge/x /x 2>&1; true"); !strings.HasPrefix(got, "CapEff:\t0000000000000000\n0\n") || strings.Count(got, "cannot touch") != 2 {
		b.t.Errorf("sidecar: %q", got)
	}
}

// checkNothingButTheTarget has a target stop, and others take its place.
func (b *bed) checkNothingButTheTarget(up upJSON, agent string) {
	b.t.Helper()
	late, network := up.container(b.t, "late"), up.Trajectory+"_middle"
	alias := ""
	for _, a := range strings.Fields(b.docker("inspect", late, "--format", "{{range (index .NetworkSettings.Networks \""+network+"\").Aliases}}{{.}} {{end}}")) {
		if strings.HasPrefix(a, "x") && len(a) == 25 {
			alias = a
		}
	}
	address := up.address(b.t, "late", "middle")
	status := func() string {
		return b.curl(agent, "-o", "/dev/null", "-w", "%{http_code} %header{x-origin}", "http://late.taskflow.co/")
	}
	if got := status(); got != "200 late" || alias == "" {
		b.t.Fatalf("before: %q, alias %q", got, alias)
	}
	// Asked without a pause from here on, by whatever way.
	asking, stop := b.watch(agent, "http://late.taskflow.co/")
	b.docker("stop", "-t", "0", late)
	eventually(b.t, "the target is gone for the sidecar", func() bool {
		return status() == "502 " && strings.Contains(b.lastUpstream(up.container(b.t, "edge")), `"upstream":""`)
	})
	// As many as there are dynamic addresses: none of them gets that of the target.
	var decoys []string
	for i := range 6 {
		name := fmt.Sprintf("%s-decoy-%d", up.Trajectory, i)
		b.decoy(name, network)
		decoys = append(decoys, name)
		if got := b.docker("inspect", name, "--format", "{{(index .NetworkSettings.Networks \""+network+"\").IPAddress}}"); got == address {
			b.t.Errorf("%s got the target's address %s", name, got)
		}
	}
	decoys = append(decoys, up.Trajectory+"-thief", up.Trajectory+"-namesake")
	b.decoy(up.Trajectory+"-thief", network, "--ip", address)
	b.decoy(up.Trajectory+"-namesake", network, "--network-alias", "late")
	if got := status(); got != "502 " {
		b.t.Errorf("with a decoy at its address: %q", got)
	}
	if page := b.curl(agent, "http://late.taskflow.co/"); strings.Contains(page, "late") || strings.Contains(page, alias) || !strings.Contains(page, "502 Bad Gateway") {
		b.t.Errorf("the page of an absent target: %q", page)
	}
	elsewhere := netip.MustParseAddr(address)
	for range 4 {
		elsewhere = elsewhere.Next()
	}
	b.docker("network", "disconnect", network, late)
	if out := b.docker("network", "connect", "--ip", elsewhere.String(), "--alias", alias, network, late); out != "" {
		b.t.Fatal(out)
	}
	if out := b.docker("start", late); out != late {
		b.t.Fatal(out)
	}
	eventually(b.t, "the target is followed to its new address", func() bool { return status() == "200 late" })
	stop()
	for answer, n := range asking() {
		if answer != "200 late" && answer != "502 " {
			b.t.Errorf("%d answers were %q", n, answer)
		}
	}
	for _, name := range decoys {
		b.docker("rm", "-f", "-v", name)
	}
}

// decoy runs a container on a network that is not the target.
func (b *bed) decoy(name, network string, args ...string) {
	b.t.Helper()
	b.t.Cleanup(func() { b.docker("rm", "-f", "-v", name) })
	argv := append([]string{"run", "-d", "--name", name, "--network", network}, args...)
	out, err := exec.Command("docker", append(argv, origins(b.t), "decoy", ":3000")...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %s", name, out)
	}
}

// lastUpstream is the last line of a sidecar's log.
func (b *bed) lastUpstream(edge string) string { return b.docker("logs", "--tail", "1", edge) }

// watch asks for a URL until it is stopped, and counts what came.
func (b *bed) watch(agent, url string) (counts func() map[string]int, stop func()) {
	cmd := exec.Command("docker", "exec", agent, "sh", "-c", `while [ ! -e /tmp/stop ]; do curl -sS -m 10 -o /dev/null -w '%{http_code} %header{x-origin}\n' "$0"; done`, url)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			b.docker("exec", agent, "touch", "/tmp/stop")
			_ = cmd.Wait() // its output is what counts
		})
	}
	b.t.Cleanup(stop)
	return func() map[string]int {
		stop()
		n := map[string]int{}
		for _, l := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
			n[l]++
		}
		return n
	}, stop
}

// checkExposedJournal holds the journal against requests with known content, and has
// many processes read one log at once.
func (b *bed) checkExposedJournal(id, agent string, up upJSON, dir string) {
	b.t.Helper()
	b.curl(agent, "-X", "PURGE", "-d", "twelve bytes", "https://admin.taskflow.co/marked?q=%22x%22")
	b.exec(agent, "python3", "-c", `
import socket
s = socket.create_connection(("api.taskflow.co", 80))
s.sendall(b"GET /bytes\xff\"\\" + b"u" * 40000 + b" HTTP/1.1\r\nHost: api.taskflow.co\r\nConnection: close\r\n\r\n")
while s.recv(4096): pass
`)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { b.ctis("logs", id, "--json", "--limit", "1").must(b.t, 0) })
	}
	readers.Wait()
	seen, marked := map[string]bool{}, 0
	for _, r := range b.journal(id) {
		switch {
		case r.Kind == api.KindGap:
			b.t.Errorf("a gap: %+v", r)
		case r.Kind != api.KindExposed:
			continue
		case seen[r.Exposed.RequestID]:
			b.t.Errorf("twice: %+v", r)
		}
		seen[r.Exposed.RequestID] = true
		switch q := r.Request; {
		case q == nil:
			b.t.Errorf("no request: %+v", r)
		case q.Method == "PURGE":
			marked++
			if r.Persona != "admin.taskflow.co" || q.Host != "admin.taskflow.co" || q.Target != "/marked?q=%22x%22" || q.Body.Size != 12 || r.Response == nil || r.Response.Status != 200 ||
				r.Response.Body.Size == 0 || r.TLS == nil || r.TLS.SNI != "admin.taskflow.co" || r.TLS.Version != "1.3" || r.Client.Service != "default" || r.Client.IP != up.address(b.t, "default", "external") ||
				r.Exposed.Target != "web:3001" || r.Exposed.Upstream != up.address(b.t, "web", "external")+":3001" || r.Exposed.Received < 12 || r.Exposed.Sent == 0 || time.Since(r.Time.Time).Abs() > 10*time.Minute {
				b.t.Errorf("%+v, request %+v, response %+v, exposed %+v", r, q, r.Response, r.Exposed)
			}
		case strings.HasPrefix(q.Target, "/bytes"):
			marked++
			if q.Target != "/bytesÿ\"\\"+strings.Repeat("u", 40000) || q.Charset != api.CharsetLatin1 {
				b.t.Errorf("%.40q… of %d, charset %q", q.Target, len(q.Target), q.Charset)
			}
		}
	}
	if marked != 2 {
		b.t.Errorf("%d of 2 marked requests are in the journal", marked)
	}
	if got := b.ctis("logs", id, "--kind", "exposed").must(b.t, 0).stdout; !strings.Contains(got, "https://admin.taskflow.co/marked?q=%22x%22") {
		b.t.Errorf("ctis logs: %s", got)
	}
	var status struct {
		Trajectories []struct {
			Trajectory string
			Requests   int
			Exposed    map[string]string `json:"exposed_services"`
			Drift      []any
		}
	}
	if err := json.Unmarshal([]byte(b.ctis("status", "--json").must(b.t, 0).stdout), &status); err != nil || len(status.Trajectories) != 1 ||
		status.Trajectories[0].Requests < len(seen) || status.Trajectories[0].Exposed["deep.taskflow.co"] != "deep:80" || len(status.Trajectories[0].Drift) != 0 {
		b.t.Errorf("%+v, %v; %d requests were seen", status, err, len(seen))
	}
	before := b.docker("inspect", up.container(b.t, "edge"), "--format", "{{.Id}} {{.State.StartedAt}}")
	if again := b.up(dir, id); len(again.ExposedServices) != 6 || b.docker("inspect", up.container(b.t, "edge"), "--format", "{{.Id}} {{.State.StartedAt}}") != before {
		b.t.Error("ctis up again changed the sidecar")
	}
}

func TestTwoTrajectoriesExposeOneHostnameEach(t *testing.T) {
	t.Parallel()
	b, nginx := newExposedBed(t)
	label := strings.Repeat("a", 63)
	var many strings.Builder
	name := func(i int) string {
		return fmt.Sprintf("h%03d.%s.%s.%s.%s.example", i, label, label, label, label[:48])
	}
	for i := range 499 {
		fmt.Fprintf(&many, "%q = \"web:%d\"\n", name(i), 3000+i%2)
	}
	if n := len(name(0)); n != 253 {
		t.Fatalf("names have %d characters", n)
	}
	// The second has as many, and as long, names as there may be.
	ids, dirs, agents := []string{b.id("one"), b.id("two")}, []string{}, []string{}
	for i, more := range []string{"", many.String()} {
		dir := environment(t, map[string]string{
			"ctis.toml": "network = \"external\"\n[exposed_services]\n\"api.taskflow.co\" = \"web:3000\"\n" + more,
			"compose.yaml": fmt.Sprintf(`services:
  default: {image: %[1]q, command: [sleep, infinity], init: true, networks: [external]}
  edge: {image: %[1]q, command: [sleep, infinity], init: true, networks: [external]}
  web: {image: %[2]q, command: [%[3]q, ":3000", ":3001"], networks: [inner]}
networks: {external: {driver: bridge, enable_ipv6: %[4]t}, inner: {}}
`, nginx, origins(t), fmt.Sprint("web-", i), i == 0),
		})
		up := b.up(dir, ids[i])
		dirs = append(dirs, dir)
		agents = append(agents, up.container(t, "default"))
		b.exec(up.container(t, "edge-2"), "nginx", "-e", "stderr", "-t", "-c", "/etc/edge/nginx.conf")
	}
	const each = 50
	var wait sync.WaitGroup
	for i, agent := range agents {
		wait.Go(func() {
			got := b.exec(agent, "sh", "-c", fmt.Sprintf("for i in $(seq %d); do curl -sS -o /dev/null -w '%%header{x-origin}\\n' https://api.taskflow.co/?n=$i; done", each))
			if want := strings.Repeat(fmt.Sprintf("web-%d\n", i), each); got != want {
				t.Errorf("trajectory %d: %q", i, got)
			}
		})
	}
	wait.Wait()
	if got := b.curl(agents[1], "-w", " %header{x-origin}", "-o", "/dev/null", "https://"+name(498)+"/"); got != " web-1" {
		t.Errorf("the last of 500 hostnames: %q", got)
	}
	if got := b.curl(agents[0], "-6", "-w", " %header{x-origin}", "-o", "/dev/null", "https://api.taskflow.co/?n=6"); got != " web-0" {
		t.Errorf("by IPv6: %q", got)
	}
	for i, id := range ids {
		n := i // the first was asked once more
		for _, r := range b.journal(id, "--kind", "exposed", "--host", "api.taskflow.co") {
			if r.Trajectory != id || r.Exposed.Target != "web:3000" {
				t.Errorf("%+v", r)
			}
			n++
		}
		if n != each+1 {
			t.Errorf("trajectory %d: %d of %d requests are in the journal", i, n-i, each+1-i)
		}
	}

	// Somebody removes the sidecar, with what nobody had read.
	b.curl(agents[0], "http://api.taskflow.co/unread")
	b.docker("rm", "-f", "-v", ids[0]+"-edge-2-1")
	if got := b.ctis("status").must(t, 0); !strings.Contains(got.stderr, "the sidecar of the exposed services is gone") {
		t.Errorf("status: %s", got.stderr)
	}
	if r := b.ctis("repair", ids[0]); r.code != 1 || !strings.Contains(r.stderr, "ctis up") {
		t.Errorf("repair: %d %s", r.code, r.stderr)
	}
	// And puts a target on its network by hand, where nobody finds it then.
	web := ids[0] + "-web-1"
	b.up(dirs[0], ids[0])
	if got := b.ctis("status").must(t, 0); strings.Contains(got.stderr, "sidecar") {
		t.Errorf("status: %s", got.stderr)
	}
	b.docker("network", "disconnect", ids[0]+"_inner", web)
	b.docker("network", "connect", ids[0]+"_inner", web)
	if got := b.ctis("status").must(t, 0); !strings.Contains(got.stderr, "without a way to container \""+web) {
		t.Errorf("status: %s", got.stderr)
	}
	up := b.up(dirs[0], ids[0])
	b.curl(agents[0], "https://api.taskflow.co/back")

	// It is no longer what this ctis would make: then it is made anew, and nothing it
	// logged is lost.
	conf := t.TempDir() + "/nginx.conf"
	b.docker("cp", up.container(t, "edge-2")+":/etc/edge/nginx.conf", conf)
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, append(text, "# of another version\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	b.docker("cp", conf, up.container(t, "edge-2")+":/etc/edge/nginx.conf")
	r := b.ctis("up", dirs[0], "--id", ids[0]).must(t, 0)
	if !strings.Contains(r.stderr, "its configuration is another one now") {
		t.Errorf("up: %s", r.stderr)
	}
	if got := b.curl(agents[0], "-o", "/dev/null", "-w", "%header{x-origin}", "https://api.taskflow.co/anew"); got != "web-0" {
		t.Errorf("of the sidecar that was made anew: %q", got)
	}
	var told []string
	for _, r := range b.journal(ids[0]) {
		switch {
		case r.Kind == api.KindGap:
			told = append(told, r.Error)
		case r.Request != nil && !strings.HasPrefix(r.Request.Target, "/?n="):
			told = append(told, r.Request.Target)
		}
	}
	if len(told) != 3 || !strings.Contains(told[0], "removed before they were read") || told[1] != "/back" || told[2] != "/anew" {
		t.Errorf("told is %q", told)
	}
}

func TestAMissingNginxImageIsTold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.env = append(b.env, "CTIS_NGINX_IMAGE=127.0.0.1:1/nginx:none")
	agent := image(t, images.Agent())
	dir := environment(t, map[string]string{
		"ctis.toml":    "network = \"external\"\n[exposed_services]\n\"api.taskflow.co\" = \"default:3000\"\n",
		"compose.yaml": fmt.Sprintf("services:\n  default: {image: %q, command: [wait], networks: [external]}\nnetworks: {external: {}}\n", agent),
	})
	id := b.id("missing")
	r := b.ctis("up", dir, "--id", id).must(t, 1)
	for _, want := range []string{strconv.Quote("127.0.0.1:1/nginx:none"), "CTIS_NGINX_IMAGE", "docker load"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %s in %s", want, r.stderr)
		}
	}
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
