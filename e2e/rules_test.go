package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestRulesScriptWhatAHostDoes: the example as it stands, in two trajectories that do
// not notice each other; faults as curl sees them, over each version of HTTP; other
// rules while one of them runs; and counts that a killed simulator still has.
func TestRulesScriptWhatAHostDoes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ref := debian(t)
	up := func(id string) run {
		cmd := b.command("up", "../examples/rules", "--id", id)
		cmd.Env = append(cmd.Env, "AGENT_IMAGE="+ref)
		return finish(t, cmd).must(t, 0)
	}
	one, two := b.id("one"), b.id("two")
	t.Cleanup(func() { b.ctis("down", one, two, "--timeout", "0s") })
	var both sync.WaitGroup
	both.Go(func() { up(one) })
	both.Go(func() { up(two) })
	both.Wait()
	if t.Failed() {
		return
	}
	// curls runs curl once for each line, in one container: "WANTED ARGUMENTS", where
	// the wanted is what curl prints of status or, behind "!", its own exit code;
	// a reset is seen (56) or written into (55).
	curls := func(id string, script ...string) {
		t.Helper()
		var sh strings.Builder
		var want []string
		for _, line := range script {
			wanted, args, _ := strings.Cut(line, " ")
			sh.WriteString("out=$(curl -sS -o /tmp/out --max-time 5 -w '%{http_code}' " + args + " 2>/dev/null); code=$?; if [ $code = 0 ]; then echo $out; else echo !$code; fi\n")
			want = append(want, wanted)
		}
		got := strings.Fields(b.exec(id+"-default-1", "sh", "-c", sh.String()))
		if !slices.EqualFunc(got, want, func(got, want string) bool { return slices.Contains(strings.Split(want, "|"), got) }) {
			t.Errorf("%s: curl ends with %q, want %q", id, got, want)
		}
	}
	const packages, accounts = "https://packages.example.com", "https://accounts.example.com"
	curls(one,
		"503 -T /etc/hostname "+packages+"/public/simple/requests/requests-2.32.5.tar.gz",
		"401 "+accounts+"/account",
		`200 -c /tmp/jar --json '{"user":"admin","password":"hunter2"}' `+accounts+"/login",
		"200 -b /tmp/jar "+accounts+"/account",
		"!56 --http1.1 "+accounts+"/export/all",
		"!56|!55 --http2 "+accounts+"/export/all",
		"!56 http://accounts.example.com/export/all",
	)
	curls(two,
		"401 -b sid=0000000000000000000000000000000000000000000000000000000000000000 "+accounts+"/account",
		"503 -T /etc/hostname "+packages+"/public/a", "503 -T /etc/hostname "+packages+"/public/a", "201 -T /etc/hostname "+packages+"/public/a",
	)
	b.killSimulator() // as if it had crashed; the engine starts it again
	eventually(t, "the simulator answers", func() bool { return b.ctis("ca").code == 0 })
	curls(one,
		"503 -T /etc/hostname "+packages+"/public/simple/requests/requests-2.32.5.tar.gz",
		"201 -T /etc/hostname "+packages+"/public/simple/requests/requests-2.32.5.tar.gz",
		"200 -A pip/24.0 "+packages+"/public/simple/requests/requests-2.32.5.tar.gz",
		"200 -b /tmp/jar "+accounts+"/account",
	)
	if got := b.exec(one+"-default-1", "curl", "-sS", "-A", "pip/24.0", packages+"/public/simple/requests/requests-2.32.5.tar.gz"); got != "not the package it says it is\n" {
		t.Errorf("pip gets %q", got)
	}

	file := filepath.Join(t.TempDir(), "rules.toml")
	if err := os.WriteFile(file, []byte(`
[[rules]]
path = "/empty"
fault = "empty"
[[rules]]
path = "/cut"
fault = "truncate"
respond = { body = "0123456789" }
[[rules]]
path = "/never"
fault = "timeout"
[[rules]]
name = "late"
path = "/late"
delay = "300ms"
respond = { status = 418, body = "teapot" }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.ctis("rules", "set", one, "packages.example.com", file).must(t, 0)
	curls(one,
		"!52 --http1.1 "+packages+"/empty", "!52 http://packages.example.com/empty",
		"!18 --http1.1 "+packages+"/cut", "!92 --http2 "+packages+"/cut", "!18 http://packages.example.com/cut",
		"!28 --max-time 1 "+packages+"/never", "!28 --max-time 1 http://packages.example.com/never",
		"418 "+packages+"/late", "404 -A pip/24.0 "+packages+"/public/simple/requests/requests-2.32.5.tar.gz.asc",
	)
	curls(two, "404 "+packages+"/late", "200 -A pip/24.0 "+packages+"/public/simple/requests/requests-2.32.5.tar.gz")

	var hosts []api.HostRules
	if err := json.Unmarshal([]byte(b.ctis("rules", "ls", one, "--json").must(t, 0).stdout), &hosts); err != nil || len(hosts) != 2 {
		t.Fatalf("%+v, %v", hosts, err)
	}
	if h := hosts[0]; h.Revision != 1 || h.Rules[3].Ref != "late" || h.Rules[3].Fired != 1 || h.Rules[0].Fired != 2 || h.Rules[1].Fired != 3 || h.Rules[2].Fired != 2 {
		t.Errorf("%+v", h)
	}
	if h := hosts[1]; h.State != "logged-in" || h.Revision != 0 {
		t.Errorf("%+v", h)
	}
	if again := up(one); !strings.Contains(again.stderr, `rules of "packages.example.com" were replaced`) {
		t.Errorf("up again says:\n%s", again.stderr)
	}
	logs := b.ctis("logs", one, "--json", "--kind", "rule", "--kind", "rules_set").must(t, 0).stdout
	for _, want := range []string{`"rule":"login"`, `"rule":"flaky"`, `"kind":"rules_set"`, `"error":"connection closed by rule 1"`, `"error":"cut short by rule 2"`, `"error":"connection reset by rule gone"`} {
		if !strings.Contains(logs, want) {
			t.Errorf("%s is not in\n%s", want, logs)
		}
	}
}
