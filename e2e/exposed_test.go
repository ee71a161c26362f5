package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
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
	b.checkWhatIsAsked(agent)
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

	if got := b.ctis("doctor", id).must(t, 0).stdout; strings.Contains(got, "edge") {
		t.Errorf("doctor: %s", got)
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

// TestAnNginxImageIsPulled from a registry on this machine, with credentials.
func TestAnNginxImageIsPulled(t *testing.T) {
	t.Parallel()
	b, nginx := newExposedBed(t)
	_, host := newImageRegistry(t)
	dir := environment(t, map[string]string{
		"ctis.toml":          "network = \"external\"\n[exposed_services]\n\"api.taskflow.co\" = \"default:3000\"\n",
		"compose.yaml":       fmt.Sprintf("services:\n  default: {image: %q, command: [wait], networks: [external]}\nnetworks: {external: {}}\n", image(t, images.Agent())),
		"nginx/Dockerfile":   "FROM " + nginx + "\nCOPY own /own\n",
		"nginx/own":          b.instance,
		"docker/config.json": credentials(host),
	})
	if home, err := os.UserHomeDir(); err != nil {
		t.Fatal(err)
	} else if err := os.Symlink(filepath.Join(home, ".docker", "cli-plugins"), filepath.Join(dir, "docker", "cli-plugins")); err != nil {
		t.Fatal(err) // Compose may be installed there
	}
	withCredentials := func(args ...string) run {
		cmd := b.command(args...)
		cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+filepath.Join(dir, "docker"))
		return finish(t, cmd)
	}
	var built struct{ Image, Pushed string }
	r := withCredentials("build", "--context", filepath.Join(dir, "nginx"), "--push", "--registry", host+"/team", "--json")
	if strings.Contains(r.stderr, "connection refused") { // the registry listens
		t.Skip("the engine is in a network of its own, as with scripts/engine.sh, and does not reach a registry on this machine")
	}
	if err := json.Unmarshal([]byte(r.must(t, 0).stdout), &built); err != nil {
		t.Fatal(err)
	}
	b.docker("rmi", built.Image)
	t.Cleanup(func() { b.docker("rmi", built.Pushed) })
	b.env = append(b.env, "CTIS_NGINX_IMAGE="+built.Pushed)
	id := b.id("pulled")
	if r := b.ctis("up", dir, "--id", id).must(t, 1); !strings.Contains(r.stderr, "docker login") {
		t.Errorf("without credentials: %s", r.stderr)
	}
	r = withCredentials("up", dir, "--id", id).must(t, 0)
	t.Logf("%s", r.stderr)
	if !strings.Contains(r.stderr, built.Pushed) {
		t.Errorf("up does not tell of the image: %s", r.stderr)
	}
	if got := b.docker("ps", "--filter", "label=com.docker.compose.project="+id, "--format", "{{.Image}}"); !strings.Contains(got, built.Pushed) {
		t.Errorf("containers are of %s", got)
	}
	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
