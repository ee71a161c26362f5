package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/e2e/images"
)

// meddler is a directory for PATH whose docker runs a shell command before
// one verb of docker compose, once, and is docker otherwise.
func meddler(t *testing.T, verb, shell string) string {
	t.Helper()
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case " $* " in
*" %s "*) if [ ! -e '%s/done' ]; then : >'%s/done'; %s; fi ;;
esac
exec '%s' "$@"
`, verb, dir, dir, shell, docker)
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAnEnvironmentThatChangesOnTheWayUpIsDrift: docker compose reads its files
// anew for each verb. What is changed between two of them would make containers
// without the trust that was put into the first, or networks without simulator.
func TestAnEnvironmentThatChangesOnTheWayUpIsDrift(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := image(t, images.Agent())
	for i, c := range []struct {
		name, verb, edit, says string
	}{
		{"an attribute, before create", "create", "sed -i 's/A: one/A: two/' compose.yml", `"compose.yml" changed`},
		{"a variable, before up", "up", "echo TAG=two >.env", `".env" changed`},
		{"an env file of a service, before up", "up", "echo B=two >service.env", `"service.env" changed`},
		{"an optional env file that comes about", "up", "echo C=1 >optional.env", `"optional.env" changed`},
		{"an included file, before up", "up", "sed -i 's/D: one/D: two/' inner.yml", `"inner.yml" changed`},
		{"a network's label, before up", "up", "sed -i 's/flag: one/flag: two/' compose.yml", `"compose.yml" changed`},
		{"a further network, before up", "up", "printf '    networks: [fresh]\\nnetworks: {fresh: {}}\\n' >>inner.yml", `"inner.yml" changed`},
		{"a further service, before up", "up", "printf '  more: {image: %s}\\n' '" + ref + "' >>inner.yml", `"inner.yml" changed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := environment(t, map[string]string{
				"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
				"compose.yml": fmt.Sprintf(`include: [inner.yml]
networks: {external: {labels: {flag: one}}}
services:
  default:
    image: %s
    command: [wait]
    environment: {A: one, TAG: "${TAG:-}"}
    env_file: [service.env, {path: optional.env, required: false}]
    networks: [external]
`, ref),
				"inner.yml":   fmt.Sprintf("services:\n  inner:\n    image: %s\n    command: [wait]\n    environment: {D: one}\n", ref),
				".env":        "TAG=one\n",
				"service.env": "B=one\n",
			})
			id := b.id(fmt.Sprintf("drift%d", i))
			t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
			cmd := b.command("up", dir, "--id", id)
			cmd.Env = append(cmd.Env, "PATH="+meddler(t, c.verb, "cd '"+dir+"'; "+c.edit)+":"+os.Getenv("PATH"))
			r := finish(t, cmd).must(t, 1)
			if !strings.Contains(r.stderr, c.says) || !strings.Contains(r.stderr, "while ctis up was at work") {
				t.Errorf("stderr does not say %q:\n%s", c.says, r.stderr)
			}
			if left := b.leftOf(id); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}
