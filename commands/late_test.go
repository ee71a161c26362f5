package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/netpin"
)

// A network that a busy engine made after its try was taken back is this project's
// own, and another try removes it; one of somebody else is not to be touched.
func TestLateNetworksAreOnlyThoseOfTheProject(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/networks"):
			labels := map[string]string{"com.docker.compose.project": "t1", "com.docker.compose.network": "default"}
			_ = json.NewEncoder(w).Encode([]map[string]any{{"Id": "a", "Name": "t1_default", "Labels": labels}, {"Id": "b", "Name": "t1_default", "Labels": labels}})
		case strings.HasSuffix(r.URL.Path, "/volumes"):
			_, _ = w.Write([]byte("{}"))
		default:
			_, _ = w.Write([]byte("[]"))
		}
	}))
	defer srv.Close()
	eng, err := client.NewClientWithOpts(client.WithHost("tcp://"+strings.TrimPrefix(srv.URL, "http://")), client.WithVersion(minAPI))
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	s := &setup{app: &app{engine: eng, instance: "ctis"}, id: "t1"}
	twice := func(ids ...string) error {
		return fmt.Errorf("compose.yaml:1:1: %w", &netpin.AmbiguousNetworkError{Name: "t1_default", IDs: ids})
	}
	for _, c := range []struct {
		err  error
		late bool
	}{
		{twice("a", "b"), true},
		{twice("a", "foreign"), false},
		{errors.New("anything else"), false},
		{nil, false},
	} {
		if got := s.late(t.Context(), c.err); got != c.late {
			t.Errorf("%v: late is %v", c.err, got)
		}
	}
}
