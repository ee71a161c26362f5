package commands

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docker/docker/client"
)

func TestWhereTheSidecarsImageComesFromIsTold(t *testing.T) {
	for _, c := range []struct {
		name            string
		image, registry int // status of the engine's answers
		detail, err     string
	}{
		{"here", 200, 500, `"mine:1" is here`, ""},
		{"elsewhere", 404, 200, `"mine:1" is pulled when`, ""},
		{"nowhere", 404, 404, "", `"mine:1", which exposed services need, is not here`},
		{"an engine that fails", 500, 200, "", `look for image "mine:1"`},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := c.image
			if strings.Contains(r.URL.Path, "/distribution/") {
				status = c.registry
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{}`))
		}))
		eng, err := client.NewClientWithOpts(client.WithHost("tcp://"+srv.Listener.Addr().String()), client.WithVersion("1.41"))
		if err != nil {
			t.Fatal(err)
		}
		a := &app{engine: eng, env: map[string]string{"CTIS_NGINX_IMAGE": "mine:1"}}
		detail, err := a.nginxReady(t.Context())
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || !strings.Contains(detail, c.detail) {
			t.Errorf("%s: %q, %v", c.name, detail, err)
		}
		if check := a.checkNginx(t.Context()); check.OK != (c.err == "") {
			t.Errorf("%s: %+v", c.name, check)
		}
		delete(a.env, "CTIS_NGINX_IMAGE")
		if check := a.checkNginx(t.Context()); !check.OK || (check.Fix != "") != (c.name == "nowhere") {
			t.Errorf("%s, which nobody named: %+v", c.name, check)
		}
		srv.Close()
	}
	if got := (&app{}).nginxImage(); got != "nginx:stable-alpine" {
		t.Errorf("the default is %q", got)
	}
}
