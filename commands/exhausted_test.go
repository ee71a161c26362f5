package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
)

// crowdedEngine has networks of every kind and says so over the engine's API.
func crowdedEngine(t *testing.T) *app {
	t.Helper()
	type object map[string]any
	labels := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	project := "com.docker.compose.project"
	networks := []object{
		{"Name": "bridge"},
		{"Name": "a_x", "Labels": labels(project, "a", "io.ctis.trajectory", "a")},
		{"Name": "left_x", "Labels": labels(project, "left")},
	}
	for i := range 14 {
		id := fmt.Sprintf("old%02d", i)
		networks = append(networks, object{"Name": id + "_x", "Labels": labels(project, id, "io.ctis.trajectory", id)})
	}
	containers := []object{{"Id": "c", "State": "running", "Labels": labels(project, "a")}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/networks"):
			_ = json.NewEncoder(w).Encode(networks)
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			_ = json.NewEncoder(w).Encode(containers)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	eng, err := client.NewClientWithOpts(client.WithHost("tcp://"+strings.TrimPrefix(srv.URL, "http://")), client.WithVersion(minAPI))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	return &app{engine: eng, instance: "ctis"}
}

func TestNoAddressSpaceIsExitFiveWithWhatFillsIt(t *testing.T) {
	a := crowdedEngine(t)
	refused := func(lines ...string) error {
		return fmt.Errorf("create: %w", &compose.RunError{Command: "create", Lines: lines, Err: &exec.ExitError{}})
	}
	full := &netpin.ExhaustedError{Pool: netip.MustParsePrefix("10.9.0.0/26"), Networks: []string{"external"}, Taken: 2}
	for name, tc := range map[string]struct {
		err  error
		exit int
		says []string
	}{
		"the pool is full": {full, exitAddresses, []string{"17 networks: 1 of trajectories that run, 14 of trajectories without a running container, 1 that Compose projects left behind, 1 others",
			"ctis down old00 old01", "(and 2 more)", "docker compose -p NAME down removes what is left of left", "10.9.0.0/26 (64 addresses", "CTIS_ADDRESS_POOL"}},
		"the engine's own pools are full": {refused("Network x Creating", "failed to create network x: Error response from daemon: could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"),
			exitAddresses, []string{"17 networks", `"default-address-pools"`}},
		"in a newer engine's words, and not in the last line": {refused("Error response from daemon: all predefined address pools have been fully subnetted", "exiting"),
			exitAddresses, []string{`"default-address-pools"`}},
		"an IPv6 network without a subnet": {refused("could not find an available, non-overlapping IPv6 address pool among the defaults to assign to the network"),
			exitAddresses, []string{"enable_ipv6"}},
		"anything else": {refused("no such image"), exitFailed, nil},
	} {
		f := explain(context.Background(), "ctis", a.explainExhausted(t.Context(), tc.err))
		if f.exit != tc.exit {
			t.Errorf("%s: exit code %d: %+v", name, f.exit, f)
		}
		for _, s := range tc.says {
			if !strings.Contains(f.Hint, s) {
				t.Errorf("%s: the hint lacks %q: %s", name, s, f.Hint)
			}
		}
		if tc.exit == exitAddresses && (f.Details["networks"] != 17 || f.Details["stopped"] != 14 || len(f.Details["trajectories"].([]string)) != 14) {
			t.Errorf("%s: details %v", name, f.Details)
		}
	}
	if a.explainExhausted(t.Context(), nil) != nil {
		t.Error("no error became one")
	}
	if lostRace(refused("could not find an available, non-overlapping IPv4 address pool")) || lostRace(errors.New("no")) {
		t.Error("what trying again cannot help is tried again")
	}
	if !lostRace(refused("Pool overlaps with other one on this address space", "exit status 1")) {
		t.Error("a lost race is not seen where it is not the last line")
	}
}
