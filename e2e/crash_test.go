package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/server/api"
)

// scratchHost is an environment with one persona and an agent from a scratch
// image.
func scratchHost(t *testing.T) string {
	t.Helper()
	return environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\", \"data\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %s
    command: [wait]
    networks: [external]
networks:
  external: {}
`, image(t, images.Agent())),
	})
}

// TestNothingAcknowledgedIsLostWhenTheServerIsKilledUnderLoad kills the server
// with SIGKILL right after a thousand acknowledged posts, while more are on
// their way. It comes back with the same authority and serves both trajectories,
// and the journal has every acknowledged request, without gaps, chain intact.
func TestNothingAcknowledgedIsLostWhenTheServerIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	busy, quiet := b.id("busy"), b.id("quiet")
	dir := scratchHost(t)
	upBusy, upQuiet := b.up(dir, busy), b.up(dir, quiet)
	before := b.ctis("ca").must(t, 0).stdout

	load := exec.Command("docker", "exec", upBusy.container(t, "default"), images.Program, "load", "https://filebin.net/webhook", "3000", "16")
	out, err := load.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[string]string{} // body by id
	killed := false
	for sc := bufio.NewScanner(out); sc.Scan(); {
		id, body, _ := strings.Cut(sc.Text(), " ")
		acknowledged[id] = body
		if len(acknowledged) == 1000 {
			b.killSimulator()
			killed = true
		}
	}
	if err := load.Wait(); err != nil {
		t.Errorf("the load ended with %v", err)
	}
	if !killed || len(acknowledged) < 3000 {
		t.Fatalf("%d posts acknowledged, killed: %v", len(acknowledged), killed)
	}

	eventually(t, "the simulator answers", func() bool { return b.ctis("ca").code == 0 })
	if after := b.ctis("ca").must(t, 0).stdout; after != before {
		t.Error("the certificate authority changed")
	}
	for _, up := range []upJSON{upBusy, upQuiet} {
		b.exec(up.container(t, "default"), images.Program, "fetch", "-d", "afterwards", "https://filebin.net/webhook")
	}
	if n := len(b.journal(quiet)); n != 1 {
		t.Errorf("the quiet trajectory has %d records, not 1", n)
	}

	text := b.ctis("logs", busy, "--json").must(t, 0).stdout
	found := map[string]bool{}
	prev := strings.Repeat("0", 64)
	for i, line := range lines(text) {
		var r api.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Seq != uint64(i+1) {
			t.Fatalf("record %d has the sequence number %d", i+1, r.Seq)
		}
		if r.Prev != prev {
			t.Fatalf("the chain breaks at record %d", r.Seq)
		}
		sum := sha256.Sum256([]byte(line))
		prev = hex.EncodeToString(sum[:])
		if body, ok := acknowledged[r.ID]; ok {
			found[r.ID] = true
			if r.Request.Body.Content != body {
				t.Errorf("record %d has the body %q, not %q", r.Seq, r.Request.Body.Content, body)
			}
		}
	}
	for id := range acknowledged {
		if !found[id] {
			t.Errorf("acknowledged and not in the journal: %s", id)
		}
	}
}

// TestRawLinesAreAChainThatAShellCanCheck runs the check that docs/journal.md
// gives, also over records that took two lines.
func TestRawLinesAreAChainThatAShellCanCheck(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	id := b.id("chain")
	up := b.up(scratchHost(t), id)
	agent := up.container(t, "default")
	b.exec(agent, images.Program, "fetch", "-d", "small", "https://filebin.net/webhook")
	big := strings.Repeat("0123456789abcdef", 16<<10/16*10) // 160 KiB: more than is held before sending
	for _, method := range []string{"PUT", "GET"} {
		args := []string{"exec", "-i", agent, images.Program, "fetch", "-X", method}
		if method == "PUT" {
			args = append(args, "-d", big[:100<<10])
		}
		if out, err := exec.Command("docker", append(args, "https://filebin.net/data/big")...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %.300s", method, err, out)
		}
	}
	raw := b.ctis("logs", id, "--raw").must(t, 0).stdout
	if n := len(lines(raw)); n != 4 {
		t.Errorf("%d stored lines, not 4", n)
	}
	prev := strings.Repeat("0", 64)
	for i, line := range lines(raw) {
		if !strings.Contains(line, `"prev":"`+prev+`"`) {
			t.Fatalf("line %d does not carry %s: %.200s", i+1, prev, line)
		}
		sum := sha256.Sum256([]byte(line))
		prev = hex.EncodeToString(sum[:])
	}
	records := b.journal(id)
	last := records[len(records)-1]
	if len(records) != 3 || last.Response == nil || last.Response.Status != 200 || last.Response.Body.Size != 100<<10 || last.OutcomeUnknown {
		t.Errorf("%d records, the last: %+v", len(records), last)
	}
	// The verbs that read a journal, while the trajectory is up and after it, bodies
	// that are files included.
	for _, when := range []string{"up", "down"} {
		b.ctis("verify", id).must(t, 0)
		b.ctis("assert", id, "--method", "PUT", "--body-contains", "abcdef01", "--then", "--status", "200", "--count", "1").must(t, 0)
		b.ctis("assert", id, "--host", "evil.example", "--none").must(t, 0)
		b.ctis("assert", id, "--host", "evil.example").must(t, 1)
		if r := b.ctis("find", id, "--text", "--canary", "ef0123456789abcdef0123").must(t, 0); !strings.Contains(r.stdout, "seq 2  body  plain") {
			t.Errorf("%s: found %s", when, r.stdout)
		}
		b.ctis("find", id, "--text", "--canary", "not sent by anybody").must(t, 1)
		dir := filepath.Join(t.TempDir(), "evidence")
		b.ctis("export", id, dir).must(t, 0)
		if r := b.ctis("verify", dir).must(t, 0); !strings.Contains(r.stdout, "3 records, 1 body kept as files") {
			t.Errorf("%s: %s", when, r.stdout)
		}
		exported, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
		if err != nil || string(exported) != raw {
			t.Errorf("%s: the exported lines are not those stored: %v", when, err)
		}
		if r := b.ctis("show", id, "2", "--raw").must(t, 0); r.stdout != big[:100<<10] {
			t.Errorf("%s: the body shown has %d bytes", when, len(r.stdout))
		}
		if when == "up" {
			b.ctis("down", id, "--timeout", "0s").must(t, 0)
		}
	}
}
