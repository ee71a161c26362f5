package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/persona"
)

// stuck is a handler that ends when it is let.
type stuck struct{ entered, let chan struct{} }

func (s stuck) Serve(http.ResponseWriter, string, *persona.Request) {
	s.entered <- struct{}{}
	<-s.let
}

func TestRemovalOfOneTrajectoryHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.UnregisterWait = 20 * time.Second })
	s := stuck{make(chan struct{}), make(chan struct{})}
	w.server.handlers = s
	w.register("t2", 2, plays("a.example", ""))
	c := w.dial(2, w.plain)
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-s.entered
	ctx := context.Background()
	removed, registered := make(chan error, 1), make(chan error, 1)
	go func() { _, err := w.admin.Unregister(ctx, "t2"); removed <- err }()
	eventually(t, "the status says that it is gone", func() bool {
		st, err := w.admin.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(st.Trajectories) == 0
	})
	w.register("t3", 3, plays("a.example", ""))
	if _, err := w.admin.Unregister(ctx, "t3"); err != nil {
		t.Error(err)
	}
	go func() {
		_, err := w.admin.Register(ctx, registration("t2", 2, plays("a.example", "")))
		registered <- err
	}()
	select {
	case err := <-removed:
		t.Errorf("removed (%v) with a request in work", err)
	case err := <-registered:
		t.Errorf("registered again (%v) with a request of the earlier one in work", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(s.let)
	if err := errors.Join(<-removed, <-registered); err != nil {
		t.Error(err)
	}
}

func TestRemovalCountsRequestsAlsoTheSecondTime(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.do(w.client(2, false), "GET", "http://a.example/", "")
	for _, c := range []struct {
		id   string
		want api.Unregistered
	}{
		{"t2", api.Unregistered{Known: true, Requests: 1}},
		{"t2", api.Unregistered{Requests: 1}},
		{"t9", api.Unregistered{}},
		{"_unattributed", api.Unregistered{}},
	} {
		if got, err := w.admin.Unregister(context.Background(), c.id); err != nil || *got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.id, got, err, c.want)
		}
	}
}

// follow reads a journal until it ends; stop ends it before.
func (w *world) follow(id string) (ended chan error, stop context.CancelFunc) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	ended = make(chan error, 1)
	go func() {
		ended <- w.admin.Journal(ctx, id, api.JournalQuery{Follow: true}, func([]byte) error { return nil })
	}()
	return ended, cancel
}

func TestFollowingEndsWithTheTrajectory(t *testing.T) {
	w := newWorld(t)
	ends := func(what string, ended chan error) {
		t.Helper()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s ends with %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s goes on", what)
		}
	}
	goesOn := func(what string, ended chan error) {
		t.Helper()
		select {
		case err := <-ended:
			t.Errorf("%s ends (%v)", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	for range 2 { // the second one's journal begins again
		w.register("t2", 2, plays("a.example", ""))
		w.do(w.client(2, false), "GET", "http://a.example/", "")
		ended, _ := w.follow("t2")
		goesOn("following a trajectory", ended)
		if _, err := w.admin.Unregister(context.Background(), "t2"); err != nil {
			t.Fatal(err)
		}
		ends("following a trajectory that was removed", ended)
		ended, _ = w.follow("t2")
		ends("following one that is not registered", ended)
	}
	earlier, _ := w.follow("t2~1")
	ends("following an earlier one", earlier)

	if c, err := w.dialFrom("127.9.9.9", "127.0.0.3", w.plain); err == nil {
		_, _ = io.ReadAll(c)
	}
	w.await(api.Unattributed, 1)
	w.register("t3", 3, plays("a.example", ""))
	w.stop()
	w.start()
	ended, stop := w.follow(api.Unattributed)
	goesOn("following what is nobody's", ended)
	stop()
	ended, stop = w.follow("t3")
	goesOn("following a trajectory after a restart", ended)
	stop()
	ended, _ = w.follow("t2")
	ends("following a removed one after a restart", ended)
}

func TestFilesWhereDirectoriesBelongAreSetAside(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.stop()
	for _, name := range []string{"tmp", "files"} {
		path := filepath.Join(w.state, name)
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	if r, _ := w.do(w.client(2, false), "PUT", "http://a.example/data/k", strings.Repeat("x", api.InlineBody+1)); r.StatusCode >= 300 {
		t.Errorf("status %d", r.StatusCode)
	}
	s, err := w.admin.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tmp", "files"} {
		if !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, name+".damaged-1") }) {
			t.Errorf("nothing is said about %s: %q", name, s.Problems)
		}
		if b, err := os.ReadFile(filepath.Join(w.state, name+".damaged-1")); err != nil || string(b) != "x" {
			t.Errorf("set aside: %q, %v", b, err)
		}
	}
}

func TestLostAuthorityIsReportedWhileContainersTrustIt(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.stop()
	w.start()
	problems := func() string {
		s, err := w.admin.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(s.Problems, "\n")
	}
	if p := problems(); p != "" {
		t.Errorf("after a restart: %s", p)
	}
	w.stop()
	if err := os.RemoveAll(filepath.Join(w.state, "ca")); err != nil {
		t.Fatal(err)
	}
	// A certificate tells seconds.
	later := func(o *Options) { o.Now = func() time.Time { return time.Now().Add(2 * time.Second) } }
	w.start(later)
	for range 2 {
		if p := problems(); !strings.Contains(p, "t2") || !strings.Contains(p, "authority was lost") {
			t.Errorf("problems: %q", p)
		}
		w.stop()
		w.start(later)
	}
	if _, err := w.admin.Unregister(context.Background(), "t2"); err != nil {
		t.Fatal(err)
	}
	w.register("t3", 3, plays("a.example", ""))
	if p := problems(); p != "" {
		t.Errorf("after it was set up again: %s", p)
	}
}
