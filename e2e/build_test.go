package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// checkout copies what the simulator's image is described and built from.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{"server", "templates"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join("..", part))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEditedSourceReplacesTheIdleSimulator: what is the host's moves nothing; what
// is served moves the tag, and the next up builds it and replaces the simulator,
// but not under a trajectory.
func TestEditedSourceReplacesTheIdleSimulator(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir, source := scratchHost(t), checkout(t)
	tag := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(b.ctis(append([]string{"build", "--print-tag"}, args...)...).must(t, 0).stdout)
	}
	own := tag()
	first := b.up(dir, b.id("first"), "--context", source)
	if first.Image != own {
		t.Errorf("a checkout has %s, the program that was built from it %s", first.Image, own)
	}
	for _, host := range []string{"commands/new.go", "compose/config.go", "server/new_test.go", "server/testdata/new", "README.md", "go.mod"} {
		appendTo(t, filepath.Join(source, host), "// edited\n")
	}
	if got := tag("--context", source); got != own {
		t.Errorf("editing the host makes %s of %s", got, own)
	}
	appendTo(t, filepath.Join(source, "server/persona/root.go"), "// edited\n")
	edited := tag("--context", source)
	if edited == own {
		t.Fatal("editing what is served does not change the tag")
	}
	t.Cleanup(func() { b.docker("rmi", edited) })
	if r := b.ctis("up", dir, "--id", b.id("second"), "--context", source).must(t, 3); !strings.Contains(r.stderr, b.id("first")) {
		t.Errorf("refused without naming the trajectory: %s", r.stderr)
	}
	running := func() string {
		return b.docker("inspect", b.instance+"-simulator", "--format", `{{index .Config.Labels "io.ctis.image"}}`)
	}
	if got := running(); got != own {
		t.Errorf("under a trajectory the simulator became %s", got)
	}
	b.ctis("down", b.id("first"), "--timeout", "0s").must(t, 0)
	cmd := b.command("up", dir, "--id", b.id("second"), "--json")
	cmd.Env = append(cmd.Env, "CTIS_BUILD_CONTEXT="+source)
	t.Cleanup(func() { b.ctis("down", b.id("second"), "--timeout", "0s") })
	var second upJSON
	if r := finish(t, cmd).must(t, 0); json.Unmarshal([]byte(r.stdout), &second) != nil || second.Image != edited || second.Simulator.Reused {
		t.Errorf("after the edit: %s", r.stdout)
	}
	if got := running(); got != edited {
		t.Errorf("the simulator runs %s, not %s", got, edited)
	}
}

// TestBuildIsToldWholeAndFailsWithTheBuildersWords.
func TestBuildIsToldWholeAndFailsWithTheBuildersWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := environment(t, map[string]string{"Dockerfile": "FROM scratch\nCOPY own /own\n", "own": b.instance, "no/Dockerfile": "FROM scratch\nCOPY own /own\nRUN [\"/nothing\"]\n"})
	var built struct {
		Image, Hash string
		Built       bool
		Inputs      []struct{ Path, Digest string }
	}
	for _, want := range []bool{true, false} {
		r := b.ctis("build", "--context", dir, "--json").must(t, 0)
		if err := json.Unmarshal([]byte(r.stdout), &built); err != nil || built.Built != want || len(built.Inputs) != 2 || !strings.HasSuffix(built.Image, ":src-"+built.Hash) {
			t.Errorf("build says %s (%v)", r.stdout, err)
		}
	}
	t.Cleanup(func() { b.docker("rmi", built.Image) })
	if got := b.docker("inspect", built.Image, "--format", `{{index .Config.Labels "io.ctis.source-hash"}}`); got != built.Hash {
		t.Errorf("labelled %q", got)
	}
	r := b.ctis("build", "--context", dir, "--file", "no/Dockerfile").must(t, 1)
	if !strings.Contains(r.stderr, "RUN") || !strings.Contains(r.stderr, "its last lines:") {
		t.Errorf("a failed build says %s", r.stderr)
	}
}

// imageRegistry is a registry that keeps in memory what is pushed to it by a user.
type imageRegistry struct {
	mu        sync.Mutex
	blobs     map[string][]byte // by digest
	uploads   map[string][]byte // by id
	manifests map[string][]byte // by NAME:TAG
}

// newImageRegistry starts one on this machine, at host.
func newImageRegistry(t *testing.T) (g *imageRegistry, host string) {
	g = &imageRegistry{blobs: map[string][]byte{}, uploads: map[string][]byte{}, manifests: map[string][]byte{}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return g, strings.TrimPrefix(server.URL, "http://")
}

// credentials are what docker login would keep for the registry at host.
func credentials(host string) string {
	return `{"auths":{"` + host + `":{"auth":"dGVzdGVyOnNlY3JldA=="}}}`
}

func (g *imageRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if user, password, ok := r.BasicAuth(); !ok || user != "tester" || password != "secret" {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body) // what is cut off has another digest
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	name, kind, _ := strings.Cut(path, "/blobs/")
	digest := func(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
	switch {
	case path == "":
	case strings.Contains(path, "/manifests/"):
		name, tag, _ := strings.Cut(path, "/manifests/")
		content, ok := g.manifests[name+":"+tag]
		for _, m := range g.manifests {
			if digest(m) == tag {
				content, ok = m, true
			}
		}
		if r.Method == http.MethodPut {
			g.manifests[name+":"+tag], content, ok = body, body, true
			w.Header().Set("Docker-Content-Digest", digest(body))
			w.WriteHeader(http.StatusCreated)
			return
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var m struct{ MediaType string }
		_ = json.Unmarshal(content, &m) // it was pushed with that type
		w.Header().Set("Content-Type", m.MediaType)
		w.Header().Set("Docker-Content-Digest", digest(content))
		_, _ = w.Write(content)
	case kind == "uploads/":
		id := fmt.Sprint(len(g.uploads))
		g.uploads[id] = nil
		w.Header().Set("Location", "/v2/"+name+"/blobs/uploads/"+id)
		w.Header().Set("Docker-Upload-UUID", id)
		w.WriteHeader(http.StatusAccepted)
	case strings.HasPrefix(kind, "uploads/"):
		id := strings.TrimPrefix(kind, "uploads/")
		g.uploads[id] = append(g.uploads[id], body...)
		w.Header().Set("Location", r.URL.Path)
		w.Header().Set("Docker-Upload-UUID", id)
		w.Header().Set("Range", fmt.Sprintf("0-%d", max(0, len(g.uploads[id])-1)))
		if r.Method == http.MethodPatch {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if want := r.URL.Query().Get("digest"); digest(g.uploads[id]) != want {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		g.blobs[digest(g.uploads[id])] = g.uploads[id]
		w.Header().Set("Docker-Content-Digest", digest(g.uploads[id]))
		w.WriteHeader(http.StatusCreated)
	default:
		content, ok := g.blobs[kind]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Header().Set("Docker-Content-Digest", kind)
		_, _ = w.Write(content)
	}
}

// TestPushedImageIsWholeInTheRegistryAndCanBeBuiltOn pushes to a registry on this
// machine, and pulls from it, with the credentials that docker login would have left,
// and without.
func TestPushedImageIsWholeInTheRegistryAndCanBeBuiltOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	registry, host := newImageRegistry(t)
	dir := environment(t, map[string]string{
		"Dockerfile": "FROM scratch\nCOPY own /own\n", "own": b.instance,
		"docker/config.json": credentials(host),
	})
	image := strings.TrimSpace(b.ctis("build", "--context", dir).must(t, 0).stdout)
	t.Cleanup(func() { b.docker("rmi", image) })

	r := b.ctis("build", "--context", dir, "--push", "--registry", host+"/team").must(t, 1)
	if strings.Contains(r.stderr, "connection refused") { // the registry listens
		t.Skip("the engine is in a network of its own, as with scripts/engine.sh, and does not reach a registry on this machine")
	}
	if !strings.Contains(r.stderr, "push of image") || !strings.Contains(r.stderr, "docker login") {
		t.Errorf("without credentials: %s", r.stderr)
	}
	cmd := b.command("build", "--context", dir, "--push", "--registry", host+"/team", "--json")
	cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+filepath.Join(dir, "docker"))
	var pushed struct{ Pushed, Digest string }
	r = finish(t, cmd).must(t, 0)
	if err := json.Unmarshal([]byte(r.stdout), &pushed); err != nil || pushed.Pushed != host+"/team/"+image || !strings.HasPrefix(pushed.Digest, "sha256:") {
		t.Fatalf("push says %s (%v)", r.stdout, err)
	}
	if names := lines(b.docker("images", "--format", "{{.Repository}}", "--filter", "reference="+host+"/*/*/*")); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, host) }) {
		t.Errorf("names left: %q", names)
	}

	onIt := environment(t, map[string]string{"Dockerfile": "FROM " + pushed.Pushed + "\nCOPY own /more\n", "own": b.instance})
	t.Cleanup(func() { b.docker("rmi", pushed.Pushed) })
	if r := b.ctis("build", "--context", onIt).must(t, 1); !strings.Contains(r.stderr, "pull of image") || !strings.Contains(r.stderr, "docker login") {
		t.Errorf("built on it without credentials: %s", r.stderr)
	}
	cmd = b.command("build", "--context", onIt)
	cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+filepath.Join(dir, "docker"))
	built := strings.TrimSpace(finish(t, cmd).must(t, 0).stdout)
	t.Cleanup(func() { b.docker("rmi", built) })

	registry.mu.Lock()
	defer registry.mu.Unlock()
	manifest := registry.manifests["team/"+image]
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(manifest)); got != pushed.Digest {
		t.Errorf("the manifest is %s, told is %s", got, pushed.Digest)
	}
	var m struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	if err := json.Unmarshal(manifest, &m); err != nil || len(m.Layers) == 0 {
		t.Fatalf("manifest %s: %v", manifest, err)
	}
	for _, l := range m.Layers {
		if len(registry.blobs[l.Digest]) == 0 {
			t.Errorf("layer %s is not there", l.Digest)
		}
	}
	if !bytes.Contains(registry.blobs[m.Config.Digest], []byte("io.ctis.source-hash")) {
		t.Errorf("configuration %s", registry.blobs[m.Config.Digest])
	}
}
