package e2e

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
)

// seedHost is an environment whose agent's container has the files in /srv/seed;
// config are further lines of its Dockerfile, service of its Compose file.
func seedHost(t *testing.T, name string, files map[string]string, config []string, service string) string {
	t.Helper()
	spec := images.Agent()
	spec.Name, spec.Files, spec.Config = name, map[string]string{}, config
	for path, content := range files {
		spec.Files["/srv/seed/"+path] = content
	}
	return environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\nseed_assets_from = \"/srv/seed\"\n[personas.\"filebin.net\"]\nendpoints = [\"assets\", \"data\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: [wait]
    networks: [external]
%s
networks:
  external: {}
`, image(t, spec), service),
	})
}

// asset fetches a file as the agent does.
func (b *bed) asset(container, path string) (status int, content string, headers map[string][]string) {
	b.t.Helper()
	var f struct {
		Status  int
		Body    string
		Headers map[string][]string
	}
	if err := json.Unmarshal([]byte(b.exec(container, images.Program, "fetch", "https://filebin.net/assets/"+path)), &f); err != nil {
		b.t.Fatal(err)
	}
	return f.Status, f.Body, f.Headers
}

// seedIn tells whether the seed directory is in a container, which has no shell to
// ask.
func (b *bed) seedIn(container string) bool {
	b.t.Helper()
	out, err := exec.Command("docker", "cp", container+":/srv/seed", "-").Output()
	if err != nil && !strings.Contains(string(err.(*exec.ExitError).Stderr), "ould not find") {
		b.t.Fatalf("%v %s", err, err.(*exec.ExitError).Stderr)
	}
	return err == nil && len(out) > 0
}

type seededUp struct {
	upJSON
	Assets struct {
		Files int
		Bytes int64
	}
}

func (b *bed) upSeeded(dir, id string) seededUp {
	b.t.Helper()
	b.t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
	r := b.ctis("up", dir, "--id", id, "--json").must(b.t, 0)
	var u seededUp
	if err := json.Unmarshal([]byte(r.stdout), &u); err != nil {
		b.t.Fatal(err)
	}
	return u
}

// TestSeedAssetsAreServedAndGoneFromTheContainer: two trajectories with the same
// paths and other content, in images without a shell, one of them for uid 1000
// without any capability. Each serves its own, the directory is in no container, and
// that stays so whatever comes: another up, a restart of either side, a container that
// is made anew, and files that are put later.
func TestSeedAssetsAreServedAndGoneFromTheContainer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	one, two := b.id("one"), b.id("two")
	dirOne := seedHost(t, "seed-root", map[string]string{"install.sh": "one", "sub/däta file.json": "[1]"}, nil, "")
	dirTwo := seedHost(t, "seed-user", map[string]string{"install.sh": "second", "only-two": "2"}, []string{"USER 1000"}, "    cap_drop: [ALL]\n    security_opt: [no-new-privileges]")
	upOne, upTwo := b.upSeeded(dirOne, one), b.upSeeded(dirTwo, two)
	if a := upOne.Assets; a.Files != 2 || a.Bytes != 6 {
		t.Errorf("up says %+v", a)
	}
	agentOne, agentTwo := upOne.container(t, "default"), upTwo.container(t, "default")
	check := func(when string) {
		t.Helper()
		for _, c := range []struct {
			agent, path string
			status      int
			content     string
		}{
			{agentOne, "install.sh", 200, "one"}, {agentOne, "sub/d%C3%A4ta%20file.json", 200, "[1]"}, {agentOne, "only-two", 404, ""},
			{agentTwo, "install.sh", 200, "second"}, {agentTwo, "only-two", 200, "2"}, {agentTwo, "sub/d%C3%A4ta%20file.json", 404, ""},
		} {
			if status, content, _ := b.asset(c.agent, c.path); status != c.status || status == 200 && content != c.content {
				t.Errorf("%s: %s has %d %q under %s", when, c.agent, status, content, c.path)
			}
		}
		for _, agent := range []string{agentOne, agentTwo} {
			if b.seedIn(agent) {
				t.Errorf("%s: %s still has the seed directory", when, agent)
			}
			if state := b.docker("inspect", agent, "--format", "{{.State.Status}}"); state != "running" {
				t.Errorf("%s: %s is %s", when, agent, state)
			}
		}
	}
	check("up")
	if _, _, h := b.asset(agentOne, "install.sh"); len(h["Last-Modified"]) != 1 || len(h["Etag"]) != 1 || h["Accept-Ranges"] == nil {
		t.Errorf("headers %v", h)
	}

	// What stands there later under that name is the agent's own.
	b.docker("cp", dirTwo, agentTwo+":/srv/seed")
	if again := b.upSeeded(dirTwo, two); again.Assets != upTwo.Assets {
		t.Errorf("a second up says %+v, not %+v", again.Assets, upTwo.Assets)
	}
	if !b.seedIn(agentTwo) {
		t.Error("a second up deleted what was made later")
	}
	b.docker("rm", "-f", agentTwo) // and a container made anew has the image's directory
	if again := b.upSeeded(dirTwo, two); again.Assets != upTwo.Assets {
		t.Errorf("made anew, up says %+v", again.Assets)
	}
	b.docker("restart", "-t", "5", agentOne)
	b.killSimulator()
	eventually(t, "the simulator answers", func() bool { return b.ctis("ca").code == 0 })
	check("after restarts")

	dir := environment(t, map[string]string{"new.txt": "new", "tools/a": "A", "tools/sub/b": "B"})
	if err := os.Symlink("new.txt", filepath.Join(dir, "tools", "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"put " + one + " " + dir + "/new.txt install.sh", 0, `"path":"install.sh"`},
		{"put " + one + " " + dir + "/new.txt install.sh/below", 3, "that is a file"},
		{"put " + one + " " + dir + "/absent y", 2, `there is no`},
		{"put " + one + " " + dir + "/tools ./", 2, "is a link"},
		{"put " + one + " " + dir + "/tools/sub " + dir + "/new.txt more/", 0, `"path":"more/sub/b"`},
		{"put " + one + " " + dir + "/new.txt more", 3, "it is a directory"},
		{"put " + one + " " + dir + "/new.txt more", 3, "ctis assets ls " + one},
		{"put " + one + "x " + dir + "/new.txt y", 1, "is not up"},
		{"ls " + two, 0, `"path":"only-two","size":1,"sha256":"d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35","type":"application/octet-stream"`},
	} {
		r := b.ctis(append([]string{"assets", "--json"}, strings.Fields(c.args)...)...)
		if r.code != c.code || !strings.Contains(r.stdout, c.says) {
			t.Errorf("assets %s: %d\n%s%s", c.args, r.code, r.stdout, r.stderr)
		}
	}
	for path, want := range map[string]string{"install.sh": "new", "more/sub/b": "B", "more/new.txt": "new"} {
		if _, content, _ := b.asset(agentOne, path); content != want {
			t.Errorf("%s is %q", path, content)
		}
	}
	if status, content, _ := b.asset(agentTwo, "install.sh"); status != 200 || content != "second" {
		t.Errorf("the other trajectory has %d %q", status, content)
	}
	b.ctis("down", one, "--timeout", "0s").must(t, 0)
	if r := b.ctis("assets", "ls", one); r.code != 1 || !strings.Contains(r.stderr, "is not up") {
		t.Errorf("after down: %d %s", r.code, r.stderr)
	}
	for _, c := range []struct {
		id   string
		code int
	}{{one, 1}, {two, 0}} {
		r := finish(t, exec.Command("docker", "run", "--rm", "-v", b.instance+"-state:/s", image(t, images.Agent()), "health", "/s/files/"+c.id+"/assets/assets.json"))
		r.must(t, c.code) // 1: it is not there
	}
}

// TestSeedDirectoriesThatCannotBeServedOrDeletedFailUp, and all is taken back.
func TestSeedDirectoriesThatCannotBeServedOrDeletedFailUp(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	files := map[string]string{"f": "x"}
	for name, c := range map[string]struct {
		config  []string
		service string
		code    int
		says    string
	}{
		"readonly": {nil, "    read_only: true", 2, "is read-only"},
		"mounted":  {nil, "    volumes: [{type: volume, source: v, target: /srv}]\nvolumes: {v: {}}", 2, "is in \"/srv\", the volume \"v\""},
		"declared": {[]string{"VOLUME /srv"}, "", 1, "by a VOLUME of the image"},
	} {
		service, top, _ := strings.Cut(c.service, "\nvolumes")
		dir := seedHost(t, "seed-"+name, files, c.config, service)
		if top != "" {
			f, err := os.OpenFile(filepath.Join(dir, "compose.yml"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(f, "volumes%s\n", top)
			f.Close()
		}
		id := b.id(name)
		r := b.ctis("up", dir, "--id", id)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: %d\n%s", name, r.code, r.stderr)
		}
		if r.code != 2 {
			if left := b.leftOf(id); len(left) > 0 {
				t.Errorf("%s left %q", name, left)
			}
		}
	}
}

// TestKilledUpNeverLeavesTheSeedDirectoryBehindAnUpThatSucceeds kills ctis while it
// copies ten thousand files and a large one, and again when the simulator has them and
// the directory is being deleted. What it leaves may be anything but a trajectory that
// is up with the directory in it. Neither side holds in memory what it copies.
func TestKilledUpNeverLeavesTheSeedDirectoryBehindAnUpThatSucceeds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const count = 10_000
	large := int64(64 << 20)
	if s := os.Getenv("CTIS_E2E_SEED"); s != "" {
		var err error
		if large, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatalf("CTIS_E2E_SEED=%q is no number of bytes", s)
		}
	}
	dir := seedHost(t, "agent", nil, nil, "    healthcheck: {test: [CMD, /app, health, /srv/done], interval: 200ms, retries: 10000, start_period: 10m}")
	id := b.id("many")
	b.t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
	agent := id + "-default-1"
	paused := func() bool { return b.docker("inspect", agent, "--format", "{{.State.Paused}}") == "true" }
	committed := func() bool {
		r := b.ctis("assets", "ls", id)
		return r.code == 0 && strings.Count(r.stdout, "\n") > count
	}
	filled := false
	for _, at := range []struct {
		what string
		is   func() bool
	}{{"while copying", paused}, {"when the simulator has the files", committed}} {
		up := b.command("up", dir, "--id", id)
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = up.Wait(); close(ended) }()
		if !filled { // as a service does that makes its seed directory itself
			eventually(t, "the agent's container runs", func() bool { return b.docker("inspect", agent, "--format", "{{.State.Running}}") == "true" })
			fillSeed(t, agent, count, large)
			filled = true
		}
		for reached := false; !reached; {
			select {
			case <-ended:
				t.Fatalf("%s: up ended before with %d", at.what, up.ProcessState.ExitCode())
			case <-time.After(5 * time.Millisecond):
				reached = at.is()
			}
		}
		checkPeak(t, "ctis up", up.Process.Pid)
		if err := up.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
		t.Logf("killed %s: paused %v, directory there %v", at.what, paused(), b.seedIn(agent))
	}
	if pid, err := strconv.Atoi(b.docker("inspect", b.instance+"-simulator", "--format", "{{.State.Pid}}")); err == nil {
		checkPeak(t, "the simulator", pid)
	}
	u := b.upSeeded(dir, id)
	if u.Assets.Files != count+1 || u.Assets.Bytes < large || b.seedIn(agent) || paused() {
		t.Errorf("in the end: %+v, directory there %v, paused %v", u.Assets, b.seedIn(agent), paused())
	}
	for _, i := range []int{0, 4711, count - 1} {
		if _, content, _ := b.asset(agent, fmt.Sprintf("d%02d/f%05d.txt", i%100, i)); content != fmt.Sprintf("content %d", i) {
			t.Errorf("file %d is %q", i, content)
		}
	}
}

// checkPeak bounds a process's peak of resident memory. One of an engine on another
// machine is not seen.
func checkPeak(t *testing.T, what string, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, ok := strings.Cut(string(status), "VmHWM:")
	if err != nil || !ok {
		t.Logf("the memory of %s cannot be seen: %v", what, err)
		return
	}
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s had %d MiB at the most", what, kib>>10)
	if kib > 128<<10 {
		t.Errorf("%s had %d MiB", what, kib>>10)
	}
}

// fillSeed puts small files and a large one into a container's seed directory, and at
// last what its health check waits for beside it.
func fillSeed(t *testing.T, container string, count int, large int64) {
	t.Helper()
	cp := exec.Command("docker", "cp", "-", container+":/")
	in, err := cp.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Start(); err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(in)
	add := func(name string, size int64, content io.Reader) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "srv/" + name, Mode: 0o644, Size: size}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, content); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		content := fmt.Sprintf("content %d", i)
		add(fmt.Sprintf("seed/d%02d/f%05d.txt", i%100, i), int64(len(content)), strings.NewReader(content))
	}
	add("seed/large", large, io.LimitReader(rand.NewChaCha8([32]byte{}), large))
	add("done", 0, strings.NewReader(""))
	if err := errors.Join(w.Close(), in.Close(), cp.Wait()); err != nil {
		t.Fatal(err)
	}
}
