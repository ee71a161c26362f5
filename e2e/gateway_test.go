package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/server/api"
)

const (
	vendor    = "api.vendor.example"
	vendorKey = "sk-canary-9d41c07be2f35a86"
)

// api443 is an API of somebody else's: a certificate, and the authority that signed it,
// which are one.
type api443 struct{ cert, key string }

func newAPI(t *testing.T, host string) api443 {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{host},
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return api443{
		cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		key:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	}
}

// serve runs it on the gateway's way out, where the name leads to it.
func (a api443) serve(b *bed, host string) string {
	b.t.Helper()
	name := b.instance + "-" + strings.ReplaceAll(host, ".", "-")
	out, err := exec.Command("docker", "run", "-d", "--name", name, "--label", "io.ctis.instance="+b.instance, "--network", b.instance+"-egress",
		"--network-alias", host, "-e", "CERT="+a.cert, "-e", "KEY="+a.key, image(b.t, images.Agent()), "upstream").CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
	eventually(b.t, "the upstream listens", func() bool { return strings.Contains(b.docker("logs", name), "listening") })
	return name
}

// proxied is an environment with that upstream and a persona.
func proxied(t *testing.T, a api443, agent, more string) string {
	t.Helper()
	return environment(t, map[string]string{
		"vendor.pem": a.cert,
		"ctis.toml": fmt.Sprintf(`network = "external"
upstream_proxies = [
  { host = %q, api_key_env = "VENDOR_API_KEY", auth_header = "X-Api-Key", ca_file = "vendor.pem"%s },
  "openai",
]
[personas."filebin.net"]
endpoints = ["webhook"]
`, vendor, more),
		"compose.yml": hostile(agent),
	})
}

// withKeys runs ctis with variables of its own.
func (b *bed) withKeys(env []string, args ...string) run {
	b.t.Helper()
	cmd := b.command(args...)
	cmd.Env = append(cmd.Env, env...)
	return finish(b.t, cmd)
}

// lockedBuffer collects what a program writes while a test looks at it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

type echoed struct {
	Proto, Method, Target, Host, Body, Peer string
	Headers                                 map[string][]string
}

// TestAgentsCallRealAPIsWithoutEverHoldingAKey is the whole way: agent, simulator,
// gateway, an API behind it; and the key is found where it belongs and nowhere else.
func TestAgentsCallRealAPIsWithoutEverHoldingAKey(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := debian(t)
	a := newAPI(t, vendor)
	id := b.id("proxied")
	dir := proxied(t, a, ref, "")
	b.t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
	// Without the key the file's own upstream makes the environment invalid.
	if r := b.withKeys([]string{"VENDOR_API_KEY="}, "up", dir, "--id", id).must(t, 2); !strings.Contains(r.stderr, "VENDOR_API_KEY") {
		t.Errorf("%s", r.stderr)
	}
	keys := []string{"VENDOR_API_KEY=" + vendorKey, "OPENAI_API_KEY="}
	up := b.withKeys(keys, "up", dir, "--id", id, "--json").must(t, 0)
	var u upJSON
	if err := json.Unmarshal([]byte(up.stdout), &u); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(u.UpstreamProxies, u.Personas) != "[api.vendor.example api.openai.com] [filebin.net]" {
		t.Errorf("upstream_proxies %v, personas %v", u.UpstreamProxies, u.Personas)
	}
	if !strings.Contains(up.stderr, `"openai"`) || !strings.Contains(up.stderr, "OPENAI_API_KEY") {
		t.Errorf("nobody said which provider lacks a key:\n%s", up.stderr)
	}
	a.serve(b, vendor)
	agent := u.container(t, "default")
	curl := func(args ...string) string {
		t.Helper()
		return b.exec(agent, append([]string{"curl", "-sS", "--max-time", "30"}, args...)...)
	}

	masked := strings.Repeat("*", len(vendorKey))
	for name, args := range map[string][]string{
		"over HTTP/2":         {"--http2"},
		"over HTTP/1":         {"--http1.1"},
		"with a key":          {"-H", "X-Api-Key: mine", "-H", "x-api-key: mine"},
		"with tricks":         {"--http1.1", "-H", "Connection: x-api-key, close", "-H", "X-API-KEY: mine", "-H", "X_Api_Key: mine"},
		"with a proxy's word": {"-H", "X-Forwarded-For: 1.2.3.4", "-H", "Forwarded: for=1.2.3.4"},
	} {
		var got echoed
		out := curl(append(args, "-d", "hello", "https://"+vendor+"/echo?q=%41&r")...)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v in %s", name, err, out)
		}
		if got.Proto != "HTTP/2.0" || got.Method != "POST" || got.Target != "/echo?q=%41&r" || got.Host != vendor || got.Body != "hello" ||
			fmt.Sprint(got.Headers["X-Api-Key"]) != "["+masked+"]" || strings.Contains(out, "mine") || strings.Contains(out, "1.2.3.4") {
			t.Errorf("%s: the upstream got %s", name, out)
		}
	}
	if out := curl("-i", "--http1.1", "https://"+vendor+"/redirect"); !strings.Contains(out, " 307 ") || !strings.Contains(out, "Location: https://elsewhere.example/?key="+masked) {
		t.Errorf("the redirect came as\n%s", out)
	}
	if out := curl("-i", "--http1.1", "https://"+vendor+"/unauthorized"); !strings.Contains(out, " 401 ") || !strings.Contains(out, "key "+masked+" is wrong") {
		t.Errorf("the refusal came as\n%s", out)
	}
	if n := strings.Count(curl("https://"+vendor+"/events?n=10000"), `"key":"`+masked+`"`); n != 10_000 {
		t.Errorf("%d events of 10000", n)
	}
	if out := curl("-o", "/dev/null", "-w", "%{http_code}", "https://api.openai.com/v1/models"); out != "503" {
		t.Errorf("a provider without a key answers %s", out)
	}

	// Up again changes nothing; with a key that was missing it delivers that.
	again := b.withKeys([]string{"VENDOR_API_KEY=" + vendorKey, "OPENAI_API_KEY=sk-canary-openai-0123456789"}, "up", dir, "--id", id).must(t, 0)
	if strings.Contains(again.stderr, "has no key") {
		t.Errorf("%s", again.stderr)
	}
	b.sharing(t, a, ref, id)
	b.noKeyAnywhere(t, id, up.stdout+up.stderr+again.stdout+again.stderr)
	b.gatewayIsOutOfReach(t, agent, id)
	b.streamsSurvive(t, agent)

	// Killed and started again it serves on: what it knows is on its volume.
	b.docker("kill", b.instance+"-gateway")
	if out := b.withKeys(keys, "status", "--json").must(t, 0).stdout; !strings.Contains(out, `"kind":"upstream"`) {
		t.Errorf("a gateway that is gone does not show: %s", out)
	}
	b.ctis("repair", id).must(t, 0)
	if out := curl("-o", "/dev/null", "-w", "%{http_code}", "https://"+vendor+"/echo"); out != "200" {
		t.Errorf("after a repair the upstream answers %s", out)
	}
	var unknown int
	for _, r := range b.journal(id, "--kind", "upstream") {
		if r.Persona != vendor && r.Persona != "api.openai.com" || r.OutcomeUnknown {
			unknown++
		}
	}
	if unknown > 0 {
		t.Errorf("%d records are not as they should be", unknown)
	}
	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	if out := b.ctis("status", "--json").must(t, 0).stdout; strings.Contains(out, "gateway") {
		t.Errorf("a gateway nobody needs is shown: %s", out)
	}
	if out := b.docker("inspect", "-f", "{{.State.Status}}", b.instance+"-gateway"); out != "running" {
		t.Errorf("the gateway is %s, not kept", out)
	}
}

// sharing: a second trajectory shares the upstream if it declares the same, and is told
// who has it if not; a dead holder is no holder.
func (b *bed) sharing(t *testing.T, a api443, ref, holder string) {
	t.Helper()
	second := b.id("second")
	t.Cleanup(func() { b.ctis("down", second, "--volumes", "--timeout", "0s") })
	key := []string{"VENDOR_API_KEY=" + vendorKey}
	other := proxied(t, a, ref, `, auth_prefix = "Key "`)
	r := b.withKeys(key, "up", other, "--id", second).must(t, 3)
	if !strings.Contains(r.stderr, holder) || !strings.Contains(r.stderr, "auth_prefix") || !strings.Contains(r.stderr, vendor) {
		t.Errorf("the conflict names neither holder nor field:\n%s", r.stderr)
	}
	if left := b.leftOf(second); len(left) > 0 {
		t.Errorf("after the conflict are left %q", left)
	}
	// Another value of a key in use is refused, naming the variable and not the value.
	r = b.withKeys([]string{"VENDOR_API_KEY=sk-canary-another-value"}, "up", proxied(t, a, ref, ""), "--id", second).must(t, 3)
	if !strings.Contains(r.stderr, "VENDOR_API_KEY") || !strings.Contains(r.stderr, holder) || strings.Contains(r.stderr, "sk-canary") {
		t.Errorf("%s", r.stderr)
	}
	var u upJSON
	up := b.withKeys(key, "up", proxied(t, a, ref, ""), "--id", second, "--json").must(t, 0)
	if err := json.Unmarshal([]byte(up.stdout), &u); err != nil {
		t.Fatal(err)
	}
	if out := b.exec(u.container(t, "default"), "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "https://"+vendor+"/echo"); out != "200" {
		t.Errorf("the shared upstream answers %s", out)
	}
	b.docker("rm", "-f", u.container(t, "default"))
	third := b.id("third")
	t.Cleanup(func() { b.ctis("down", third, "--volumes", "--timeout", "0s") })
	r = b.withKeys(key, "up", other, "--id", third).must(t, 3)
	if strings.Contains(r.stderr, `trajectory `+second) || !strings.Contains(r.stderr, holder) {
		t.Errorf("a dead trajectory is called a holder:\n%s", r.stderr)
	}
	b.gc()
	if out := b.ctis("status", "--json").must(t, 0).stdout; strings.Contains(out, second) {
		t.Errorf("gc leaves claims of the dead: %s", out)
	}
}

// noKeyAnywhere looks for the key where it must not be, and, to know that it looks
// well, where it must.
func (b *bed) noKeyAnywhere(t *testing.T, id, said string) {
	t.Helper()
	places := map[string]string{
		"what ctis said":        said,
		"status":                b.ctis("status", "--json").stdout,
		"the image's history":   b.docker("history", "--no-trunc", b.docker("inspect", "-f", "{{.Image}}", b.instance+"-gateway")),
		"the gateway's process": b.docker("top", b.instance+"-gateway", "-eo", "pid,args"),
		"all processes":         processes(t),
		"the volumes' labels":   b.docker("volume", "inspect", b.instance+"-gateway", b.instance+"-state"),
	}
	for _, c := range []string{"simulator", "gateway"} {
		places["inspect of the "+c] = b.docker("inspect", b.instance+"-"+c)
		places["logs of the "+c] = b.docker("logs", b.instance+"-"+c)
	}
	out := t.TempDir()
	b.ctis("export", id, filepath.Join(out, "journal"))
	for _, r := range b.journal(id) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		places["record "+strconv.FormatUint(r.Seq, 10)] = string(text)
	}
	for where, text := range places {
		if strings.Contains(text, vendorKey) {
			t.Errorf("the key is in %s", where)
		}
	}
	scan := func(container string) string {
		pid := b.docker("inspect", "-f", "{{.State.Pid}}", b.instance+"-"+container)
		return b.docker("run", "--rm", "--cap-add", "SYS_PTRACE", "--pid=host", image(t, images.Agent()), "scan", pid, vendorKey)
	}
	if got := scan("simulator"); !strings.HasPrefix(got, "0 in ") || strings.HasPrefix(got, "0 in 0 ") {
		t.Errorf("the simulator's memory has the key: %s", got)
	}
	if got := scan("gateway"); strings.HasPrefix(got, "0 in ") || !strings.Contains(got, " in ") {
		t.Errorf("looking for it in the gateway's memory, where it is, gives %q", got)
	}
}

// processes are the command lines and environments of all processes of this machine
// that can be read, but those of this test.
func processes(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil { // it may have ended
			all.Write(append(b, '\n'))
		}
	}
	return all.String()
}

// gatewayIsOutOfReach: root with NET_ADMIN in an agent's container tries every address
// of the gateway and the simulator's on the link, by every way there may be.
func (b *bed) gatewayIsOutOfReach(t *testing.T, agent, id string) {
	t.Helper()
	var networks map[string]struct{ IPAddress string }
	if err := json.Unmarshal([]byte(b.docker("inspect", "-f", "{{json .NetworkSettings.Networks}}", b.instance+"-gateway")), &networks); err != nil {
		t.Fatal(err)
	}
	if len(networks) != 2 || networks[b.instance+"-link"].IPAddress == "" || networks[b.instance+"-egress"].IPAddress == "" {
		t.Fatalf("the gateway is on %v", networks)
	}
	simulator := ""
	for _, r := range strings.Fields(b.exec(agent, "getent", "hosts", vendor)) {
		simulator = r
		break
	}
	gateway := strings.Fields(b.exec(agent, "sh", "-c", "ip route show default | cut -d' ' -f3"))[0]
	for _, via := range []string{gateway, simulator} {
		script := ""
		for _, n := range networks {
			script += fmt.Sprintf("ip route replace %s/32 via %s\n", n.IPAddress, via)
		}
		for name, n := range networks {
			for _, port := range []string{strconv.Itoa(api.GatewayPort), "443", "80"} {
				// 7: refused or no route, 28: nothing came back. Anything else heard somebody.
				script += fmt.Sprintf("{ curl -sk --connect-timeout 1 --max-time 2 https://%s:%s/; echo 'port %[2]s on %[3]s by %[4]s:' $?; } &\n", n.IPAddress, port, name, via)
			}
		}
		for _, n := range networks {
			script += fmt.Sprintf("wait; ip route del %s/32\n", n.IPAddress)
		}
		tries := lines(b.exec(agent, "sh", "-c", script))
		for _, try := range tries {
			if !strings.HasSuffix(try, ": 7") && !strings.HasSuffix(try, ": 28") {
				t.Errorf("something answers: %s", try)
			}
		}
		if len(tries) != 6 {
			t.Errorf("%d tries: %q", len(tries), tries)
		}
	}
	if out := b.docker("logs", b.instance+"-gateway"); strings.Contains(out, "was refused") {
		t.Errorf("somebody came as far as the gateway's handshake:\n%s", out)
	}
}

// streamsSurvive: the simulator is put on networks and taken off while streams are
// open, whose way out is the gateway's and does not move.
func (b *bed) streamsSurvive(t *testing.T, agent string) {
	t.Helper()
	n := 6
	if s := os.Getenv("CTIS_E2E_NETWORKS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 || n > 250 {
			t.Fatalf("CTIS_E2E_NETWORKS=%q is no number from 1 to 250", s)
		}
	}
	const script = `
import http.client, json, ssl, sys, threading
host, n = sys.argv[1], int(sys.argv[2])
counts, broken, begun, stop = [0] * n, [], threading.Barrier(n + 1), threading.Event()
def follow(k):
    try:
        c = http.client.HTTPSConnection(host, timeout=20); c.request("GET", "/events"); r = c.getresponse()
        begun.wait()
        while not stop.is_set():
            line = r.readline()
            if line.startswith(b'data: {"i":%d,' % counts[k]): counts[k] += 1
            elif line.strip(): raise Exception("%r is not event %d" % (line, counts[k]))
            elif not line: raise Exception("ended")
    except Exception as e:
        broken.append(repr(e)); begun.abort()
threads = [threading.Thread(target=follow, args=(k,), daemon=True) for k in range(n)]
for t in threads: t.start()
begun.wait(); print("begun", flush=True); sys.stdin.readline(); stop.set()
for t in threads: t.join()
print(json.dumps({"least": min(counts), "broken": broken}), flush=True)
`
	cmd := exec.Command("docker", "exec", "-i", agent, "python3", "-c", script, vendor, "50")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "50 streams are open: "+out.String(), func() bool { return strings.Contains(out.String(), "begun") })
	for i := range n {
		name := fmt.Sprintf("%s-%s-%d", []string{"0aaa", "zzz"}[i%2], b.instance, i)
		if text := b.docker("network", "create", "--label", "io.ctis.instance="+b.instance, "--subnet", fmt.Sprintf("10.213.%d.0/28", i), name); len(text) != 64 {
			t.Fatalf("%s", text)
		}
		b.docker("network", "connect", name, b.instance+"-simulator")
	}
	for i := range n {
		name := fmt.Sprintf("%s-%s-%d", []string{"0aaa", "zzz"}[i%2], b.instance, i)
		b.docker("network", "disconnect", name, b.instance+"-simulator")
		b.docker("network", "rm", name)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	last := lines(out.String())
	var result struct {
		Least  int
		Broken []string
	}
	if err != nil || json.Unmarshal([]byte(last[len(last)-1]), &result) != nil || len(result.Broken) > 0 || result.Least < 3 {
		t.Errorf("streams broke, or stood still: %v\n%s", err, out.String())
	}
}
