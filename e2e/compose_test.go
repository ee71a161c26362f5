package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/e2e/images"
)

// TestDownTakesEveryProfile: Compose's own down leaves what an inactive profile
// made. Down is told no profile and runs from somewhere else.
func TestDownTakesEveryProfile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := image(t, images.Agent())
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"default\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": strings.ReplaceAll(`services:
  default: {image: IMAGE, command: [wait]}
  one: {image: IMAGE, command: [wait], profiles: [one], networks: [default, extra]}
  two: {image: IMAGE, command: [wait], profiles: [two], volumes: ["kept:/kept"]}
  off: {image: IMAGE, command: [wait], profiles: [off]}
networks: {extra: {}}
volumes: {kept: {}}
`, "IMAGE", ref),
	})
	id := b.id("profiles")
	up := b.up(dir, id, "--profile", "one", "--profile", "two")
	if len(up.Services) != 3 {
		t.Fatalf("services are %+v", up.Services)
	}
	cmd := b.command("down", id, "--volumes", "--timeout", "0s")
	cmd.Dir = t.TempDir()
	cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "COMPOSE_") })
	finish(t, cmd).must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left %q", left)
	}

	// A volume that stayed of a trajectory nothing tells of any more might be anybody's.
	b.up(dir, id, "--profile", "two")
	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	kept := id + "_kept"
	if r := b.ctis("down", id, "--volumes").must(t, 0); !strings.Contains(r.stderr, "docker volume rm "+kept) {
		t.Errorf("down of what is gone says %s", r.stderr)
	}
	b.docker("volume", "rm", kept)
}

// TestEveryDollarReachesTheContainer: Compose takes a $ for a variable in each
// file it merges, the generated one included. What the environment says, and what
// its directory is called, must be in the container as meant.
func TestEveryDollarReachesTheContainer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	values := []string{"$", "a$b", "$$", "${X}", "end$", "$X", "$$$", "${X:?no}", `a"b'c\$d`}
	quote := func(v string) string { // for Compose and YAML
		text, err := json.Marshal(strings.ReplaceAll(v, "$", "$$"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var command, environ, labels, envFile []string
	for i, v := range values {
		command = append(command, quote(v))
		environ = append(environ, fmt.Sprintf("V%d: %s", i, quote(v)))
		labels = append(labels, fmt.Sprintf("v%d: %s", i, quote(v)))
		if !strings.ContainsAny(v, `'"\`) {
			envFile = append(envFile, fmt.Sprintf("F%d='%s'", i, v)) // single quotes: as it is
		}
	}
	dir := environment(t, map[string]string{
		"an$d ${X} $$/ctis.toml": "network = \"default\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"an$d ${X} $$/compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    container_name: agent
    command: [wait, %s]
    environment: {%s}
    labels: {%s}
    env_file: [values.env]
    extra_hosts: ["plain.example:10.1.2.3"]
`, image(t, images.Agent()), strings.Join(command, ", "), strings.Join(environ, ", "), strings.Join(labels, ", ")),
		"an$d ${X} $$/values.env": strings.Join(envFile, "\n") + "\n",
	}) + "/an$d ${X} $$"
	id := b.id("dollars")
	t.Cleanup(func() { b.ctis("down", id, "--volumes", "--timeout", "0s") })
	// The program takes no such arguments, and need not: the container is looked at.
	b.ctis("up", dir, "--id", id, "--keep-on-failure").must(t, 1)
	var in []struct {
		Config struct {
			Env, Cmd []string
			Labels   map[string]string
		}
		HostConfig struct{ ExtraHosts []string }
	}
	if out := b.docker("inspect", id+"-default-1"); json.Unmarshal([]byte(out), &in) != nil {
		t.Fatal(out)
	}
	c := in[0].Config
	if !slices.Equal(c.Cmd, append([]string{"wait"}, values...)) {
		t.Errorf("command is %q", c.Cmd)
	}
	for i, v := range values {
		if want := fmt.Sprintf("V%d=%s", i, v); !slices.Contains(c.Env, want) {
			t.Errorf("%s is not in the environment %q", want, c.Env)
		}
		if want := fmt.Sprintf("F%d=%s", i, v); !strings.ContainsAny(v, `'"\`) && !slices.Contains(c.Env, want) {
			t.Errorf("%s, of the env file, is not in the environment %q", want, c.Env)
		}
		if got := c.Labels[fmt.Sprintf("v%d", i)]; got != v {
			t.Errorf("label v%d is %q, not %q", i, got, v)
		}
	}
	if got := c.Labels["io.ctis.dir"]; got != dir {
		t.Errorf("the label of the directory is %q, not %q", got, dir)
	}
	if !slices.Contains(in[0].HostConfig.ExtraHosts, "plain.example:10.1.2.3") {
		t.Errorf("extra hosts are %q", in[0].HostConfig.ExtraHosts)
	}
}
