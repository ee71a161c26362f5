package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// fake is a simulator of one trajectory, t1, that does as told.
type fake struct {
	err        error
	registered *api.Registration
	lines      []string
	readErr    error
}

func (f *fake) Status() *api.Status { return &api.Status{Protocol: api.Protocol, Problems: []string{}} }
func (f *fake) CA() []byte          { return []byte("-----BEGIN CERTIFICATE-----\n") }
func (f *fake) Register(r *api.Registration) (*api.Registered, error) {
	f.registered = r
	return &api.Registered{}, f.err
}
func (f *fake) Hold(string, []api.Exclusive) (func(), error) { return func() {}, f.err }
func (f *fake) Trajectory(string) (*api.TrajectoryStatus, error) {
	return &api.TrajectoryStatus{Trajectory: "t1"}, f.err
}
func (f *fake) SetPeers(string, api.Peers) error       { return f.err }
func (f *fake) SetNetworks(string, api.Networks) error { return f.err }
func (f *fake) SetPins(string, api.Pins) error         { return f.err }
func (f *fake) SetRules(_, host string, s api.RuleSet) (*api.HostRules, error) {
	return &api.HostRules{Host: host, Revision: len(s.Rules)}, f.err
}
func (f *fake) Rules(string) (*api.RulesList, error) {
	return &api.RulesList{Hosts: []api.HostRules{}}, f.err
}
func (f *fake) Certificates(_ string, hosts []string) (*api.Certificates, error) {
	return &api.Certificates{Certificates: []api.Certificate{{Host: hosts[0]}}}, f.err
}
func (f *fake) ExposedCursor(context.Context, string) (*api.ExposedCursor, error) {
	return &api.ExposedCursor{Container: "c"}, f.err
}
func (f *fake) RecordExposed(_ context.Context, _ string, b *api.ExposedBatch) (*api.ExposedCursor, error) {
	return &api.ExposedCursor{Container: b.Container, RequestID: "r9"}, f.err
}
func (f *fake) SetGateway(api.Gateway) error { return f.err }
func (f *fake) Unregister(context.Context, string) (*api.Unregistered, error) {
	return &api.Unregistered{Known: true}, f.err
}
func (f *fake) Journal(id string) (Journal, bool) { return f, id == "t1" }
func (f *fake) Journals() (*api.Journals, error) {
	return &api.Journals{Journals: []api.JournalInfo{{Name: "t1~2", Trajectory: "t1"}}}, f.err
}
func (f *fake) RemoveJournal(name string, before time.Time) error {
	if f.err == nil && (name != "t1~2" || before.Year() != 2026) {
		return fmt.Errorf("asked to remove %q of before %s", name, before)
	}
	return f.err
}
func (f *fake) StageAssets(_ string, upload io.Reader) (*api.AssetsStaged, error) {
	if b, err := io.ReadAll(upload); err != nil || string(b) != "archive" {
		return nil, fmt.Errorf("uploaded %q, %v", b, err)
	}
	return &api.AssetsStaged{Stage: "S"}, f.err
}
func (f *fake) CommitAssets(_, stage string, c api.AssetCommit) (*api.AssetsCommitted, error) {
	if stage != "S" || c.Files != 2 {
		return nil, fmt.Errorf("commits %q, %+v", stage, c)
	}
	return &api.AssetsCommitted{Replaced: []string{"a"}}, f.err
}
func (f *fake) DropAssets(string, string) error { return f.err }
func (f *fake) Assets(string) (*api.AssetList, error) {
	return &api.AssetList{Assets: []api.Asset{{Path: "a"}}}, f.err
}
func (f *fake) SeedDeleted(_, container string) error {
	if container != "c1" {
		return fmt.Errorf("deleted in %q", container)
	}
	return f.err
}
func (f *fake) Retire() error  { return f.err }
func (f *fake) Healthy() error { return f.err }
func (f *fake) Read(_ context.Context, _ api.JournalQuery, yield func([]byte) error) error {
	for _, l := range f.lines {
		if err := yield([]byte(l)); err != nil {
			return err
		}
	}
	return f.readErr
}

func (f *fake) Body(sum string) (io.ReadCloser, int64, error) {
	if sum != "abc" {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader("kept")), 4, f.err
}

func call(f *fake, method, target, content string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler(f, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(content)))
	return w
}

func TestRoutesAnswerAsTheirCommentsSay(t *testing.T) {
	for _, c := range []struct {
		method, target, content string
		status                  int
		says                    string
	}{
		{"GET", "/v1/health", "", 200, `"ok":true`},
		{"GET", "/v1/status", "", 200, `"protocol":4`},
		{"GET", "/v1/ca", "", 200, "BEGIN CERTIFICATE"},
		{"POST", "/v1/trajectories", `{"trajectory":"t1"}`, 200, `"unchanged":false`},
		{"GET", "/v1/trajectories/t1", "", 200, `"trajectory":"t1"`},
		{"PUT", "/v1/trajectories/t1/peers", `{"external":[{"service":"a","address":"192.0.2.1"}]}`, 200, "{}"},
		{"PUT", "/v1/trajectories/t1/networks", `[{"name":"external","id":"n9","addresses":["192.0.2.9"]}]`, 200, "{}"},
		{"PUT", "/v1/trajectories/t1/networks", `[{"name":"external","addresses":["nowhere"]}]`, 400, "nowhere"},
		{"PUT", "/v1/trajectories/t1/pins", `{"api":{"container":"c","network":"n","address":"192.0.2.7"}}`, 200, "{}"},
		{"PUT", "/v1/trajectories/t1/pins", `{"api":{"container":"c","network":"n","address":"here"}}`, 400, "here"},
		{"GET", "/v1/trajectories/t1/rules", "", 200, `"hosts":[]`},
		{"PUT", "/v1/trajectories/t1/rules/a.test", `{"rules":[{"path":"/","pass":true}]}`, 200, `"host":"a.test","revision":1`},
		{"PUT", "/v1/trajectories/t1/rules/a.test", `{"rules":[{"colour":"red"}]}`, 400, "colour"},
		{"POST", "/v1/trajectories/t1/certificates", `{"hosts":["api.example.com"]}`, 200, `"host":"api.example.com"`},
		{"POST", "/v1/trajectories/t1/certificates", `{"host":"api.example.com"}`, 400, `unknown field \"host\"`},
		{"GET", "/v1/trajectories/t1/exposed", "", 200, `"container":"c"`},
		{"POST", "/v1/trajectories/t1/exposed", `{"container":"c7","requests":[]}`, 200, `{"container":"c7","request_id":"r9"`},
		{"POST", "/v1/trajectories/t1/exposed", `{"requests":[{"ended":"now"}]}`, 400, "now"},
		{"DELETE", "/v1/trajectories/t1", "", 200, `"known":true`},
		{"GET", "/v1/trajectories/t1/journal", "", 200, "{\"seq\":1}\n{\"seq\":2}\n"},
		{"GET", "/v1/trajectories/t1/journal?method=PUT&path=/**&until=2026-01-02T03:04:05Z&first=2&last=9", "", 200, "{\"seq\":1}\n{\"seq\":2}\n"},
		{"GET", "/v1/trajectories/t1/bodies/abc", "", 200, "kept"},
		{"GET", "/v1/journals", "", 200, `"name":"t1~2","trajectory":"t1","records":0`},
		{"DELETE", "/v1/journals/t1~2?before=2026-01-02T03:04:05Z", "", 200, "{}"},
		{"POST", "/v1/retire", "", 200, "{}"},
		{"GET", "/v1/trajectories/t1/assets", "", 200, `"path":"a"`},
		{"POST", "/v1/trajectories/t1/assets", "archive", 200, `"stage":"S"`},
		{"POST", "/v1/trajectories/t1/assets/S", `{"files":2,"bytes":1,"digest":"d"}`, 200, `"replaced":["a"]`},
		{"POST", "/v1/trajectories/t1/assets/S", `{"files":2,"colour":"red"}`, 400, "colour"},
		{"DELETE", "/v1/trajectories/t1/assets/S", "", 200, "{}"},
		{"PUT", "/v1/trajectories/t1/assets/deleted/c1", "", 200, "{}"},

		{"DELETE", "/v1/journals/t1~2", "", 400, "before"},
		{"DELETE", "/v1/journals/t1~2?before=yesterday", "", 400, "before"},
		{"POST", "/v1/trajectories", `{"trajectory":"t1","colour":"red"}`, 400, "colour"},
		{"POST", "/v1/trajectories", `{} {}`, 400, "more than one"},
		{"POST", "/v1/trajectories", `{`, 400, "request body"},
		{"POST", "/v1/trajectories", `"` + strings.Repeat("x", maxBody) + `"`, 400, "too large"},
		{"PUT", "/v1/trajectories/t1/peers", `{"external":[{"service":"a","address":"nowhere"}]}`, 400, "request body"},
		{"GET", "/v1/trajectories/t9/journal", "", 404, `"t9\"`},
		{"GET", "/v1/trajectories/t1/journal?limit=-1", "", 400, "limit"},
		{"GET", "/v1/trajectories/t1/journal?since=yesterday", "", 400, "since"},
		{"GET", "/v1/trajectories/t1/journal?path=x", "", 400, "slash"},
		{"GET", "/v1/trajectories/t1/journal?colour=red", "", 400, "colour"},
		{"GET", "/v1/trajectories/t1/bodies/nope", "", 404, "no body"},
		{"GET", "/v1/trajectories/t9/bodies/abc", "", 404, `"t9\"`},
		{"GET", "/v2/status", "", 404, "not_found"},
		{"PUT", "/v1/status", "", 404, "not_found"},
	} {
		w := call(&fake{lines: []string{`{"seq":1}`, `{"seq":2}`}}, c.method, c.target, c.content)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d %.300s", c.method, c.target, w.Code, w.Body)
		}
		if c.status >= 400 && !strings.HasPrefix(w.Body.String(), `{"error":{"code":`) {
			t.Errorf("%s %s: refused with %.300s", c.method, c.target, w.Body)
		}
	}
}

func TestErrorsKeepTheirKindOnTheWire(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{api.Errorf(409, api.CodeConflict, "held"), 409, api.CodeConflict},
		{fmt.Errorf("wrapped: %w", api.Errorf(410, api.CodeRetired, "over")), 410, api.CodeRetired},
		{fmt.Errorf("write: %w", syscall.ENOSPC), 507, api.CodeStorage},
		{errors.New("something"), 500, api.CodeInternal},
	} {
		for _, route := range [][2]string{{"POST", "/v1/trajectories"}, {"DELETE", "/v1/trajectories/t1"}, {"POST", "/v1/retire"}, {"GET", "/v1/trajectories/t1"}, {"GET", "/v1/journals"}, {"DELETE", "/v1/journals/t1?before=2026-01-02T03:04:05Z"}} {
			w := call(&fake{err: c.err}, route[0], route[1], "{}")
			if w.Code != c.status || !strings.Contains(w.Body.String(), `"code":"`+c.code+`"`) {
				t.Errorf("%v on %s %s: %d %s", c.err, route[0], route[1], w.Code, w.Body)
			}
		}
	}
}

func TestJournalThatCannotBeReadToItsEndIsBrokenOff(t *testing.T) {
	s := httptest.NewServer(Handler(&fake{lines: []string{`{"seq":1}`}, readErr: io.ErrUnexpectedEOF}, slog.New(slog.DiscardHandler)))
	defer s.Close()
	r, err := http.Get(s.URL + "/v1/trajectories/t1/journal")
	if err == nil {
		_, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	if err == nil {
		t.Error("the journal looks complete")
	}
}

func TestSocketIsTheOwnersAloneAndAStaleOneIsReplaced(t *testing.T) {
	dir, err := os.MkdirTemp("", "ctis")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "run", "admin.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 || fi.Mode()&os.ModeSocket == 0 {
		t.Errorf("%v %v", fi, err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server took the socket over: %v", err)
	}
	// A killed process leaves the name behind.
	if err := l.(*socket).UnixListener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal("the stale socket is gone already")
	}
	l, err = Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is still there")
	}
}

func TestListenLeavesAFileThatIsNoSocketAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(path); err == nil {
		_ = l.Close()
		t.Error("it took the file's place")
	}
	if b, _ := os.ReadFile(path); !bytes.Equal(b, []byte("precious")) {
		t.Error("the file is gone")
	}
}

// TestHoldLastsAsLongAsItsConnection: the reservation ends with whoever made it,
// also when that is killed and says nothing more.
func TestHoldLastsAsLongAsItsConnection(t *testing.T) {
	released := make(chan struct{})
	f := &holder{fake: &fake{}, released: released}
	server := httptest.NewServer(Handler(f, slog.New(slog.DiscardHandler)))
	defer server.Close()
	const body = `{"exclusive":[{"kind":"volume","name":"shared"}]}`
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /v1/trajectories/t1/hold HTTP/1.1\r\nHost: x\r\nContent-Length: "+fmt.Sprint(len(body))+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	if fmt.Sprint(f.wanted) != "[{volume shared}]" {
		t.Errorf("what it wants arrives as %v", f.wanted)
	}
	select {
	case <-released:
		t.Fatal("released while the connection stands")
	default:
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-released
}

type holder struct {
	*fake
	released chan struct{}
	wanted   []api.Exclusive
}

func (h *holder) Hold(_ string, exclusive []api.Exclusive) (func(), error) {
	h.wanted = exclusive
	return func() { close(h.released) }, nil
}
