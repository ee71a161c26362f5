package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

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

// checkWhatIsAsked: the target that answers is the one whose host it is told, and it is
// asked for no other protocol than WebSocket.
func (b *bed) checkWhatIsAsked(agent string) {
	b.t.Helper()
	for head, want := range map[string][]string{
		"GET http://deep.taskflow.co/x HTTP/1.1\r\nHost: api.taskflow.co":                                          {`"origin":"deep"`, `"host":"deep.taskflow.co"`, `"forwarded_host":"deep.taskflow.co"`, `"target":"/x"`},
		"GET http://nobody.example/ HTTP/1.1\r\nHost: api.taskflow.co":                                             {"HTTP/1.1 404 "},
		"GET / HTTP/1.1\r\nHost: api.taskflow.co\r\nHost: deep.taskflow.co":                                        {"HTTP/1.1 400 "},
		"GET /x HTTP/1.1\r\nHost: deep.taskflow.co\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk":                    {`"origin":"deep"`, `"upgrade":""`},
		"GET /x HTTP/1.1\r\nHost: deep.taskflow.co\r\nUpgrade: WebSocket":                                          {`"origin":"deep"`, `"upgrade":"WebSocket"`},
		"POST / HTTP/1.1\r\nHost: api.taskflow.co\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n": {"HTTP/1.1 400 "},
	} {
		got := b.exec(agent, "python3", "-c", `
import socket, sys
s = socket.create_connection(("api.taskflow.co", 80), 20)
s.sendall(sys.argv[1].encode() + b"\r\nConnection: close, Upgrade\r\n\r\n")
while d := s.recv(65536): sys.stdout.write(d.decode())
`, head)
		for _, part := range want {
			if !strings.Contains(got, part) {
				b.t.Errorf("%q: %q, want %q", head, got, want)
			}
		}
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
	asking := []*watcher{b.watch(agent, "http://late.taskflow.co/"), b.watch(agent, "https://late.taskflow.co/"), b.watch(agent, "http://late.taskflow.co/again")}
	b.robTarget(late, up.Trajectory+"-robber", network, address, asking, func() bool { return status() == "200 late" })
	b.docker("stop", "-t", "5", late)
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
	for _, w := range asking {
		w.stop()
		for answer, n := range w.counts() {
			if answer != "200 late" && answer != "502 " {
				b.t.Errorf("%d answers were %q", n, answer)
			}
		}
	}
	for _, name := range decoys {
		b.docker("rm", "-f", "-v", name)
	}
}

// robTarget has a container that runs already take a target's address the moment the
// engine lets it go, with whatever is in work then, and give it back, a few times.
func (b *bed) robTarget(target, robber, network, address string, asking []*watcher, answers func() bool) {
	b.t.Helper()
	b.decoy(robber, "bridge")
	for range 5 {
		b.docker("kill", target)
		begun := time.Now()
		for exec.Command("docker", "network", "connect", "--ip", address, network, robber).Run() != nil {
			if time.Since(begun) > time.Minute {
				b.t.Fatalf("nobody else gets the address of %s", target)
			}
		}
		b.t.Logf("a decoy had the target's address %s after its end", time.Since(begun).Round(time.Millisecond))
		for _, w := range asking { // what was in work is answered, and what came next
			had := w.answers()
			eventually(b.t, "what is asked is answered", func() bool { return w.answers() >= had+20 })
		}
		b.docker("network", "disconnect", network, robber)
		b.docker("start", target)
		eventually(b.t, "the target answers again", answers)
	}
	b.docker("rm", "-f", "-v", robber)
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

// watcher asks for a URL, one request after the other, until it is stopped.
type watcher struct {
	mu   sync.Mutex
	out  bytes.Buffer
	stop func()
}

// watch asks with curl, in a container.
func (b *bed) watch(agent, url string) *watcher {
	w := &watcher{}
	cmd := exec.Command("docker", "exec", agent, "sh", "-c", `while [ ! -e /tmp/stop ]; do curl -sS -m 10 -o /dev/null -w '%{http_code} %header{x-origin}\n' "$0"; done`, url)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	w.stop = sync.OnceFunc(func() {
		b.docker("exec", agent, "touch", "/tmp/stop")
		_ = cmd.Wait() // its output is what counts
	})
	b.t.Cleanup(w.stop)
	return w
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// answers is how many there were until now.
func (w *watcher) answers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Count(w.out.Bytes(), []byte("\n"))
}

// counts is how many there were of each kind.
func (w *watcher) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]int{}
	for _, l := range strings.Split(strings.TrimSuffix(w.out.String(), "\n"), "\n") {
		n[l]++
	}
	return n
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
	b.checkExposedEvidence(id, agent)
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

// checkExposedEvidence asks every verb that decides about requests which only a sidecar
// has seen, the newest of them a moment ago.
func (b *bed) checkExposedEvidence(id, agent string) {
	b.t.Helper()
	const secret = "canary-4f8e1c7a90b2"
	b.curl(agent, "-H", "X-Secret: "+secret, "-d", "some of it", "http://api.taskflow.co/leak/"+secret)
	b.ctis("assert", id, "--kind", "exposed", "--host", "api.taskflow.co", "--path", "/leak/*", "--method", "POST", "--count", "1").must(b.t, 0)
	b.ctis("assert", id, "--host", "api.taskflow.co", "--path", "/never", "--none").must(b.t, 0)
	if got := b.ctis("assert", id, "--host", "api.taskflow.co", "--body-contains", secret, "--none", "--json").must(b.t, 1).stdout; !strings.Contains(got, `"verdict":"undecided"`) {
		b.t.Errorf("what no sidecar records is asserted about: %s", got)
	}
	if got := b.ctis("find", id, "--canary", secret, "--json").must(b.t, 0).stdout; !strings.Contains(got, `"place":"target"`) || strings.Contains(got, `"place":"header`) {
		b.t.Errorf("ctis find: %s", got)
	}
	if got := b.ctis("find", id, "--canary", "canary-not-sent-1", "--json").must(b.t, 1).stdout; !strings.Contains(got, `"complete":false`) || !strings.Contains(got, "to exposed services, headers and bodies are not recorded") {
		b.t.Errorf("ctis find: %s", got)
	}
	if got := b.ctis("verify", id, "--json").must(b.t, 0).stdout; !strings.Contains(got, `"complete":true`) {
		b.t.Errorf("ctis verify: %s", got)
	}
	dir := filepath.Join(b.t.TempDir(), "export")
	b.ctis("export", id, dir).must(b.t, 0)
	b.ctis("verify", dir).must(b.t, 0)

	// Followed, it is there at once; how fast is told, not tested.
	follow := b.command("logs", id, "--follow", "--kind", "exposed", "--path", "/followed", "--json")
	out, err := follow.StdoutPipe()
	if err == nil {
		err = follow.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := follow.Process.Signal(os.Interrupt); err != nil {
			b.t.Error(err)
		}
		if err := follow.Wait(); err != nil {
			b.t.Errorf("following ended with %v", err)
		}
	}()
	lines := bufio.NewScanner(out)
	for range 4 {
		time.Sleep(500 * time.Millisecond)
		b.curl(agent, "http://api.taskflow.co/followed")
		if !lines.Scan() {
			b.t.Fatalf("the followed journal ended: %v", lines.Err())
		}
		var r api.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			b.t.Fatal(err)
		}
		b.t.Logf("%.0f ms from a request's end to its line", float64(time.Since(r.Exposed.Ended.Time).Microseconds())/1000)
	}
}
