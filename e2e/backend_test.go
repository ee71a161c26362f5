package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// program is a backend as environments write them: Python's own server, which
// understands Content-Length and nothing else, and which takes only what comes from
// the address that its public names lead to. It keeps a log of its own.
const program = `
import hashlib, http.server, json, os, socket, sys

PUBLIC = sys.argv[1].split(",")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        known = {socket.gethostbyname(name) for name in PUBLIC}
        event = {"peer": self.client_address[0], "via": "direct", "host": self.headers.get("Host"), "path": self.path,
                 "for": self.headers.get("X-Forwarded-For"), "proto": self.headers.get("X-Forwarded-Proto")}
        status = 403
        if self.client_address[0] in known:
            event["via"], status = "simulator", 201
        left = int(self.headers["Content-Length"])
        boundary = self.headers.get_boundary() if hasattr(self.headers, "get_boundary") else None
        head = self.rfile.read(min(left, 1024))
        content, end = head, 0
        if boundary:
            at = head.index(b"\r\n\r\n") + 4
            content, end = head[at:], len("\r\n--" + boundary + "--\r\n")
        left -= len(head)
        digest, size = hashlib.sha256(), 0
        take = content if left >= end else content[:len(content) - (end - left)]
        digest.update(take); size += len(take)
        left_content = max(0, left - end)
        while left_content:
            piece = self.rfile.read(min(left_content, 1 << 20))
            if not piece:
                event["broken"] = True
                break
            digest.update(piece); size += len(piece); left_content -= len(piece)
        self.rfile.read(min(left, end))
        event["size"], event["sha256"] = size, digest.hexdigest()
        with open("/events/log", "a") as log:
            log.write(json.dumps(event) + "\n")
        answer = json.dumps(event).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
`

type event struct {
	Peer, Via, Host, Path, For, Proto, SHA256 string
	Size                                      int64
	Broken                                    bool
}

// largeUpload is how long the long uploads are, in bytes.
func largeUpload(t *testing.T) int64 {
	t.Helper()
	n := int64(256 << 20)
	if s := os.Getenv("CTIS_E2E_UPLOAD"); s != "" {
		var err error
		if n, err = strconv.ParseInt(s, 10, 64); err != nil || n < 1 {
			t.Fatalf("CTIS_E2E_UPLOAD=%q is no number of bytes", s)
		}
	}
	return n
}

func TestUploadsReachTheBackendThroughItsPersonas(t *testing.T) {
	b := newBed(t)
	debian := debian(t)
	dir := environment(t, map[string]string{
		"ctis.toml": `network = "external"
[personas."files.example.com"]
server_header = "Filer"
endpoints = ["api"]
backend = "files:8080"
[personas."verify.example.org"]
endpoints = ["api"]
backend = "files:8080"
`,
		"compose.yaml": fmt.Sprintf(`services:
  default: {image: %[1]q, command: [sleep, infinity], init: true, networks: [external], volumes: ["loot:/loot"]}
  scorer: {image: %[1]q, command: [sleep, infinity], init: true, network_mode: none, volumes: ["loot:/loot:ro", "events:/events:ro"]}
  files:
    image: %[1]q
    command: [python3, /program.py, "files.example.com,verify.example.org"]
    init: true
    networks: [external]
    volumes: ["./program.py:/program.py:ro", "events:/events"]
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/127.0.0.1/8080"], interval: 1s, retries: 60}
networks:
  external: {driver: bridge}
volumes: {loot: {}, events: {}}
`, debian),
		"program.py": program,
	})
	id := b.id("upload")
	up := b.up(dir, id)
	agent, scorer := up.container(t, "default"), up.container(t, "scorer")
	large := largeUpload(t)
	b.exec(agent, "bash", "-c", "printf %s tiny >/loot/small && truncate -s "+fmt.Sprint(large)+" /loot/large")

	type upload struct {
		file, url string
		args      []string
	}
	var uploads []upload
	for _, url := range []string{"http://files.example.com/api/upload?n=%2F1", "https://files.example.com/api/a%2Fb", "https://verify.example.org/api/.."} {
		for _, args := range [][]string{nil, {"--http1.1"}, {"-H", "Transfer-Encoding: chunked"}, {"--http1.1", "-H", "Transfer-Encoding: chunked"}} {
			if strings.HasSuffix(url, "/..") {
				continue // not below its prefix: see below
			}
			if len(args) == 2 && strings.HasPrefix(url, "https") {
				continue // HTTP/2 has no such field
			}
			uploads = append(uploads, upload{"small", url, args})
		}
	}
	uploads = append(uploads,
		upload{"small", "https://verify.example.org/api", nil},
		upload{"large", "http://files.example.com/api/large", nil},
		upload{"large", "https://verify.example.org/api/large", []string{"--http1.1", "-H", "Transfer-Encoding: chunked"}})
	sums := map[string]string{}
	for _, file := range []string{"small", "large"} {
		sums[file] = strings.Fields(b.exec(scorer, "sha256sum", "/loot/"+file))[0] // over the volume both have
	}
	sizes := map[string]int64{"small": 4, "large": large}
	for _, u := range uploads {
		argv := append([]string{"curl", "-sS", "--fail-with-body", "--path-as-is", "-F", "file=@/loot/" + u.file, u.url}, u.args...)
		var got event
		if err := json.Unmarshal([]byte(b.exec(agent, argv...)), &got); err != nil || got.Via != "simulator" || got.Size != sizes[u.file] || got.SHA256 != sums[u.file] {
			t.Errorf("%q: %+v, %v", argv, got, err)
		}
	}
	if out, err := exec.Command("docker", "exec", agent, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", "-F", "file=@/loot/small", "https://verify.example.org/api/..").Output(); err != nil || string(out) != "404" {
		t.Errorf("a path that leads out of its prefix: %s, %v", out, err)
	}
	if direct := b.exec(agent, "curl", "-sS", "-F", "file=@/loot/small", "http://files:8080/api/direct"); !strings.Contains(direct, `"via": "direct"`) {
		t.Errorf("posted directly: %s", direct)
	}

	var events []event
	for _, line := range lines(b.exec(scorer, "cat", "/events/log")) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if len(events) != len(uploads)+1 {
		t.Fatalf("%d events of %d uploads and a direct one", len(events), len(uploads))
	}
	agentAt := up.Services[0].Addresses
	for i, u := range uploads {
		scheme, rest, _ := strings.Cut(u.url, "://")
		host, path, _ := strings.Cut(rest, "/")
		if e := events[i]; e.Via != "simulator" || e.Peer != up.Simulator.Address || e.Host != host || e.Path != "/"+path || e.Proto != scheme || e.For == "" || e.For == e.Peer || e.Broken {
			t.Errorf("%+v of %+v (agent at %v, simulator at %s)", e, u, agentAt, up.Simulator.Address)
		}
	}
	if last := events[len(uploads)]; last.Via != "direct" || last.Peer == up.Simulator.Address {
		t.Errorf("posted directly: %+v", last)
	}
	records := b.journal(id, "--kind", api.KindBackend)
	if len(records) != len(uploads) {
		t.Fatalf("%d records of %d uploads", len(records), len(uploads))
	}
	for i, r := range records {
		if r.Response == nil || r.Response.Status != 201 || r.Client.Service != "default" || r.Endpoint != "api" || r.Error != "" || r.Request.Body.Size <= sizes[uploads[i].file] || len(r.Request.Body.SHA256) != 64 {
			t.Errorf("%+v", r)
		}
	}
	if left := b.docker("exec", b.instance+"-simulator", "/ctis-server", "version"); left == "" {
		t.Error("the simulator does not answer")
	}
}

// teller says who it is to whoever asks.
const teller = `
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = sys.argv[1].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
`

// hammer asks as fast as it can, with four threads, and counts what it hears.
const hammer = `
import collections, json, sys, threading, time, urllib.error, urllib.request
heard, lock, until = collections.Counter(), threading.Lock(), time.time() + float(sys.argv[1])
def ask():
    while time.time() < until:
        try:
            with urllib.request.urlopen("http://who.example.com/v1", timeout=60) as r:
                answer = "%d %s" % (r.status, r.read().decode())
        except urllib.error.HTTPError as e:
            e.read()
            answer = str(e.code)
            time.sleep(0.02)
        with lock:
            heard[answer] += 1
threads = [threading.Thread(target=ask) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps(heard))
`

func TestNoAnswerEverComesFromAnotherContainer(t *testing.T) {
	b := newBed(t)
	debian := debian(t)
	seconds := 20
	if s := os.Getenv("CTIS_E2E_HAMMER"); s != "" {
		var err error
		if seconds, err = strconv.Atoi(s); err != nil {
			t.Fatalf("CTIS_E2E_HAMMER=%q is no number of seconds", s)
		}
	}
	type side struct {
		name, agent string
		restarted   []string // containers
	}
	var sides []side
	for _, name := range []string{"left", "right"} {
		dir := environment(t, map[string]string{
			"ctis.toml": "network = \"external\"\n[personas.\"who.example.com\"]\nendpoints = [\"v1\"]\nbackend = \"who:8080\"\n",
			"compose.yaml": fmt.Sprintf(`services:
  default: {image: %[1]q, command: [sleep, infinity], init: true, networks: [external], volumes: ["./hammer.py:/hammer.py:ro"]}
  who: {image: %[1]q, command: [python3, /teller.py, %[2]s], init: true, networks: [external], volumes: ["./teller.py:/teller.py:ro"]}
  decoy: {image: %[1]q, command: [python3, /teller.py, decoy-of-%[2]s], init: true, networks: [external], volumes: ["./teller.py:/teller.py:ro"]}
networks: {external: {driver: bridge}}
`, debian, name),
			"teller.py": teller, "hammer.py": hammer,
		})
		up := b.up(dir, b.id(name))
		sides = append(sides, side{name, up.container(t, "default"), []string{up.container(t, "who"), up.container(t, "decoy")}})
	}
	type result struct {
		name  string
		heard map[string]int
		err   error
	}
	results := make(chan result)
	for _, s := range sides {
		go func() {
			out, err := exec.Command("docker", "exec", s.agent, "python3", "/hammer.py", fmt.Sprint(seconds)).Output() // what docker itself says is no answer
			r := result{name: s.name, err: err}
			if err == nil {
				r.err = json.Unmarshal(out, &r.heard)
			} else {
				r.err = fmt.Errorf("%w: %s", err, out)
			}
			results <- r
		}()
	}
	// All four are stopped, then started in an order that changes each time.
	all := append(append([]string{}, sides[0].restarted...), sides[1].restarted...)
	for round, until := 0, time.Now().Add(time.Duration(seconds)*time.Second/2); time.Now().Before(until); round++ {
		b.docker(append([]string{"stop", "-t", "5"}, all...)...)
		for i := range all {
			if out := b.docker("start", all[(i*(1+2*(round%2))+round)%len(all)]); strings.Contains(out, "Error") {
				t.Error(out)
			}
		}
	}
	for range sides {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		t.Logf("%s heard %v", r.name, r.heard)
		for answer := range r.heard {
			if answer != "200 "+r.name && answer != "502" && answer != "504" {
				t.Errorf("%s heard %q", r.name, answer)
			}
		}
		if r.heard["200 "+r.name] == 0 || r.heard["502"]+r.heard["504"] == 0 {
			t.Errorf("%s: the backend was never there, or always: %v", r.name, r.heard)
		}
	}
}
