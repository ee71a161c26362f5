package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func TestTwoTrajectoriesExposeOneHostnameEach(t *testing.T) {
	t.Parallel()
	b, nginx := newExposedBed(t)
	label := strings.Repeat("a", 63)
	var many strings.Builder
	name := func(i int) string {
		return fmt.Sprintf("h%03d.%s.%s.%s.%s.example", i, label, label, label, label[:48])
	}
	for i := range 499 {
		fmt.Fprintf(&many, "%q = \"web:%d\"\n", name(i), 3000+i%2)
	}
	if n := len(name(0)); n != 253 {
		t.Fatalf("names have %d characters", n)
	}
	// The second has as many, and as long, names as there may be.
	ids, dirs, agents := []string{b.id("one"), b.id("two")}, []string{}, []string{}
	for i, more := range []string{"", many.String()} {
		dir := environment(t, map[string]string{
			"ctis.toml": "network = \"external\"\n[exposed_services]\n\"api.taskflow.co\" = \"web:3000\"\n" + more,
			"compose.yaml": fmt.Sprintf(`services:
  default: {image: %[1]q, command: [sleep, infinity], init: true, networks: [external]}
  edge: {image: %[1]q, command: [sleep, infinity], init: true, networks: [external]}
  web: {image: %[2]q, command: [%[3]q, ":3000", ":3001"], networks: [inner]}
networks: {external: {driver: bridge, enable_ipv6: %[4]t}, inner: {}}
`, nginx, origins(t), fmt.Sprint("web-", i), i == 0),
		})
		up := b.up(dir, ids[i])
		dirs = append(dirs, dir)
		agents = append(agents, up.container(t, "default"))
		b.exec(up.container(t, "edge-2"), "nginx", "-e", "stderr", "-t", "-c", "/etc/edge/nginx.conf")
	}
	const each = 50
	var wait sync.WaitGroup
	for i, agent := range agents {
		wait.Go(func() {
			got := b.exec(agent, "sh", "-c", fmt.Sprintf("for i in $(seq %d); do curl -sS -o /dev/null -w '%%header{x-origin}\\n' https://api.taskflow.co/?n=$i; done", each))
			if want := strings.Repeat(fmt.Sprintf("web-%d\n", i), each); got != want {
				t.Errorf("trajectory %d: %q", i, got)
			}
		})
	}
	wait.Wait()
	if got := b.curl(agents[1], "-w", " %header{x-origin}", "-o", "/dev/null", "https://"+name(498)+"/"); got != " web-1" {
		t.Errorf("the last of 500 hostnames: %q", got)
	}
	if got := b.curl(agents[0], "-6", "-w", " %header{x-origin}", "-o", "/dev/null", "https://api.taskflow.co/?n=6"); got != " web-0" {
		t.Errorf("by IPv6: %q", got)
	}
	for i, id := range ids {
		n := i // the first was asked once more
		for _, r := range b.journal(id, "--kind", "exposed", "--host", "api.taskflow.co") {
			if r.Trajectory != id || r.Exposed.Target != "web:3000" {
				t.Errorf("%+v", r)
			}
			n++
		}
		if n != each+1 {
			t.Errorf("trajectory %d: %d of %d requests are in the journal", i, n-i, each+1-i)
		}
	}

	// So does the example, as a user copies it.
	example := b.id("example")
	t.Cleanup(func() { b.ctis("down", example, "--timeout", "0s") })
	cmd := b.command("up", "../examples/exposed", "--id", example)
	cmd.Env = append(cmd.Env, "AGENT_IMAGE="+nginx, "SERVICE_IMAGE="+nginx)
	finish(t, cmd).must(t, 0)
	agent := example + "-default-1"
	eventually(t, "the example's service answers", func() bool { return b.curl(agent, "-d", "first", "http://api.example.com/") == `{"order": 1}`+"\n" })
	if got := b.curl(agent, "https://api.example.com/list?all"); !strings.Contains(got, `{"orders": ["first"], "asked": "https://api.example.com/list?all"`) {
		t.Errorf("the example's service: %q", got)
	}
	if got := b.curl(agent, "-X", "DELETE", "https://admin.example.com/"); got != `{"orders": []}`+"\n" {
		t.Errorf("the example's other port: %q", got)
	}
	b.ctis("down", example, "--timeout", "0s").must(t, 0)

	// Somebody removes the sidecar, with what nobody had read.
	b.curl(agents[0], "http://api.taskflow.co/unread")
	b.docker("rm", "-f", "-v", ids[0]+"-edge-2-1")
	if got := b.ctis("status").must(t, 0); !strings.Contains(got.stderr, "the sidecar of the exposed services is gone") {
		t.Errorf("status: %s", got.stderr)
	}
	if r := b.ctis("repair", ids[0]); r.code != 1 || !strings.Contains(r.stderr, "ctis up") {
		t.Errorf("repair: %d %s", r.code, r.stderr)
	}
	// And puts a target on its network by hand, where nobody finds it then.
	web := ids[0] + "-web-1"
	b.up(dirs[0], ids[0])
	if got := b.ctis("status").must(t, 0); strings.Contains(got.stderr, "sidecar") {
		t.Errorf("status: %s", got.stderr)
	}
	b.docker("network", "disconnect", ids[0]+"_inner", web)
	b.docker("network", "connect", ids[0]+"_inner", web)
	if got := b.ctis("status").must(t, 0); !strings.Contains(got.stderr, "without a way to container \""+web) {
		t.Errorf("status: %s", got.stderr)
	}
	up := b.up(dirs[0], ids[0])
	b.curl(agents[0], "https://api.taskflow.co/back")

	// It is no longer what this ctis would make: then it is made anew, and nothing it
	// logged is lost.
	conf := t.TempDir() + "/nginx.conf"
	b.docker("cp", up.container(t, "edge-2")+":/etc/edge/nginx.conf", conf)
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, append(text, "# of another version\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	b.docker("cp", conf, up.container(t, "edge-2")+":/etc/edge/nginx.conf")
	r := b.ctis("up", dirs[0], "--id", ids[0]).must(t, 0)
	if !strings.Contains(r.stderr, "its configuration is another one now") {
		t.Errorf("up: %s", r.stderr)
	}
	if got := b.curl(agents[0], "-o", "/dev/null", "-w", "%header{x-origin}", "https://api.taskflow.co/anew"); got != "web-0" {
		t.Errorf("of the sidecar that was made anew: %q", got)
	}
	var told []string
	for _, r := range b.journal(ids[0]) {
		switch {
		case r.Kind == api.KindGap:
			told = append(told, r.Error)
		case r.Request != nil && !strings.HasPrefix(r.Request.Target, "/?n="):
			told = append(told, r.Request.Target)
		}
	}
	if len(told) != 3 || !strings.Contains(told[0], "removed before they were read") || told[1] != "/back" || told[2] != "/anew" {
		t.Errorf("told is %q", told)
	}
}
