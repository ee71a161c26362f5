package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
)

// TestFixedNamesAndPortsAreGivenUpAndKeepTheirUse: two trajectories of one environment
// run at once; siblings still find a container by its container_name, on every network
// of its service; each port is published on the host address that was asked for, and
// ctis up says where.
func TestFixedNamesAndPortsAreGivenUpAndKeepTheirUse(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	base := 20000 + b.number()%20000
	port := func(n int) string { return fmt.Sprint(base + n) }
	dir := environment(t, map[string]string{
		"ctis.toml": "network = \"external\"\n[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
		"compose.yml": fmt.Sprintf(`services:
  default:
    image: %[1]s
    command: [wait]
    networks: [external]
  behind:
    image: %[1]s
    command: [wait]
    networks: [inner]
  web:
    image: %[1]s
    command: [serve, ":80"]
    container_name: the-web-server
    networks: [external, inner]
    ports:
      - "127.0.0.1:%[2]s:80"
      - "%[3]s-%[4]s:81-82"
      - "%[5]s-%[6]s:80"
      - "%[2]s:53/udp"
      - target: 80
        published: "%[7]s"
        host_ip: 127.0.0.1
        protocol: tcp
      - "8443"
  beside:
    image: %[1]s
    command: [wait]
    container_name: the-sidecar
    network_mode: service:web
networks:
  external: {}
  inner: {internal: true}
`, image(t, images.Agent()), port(0), port(1), port(2), port(3), port(5), port(6)),
	})
	seen := map[string]bool{} // ports of this trajectory, as ctis up shows them
	for i := range 2 {
		id := b.id(fmt.Sprint("n", i))
		t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
		r := b.ctis("up", dir, "--id", id, "--json").must(t, 0)
		for said, times := range map[string]int{
			`service "web" sets container_name "the-web-server", which becomes a network alias`:   1,
			`service "beside" sets container_name "the-sidecar", which is dropped`:                1,
			`publishes 80 on the fixed host port ` + port(0) + `, which becomes an ephemeral one`: 1,
			"becomes an ephemeral one": 6,
		} {
			if n := strings.Count(r.stderr, said); n != times {
				t.Errorf("%q is said %d times in\n%s", said, n, r.stderr)
			}
		}
		var up upJSON
		if err := json.Unmarshal([]byte(r.stdout), &up); err != nil {
			t.Fatal(err)
		}
		for _, service := range []string{"default", "behind"} {
			b.exec(up.container(t, service), images.Program, "fetch", "http://the-web-server/")
		}
		published := map[string]bool{} // "127.0.0.1 80/tcp"
		for _, s := range up.Services {
			for _, p := range s.Ports {
				host, container, _ := strings.Cut(p, "->")
				ip, number, err := net.SplitHostPort(host)
				if err != nil || s.Service != "web" {
					t.Fatalf("service %q, port %q: %v", s.Service, p, err)
				}
				for n := range 7 {
					if number == port(n) {
						t.Errorf("%s is on its fixed port", p)
					}
				}
				if published[ip+" "+container] = true; ip != "::" { // with IPv6 the engine publishes there too
					seen[p] = true
				}
			}
		}
		for _, want := range []string{"127.0.0.1 80/tcp", "0.0.0.0 80/tcp", "0.0.0.0 81/tcp", "0.0.0.0 82/tcp", "0.0.0.0 53/udp", "0.0.0.0 8443/tcp"} {
			if !published[want] {
				t.Errorf("not published: %s\n%s", want, r.stdout)
			}
		}
		text := b.ctis("up", dir, "--id", id).must(t, 0) // again, for people
		for p := range seen {
			if !strings.Contains(text.stdout, "  web: "+p+"\n") {
				t.Errorf("ctis up does not show %s:\n%s", p, text.stdout)
			}
		}
		clear(seen)
		b.answersOnLoopback(id)
	}
}

// answersOnLoopback asks the web server of a trajectory by each port that leads to it.
func (b *bed) answersOnLoopback(id string) {
	b.t.Helper()
	ports := lines(b.docker("port", id+"-web-1", "80/tcp"))
	if len(ports) == 0 {
		b.t.Error("80 is not published")
	}
	client := http.Client{Timeout: 10 * time.Second}
	for _, p := range ports {
		ip, number, err := net.SplitHostPort(p)
		if err != nil {
			b.t.Fatal(err)
		}
		if ip == "::" {
			continue // a port of its own, for IPv6
		}
		resp, err := client.Get("http://127.0.0.1:" + number + "/")
		if err != nil {
			b.t.Errorf("%s: %v", p, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body) // its status is what counts
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.t.Errorf("%s answers %d", p, resp.StatusCode)
		}
	}
}

// TestTwoNetworksOfOneNameAreRefusedByTheirIDs: engines before 25 make them where two
// ask at once. Neither is used.
func TestTwoNetworksOfOneNameAreRefusedByTheirIDs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	name := b.id("twice")
	dial := engine(t).Dialer()
	api := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}
	var ids []string
	for range 2 {
		resp, err := api.Post("http://engine/v1.41/networks/create", "application/json", strings.NewReader(`{"Name":"`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		var made struct{ Id, Message string }
		err = json.NewDecoder(resp.Body).Decode(&made)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if made.Id == "" && len(ids) == 1 && strings.Contains(made.Message, "already exists") {
			return // this engine makes none: there is nothing to refuse
		}
		if made.Id == "" {
			t.Fatalf("the engine says %q", made.Message)
		}
		t.Cleanup(func() { b.docker("network", "rm", made.Id) })
		ids = append(ids, made.Id)
	}
	dir := lab(t, "", "networks:\n  external:\n    external: true\n    name: "+name+"\n")
	r := b.ctis("up", dir, "--id", b.id("x")).must(t, 1)
	if !strings.Contains(r.stderr, "exists 2 times") || !strings.Contains(r.stderr, ids[0]) || !strings.Contains(r.stderr, ids[1]) {
		t.Errorf("says\n%s", r.stderr)
	}
	if left := b.leftOf(b.id("x")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
