package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/e2e/images"
)

// withService is an environment whose default service is well, beside another
// service that a case describes.
func withService(t *testing.T, service string) string {
	t.Helper()
	ref := image(t, images.Agent())
	return environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: [wait]
    networks: [external]
  other:
    networks: [external]
%s
networks:
  external: {}
`, ref, strings.ReplaceAll(service, "IMAGE", ref)),
	})
}

// TestEveryKindOfServiceGetsItsVerdict: what Compose's own --wait gets wrong (a
// one-shot that did its job, a container that crashes in a loop) is judged as
// people would, and a failure says which service, its state and its last words.
func TestEveryKindOfServiceGetsItsVerdict(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, c := range []struct {
		name, service string
		exit          int
		says          []string
	}{
		{"healthy", `    image: IMAGE
    command: [serve, ":80"]
    healthcheck: {test: [CMD, /app, fetch, "http://127.0.0.1/"], interval: 200ms, timeout: 5s}`, 0, nil},
		{"without a health check", `    image: IMAGE
    command: [wait]`, 0, nil},
		{"one-shot that did its job", `    image: IMAGE
    command: [exit, "0"]`, 0, nil},
		{"no replicas", `    image: IMAGE
    command: [wait]
    deploy: {replicas: 0}`, 0, nil},
		{"several replicas", `    image: IMAGE
    command: [wait]
    deploy: {replicas: 3}`, 0, nil},
		{"one-shot that failed", `    image: IMAGE
    command: [exit, "7"]`, 1, []string{`service "other" exited with code 7`}},
		{"crash", `    image: IMAGE
    command: [crash]`, 1, []string{`service "other" exited with code 2`, "panic: crash asked for"}},
		{"never healthy", `    image: IMAGE
    command: [wait]
    healthcheck: {test: [CMD, /app, health, /never], interval: 100ms, timeout: 5s, retries: 2}`, 1, []string{`service "other" is unhealthy`}},
		{"healthy too late", `    image: IMAGE
    command: [wait]
    healthcheck: {test: [CMD, /app, health, /never], interval: 100ms, timeout: 5s, retries: 10000}`, 1, []string{`service "other"`, "gave up waiting", "--wait-timeout"}},
		{"command that is not there", `    image: IMAGE
    entrypoint: [/nowhere]`, 1, []string{"other", "/nowhere"}},
		{"image that is not there", `    image: ctis-test/absent:none`, 1, []string{"ctis-test/absent"}},
		{"dependency that failed", `    image: IMAGE
    command: [exit, "3"]
  late:
    image: IMAGE
    command: [wait]
    depends_on: {other: {condition: service_completed_successfully}}`, 1, []string{`service "other" exited with code 3`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := b.id(strings.ReplaceAll(c.name, " ", "-"))
			t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
			r := b.ctis("up", withService(t, c.service), "--id", id, "--json", "--wait-timeout", "20s").must(t, c.exit)
			if c.exit == 0 {
				return
			}
			var failed struct {
				Error struct{ Code, Message, Hint string }
			}
			if err := json.Unmarshal([]byte(r.stdout), &failed); err != nil || failed.Error.Code != "failed" {
				t.Errorf("no JSON error: %s (%v)", r.stdout, err)
			}
			for _, want := range c.says {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("%q is not in:\n%s", want, r.stderr)
				}
			}
			if left := b.leftOf(id); len(left) > 0 {
				t.Errorf("not rolled back: %q", left)
			}
		})
	}
}

// TestACrashLoopIsAFailure takes longer than the other verdicts: services may
// crash a few times while what they need comes up.
func TestACrashLoopIsAFailure(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("loop")
	r := b.ctis("up", withService(t, "    image: IMAGE\n    command: [exit, \"5\"]\n    restart: always"), "--id", id).must(t, 1)
	if !strings.Contains(r.stderr, `service "other" is restarting repeatedly`) || !strings.Contains(r.stderr, "last exit code 5") {
		t.Errorf("says:\n%s", r.stderr)
	}
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("not rolled back: %q", left)
	}
}

// TestKeepOnFailureLeavesEverythingForALook and down removes it.
func TestKeepOnFailureLeavesEverythingForALook(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("kept")
	t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
	b.ctis("up", withService(t, "    image: IMAGE\n    command: [exit, \"7\"]"), "--id", id, "--keep-on-failure").must(t, 1)
	if left := b.leftOf(id); len(left) < 4 { // two containers, a network, the attachment, the registration
		t.Errorf("left is only %q", left)
	}
	b.ctis("down", id).must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestAnImageThatCannotBePulledIsExitOneAndNothingIsMade.
func TestAnImageThatCannotBePulledIsExitOneAndNothingIsMade(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := scratchHost(t)
	for _, args := range [][]string{{"--image", "ctis-test/absent:none"}, nil} {
		cmd := b.command(append([]string{"up", dir, "--id", b.id("x")}, args...)...)
		if args == nil {
			cmd.Env = append(cmd.Env, "INTERNET_SIMULATOR_IMAGE=ctis-test/absent:none")
		}
		r := finish(t, cmd).must(t, 1)
		if !strings.Contains(r.stderr, "ctis-test/absent") || !strings.Contains(r.stderr, "pull") {
			t.Errorf("says:\n%s", r.stderr)
		}
	}
	if r := b.ctis("up", dir, "--id", b.id("x"), "--image", image(t, images.Agent())).must(t, 2); !strings.Contains(r.stderr, "is no simulator") {
		t.Errorf("an image of something else: %s", r.stderr)
	}
	if made := b.docker("ps", "-aq", "--filter", "label=io.ctis.instance="+b.instance); made != "" {
		t.Errorf("made: %s", made)
	}
}

// TestTheEnvironmentIsTakenAsItIs: fixed names and ports do not keep two
// trajectories of one environment apart, nor is a file of it changed.
func TestTheEnvironmentIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := withService(t, `    image: IMAGE
    container_name: fixed-name
    command: [serve, ":8080"]
    ports: ["18080:8080"]
    environment:
      PRICE: "a$$b"
      SSL_CERT_FILE: /mine.pem`)
	before, err := os.ReadFile(dir + "/compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	first, second := b.up(dir, b.id("one")), b.up(dir, b.id("two"))
	for _, up := range []upJSON{first, second} {
		agent, other := up.container(t, "default"), up.container(t, "other")
		b.exec(agent, images.Program, "fetch", "http://fixed-name:8080/")
		env := b.docker("inspect", other, "--format", "{{.Config.Env}}")
		if !strings.Contains(env, "PRICE=a$b") || !strings.Contains(env, "SSL_CERT_FILE=/mine.pem") {
			t.Errorf("environment of %s: %s", other, env)
		}
		for _, s := range up.Services {
			if s.Service == "other" && (len(s.Ports) == 0 || strings.Contains(s.Ports[0], ":18080->")) {
				t.Errorf("ports: %q", s.Ports)
			}
		}
	}
	after, err := os.ReadFile(dir + "/compose.yml")
	if err != nil || string(after) != string(before) {
		t.Errorf("the environment's file was changed (%v)", err)
	}
}
