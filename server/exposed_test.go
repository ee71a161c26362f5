package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// exposing registers trajectory n with two exposed hostnames.
func (w *world) exposing(id string, n int) {
	w.t.Helper()
	r := registration(id, n, plays("a.example", ""))
	r.Exposed = []api.Exposed{{Host: "api.example", Service: "web", Port: 3000}, {Host: "other.example", Service: "web", Port: 3001}}
	if _, err := w.admin.Register(context.Background(), r); err != nil {
		w.t.Fatal(err)
	}
}

func TestCertificatesAreForWhatATrajectoryExposes(t *testing.T) {
	w := newWorld(t)
	w.exposing("t2", 2)
	ctx := context.Background()
	made, err := w.admin.Certificates(ctx, "t2", []string{"other.example", "api.example"})
	if err != nil || len(made) != 2 {
		t.Fatalf("%+v, %v", made, err)
	}
	authority, err := w.admin.CA(ctx)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	keys := map[string]bool{}
	for i, host := range []string{"other.example", "api.example"} {
		pair, err := tls.X509KeyPair([]byte(made[i].Certificate), []byte(made[i].Key))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil || made[i].Host != host || len(pair.Leaf.DNSNames) != 1 {
			t.Errorf("%s: %v, %q", host, err, pair.Leaf.DNSNames)
		}
		if left := time.Until(pair.Leaf.NotAfter); left < 80*24*time.Hour || left > 90*24*time.Hour {
			t.Errorf("%s: valid for %s", host, left)
		}
		keys[made[i].Key] = true
	}
	// No key is another's, and none is one that the simulator serves with.
	again, err := w.admin.Certificates(ctx, "t2", []string{"api.example"})
	if err != nil {
		t.Fatal(err)
	}
	keys[again[0].Key] = true
	if len(keys) != 3 {
		t.Errorf("%d keys for 3 certificates", len(keys))
	}
	for id, hosts := range map[string][]string{"t2": {"a.example"}, "t9": {"api.example"}} {
		if got, err := w.admin.Certificates(ctx, id, hosts); code(err) == "" {
			t.Errorf("%s %q: %+v, %v", id, hosts, got, err)
		}
	}
}

// request is the n-th that a sidecar logs.
func request(n int) api.ExposedRequest {
	return api.ExposedRequest{
		ID: fmt.Sprintf("%032x", n), Ended: api.Time{Time: time.Unix(1796004600, int64(n)*1e6).UTC()}, DurationMS: 250,
		IP: "127.0.2.5", Port: 4021, Host: "api.example", Method: "GET", Asked: "api.example", Target: fmt.Sprint("/", n), Proto: "HTTP/1.1",
		Length: -1, Received: 79, Sent: 500, Body: 400, Status: 200, Upstream: "198.18.0.7:3000",
	}
}

func requests(from, to int) []api.ExposedRequest {
	all := []api.ExposedRequest{}
	for n := from; n <= to; n++ {
		all = append(all, request(n))
	}
	return all
}

func TestRequestsOfASidecarAreRecordedOnce(t *testing.T) {
	w := newWorld(t)
	w.exposing("t2", 2)
	ctx := context.Background()
	cursor := func() api.ExposedCursor {
		t.Helper()
		at, err := w.admin.ExposedCursor(ctx, "t2")
		if err != nil {
			t.Fatal(err)
		}
		return *at
	}
	record := func(b api.ExposedBatch, want string) {
		t.Helper()
		if at, err := w.admin.RecordExposed(ctx, "t2", &b); code(err) != want || want == "" && (err != nil || *at != cursor()) {
			t.Errorf("%+v, %v; want code %q", at, err, want)
		}
	}
	record(api.ExposedBatch{Container: "c1", Requests: requests(1, 3)}, "")
	record(api.ExposedBatch{Container: "c1", Requests: requests(1, 3)}, api.CodeConflict) // its cursor is that of nothing
	record(api.ExposedBatch{Container: "c1", After: cursor(), Requests: requests(4, 4)}, "")
	if at := cursor(); at.Container != "c1" || at.RequestID != request(4).ID || !at.Ended.Equal(request(4).Ended.Time) {
		t.Errorf("%+v", at)
	}
	// A simulator that was restarted knows it from the journal.
	before := cursor()
	w.stop()
	w.start()
	if at := cursor(); at != before {
		t.Errorf("after a restart %+v, before %+v", at, before)
	}
	record(api.ExposedBatch{Container: "c1", After: cursor(), Lost: true, Requests: requests(9, 9)}, "")
	record(api.ExposedBatch{Container: "c1", After: cursor(), Final: true}, "")
	record(api.ExposedBatch{Container: "c2", After: cursor(), Requests: requests(10, 10)}, "") // in its place, after its end
	record(api.ExposedBatch{Container: "c3", After: cursor(), Requests: requests(11, 11)}, "") // without
	var got []string
	for _, r := range w.records("t2") {
		switch {
		case r.Kind == api.KindGap && r.Error != "":
			got = append(got, "gap")
		case r.Kind == api.KindExposed:
			got = append(got, r.Request.Target)
		}
	}
	if text := strings.Join(got, " "); text != "/1 /2 /3 /4 gap /9 /10 gap /11" {
		t.Errorf("the journal has %s", text)
	}

	for what, change := range map[string]func(*api.ExposedRequest){
		"an id that is none":    func(q *api.ExposedRequest) { q.ID = "../../../../../../../../../../etc" },
		"no client":             func(q *api.ExposedRequest) { q.IP = "nobody" },
		"no time":               func(q *api.ExposedRequest) { q.Ended = api.Time{} },
		"a negative size":       func(q *api.ExposedRequest) { q.Sent = -1 },
		"a status beyond all":   func(q *api.ExposedRequest) { q.Status = 1000 },
		"more text than can be": func(q *api.ExposedRequest) { q.Target = strings.Repeat("x", maxExposedText+1) },
	} {
		q := request(12)
		change(&q)
		if _, err := w.admin.RecordExposed(ctx, "t2", &api.ExposedBatch{Container: "c3", After: cursor(), Requests: []api.ExposedRequest{q}}); code(err) != api.CodeInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := w.admin.Unregister(ctx, "t2"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.RecordExposed(ctx, "t2", &api.ExposedBatch{Container: "c3"}); code(err) != api.CodeNotFound {
		t.Errorf("after the end: %v", err)
	}
	// The next of that id begins with nothing.
	w.exposing("t2", 2)
	if at := cursor(); at != (api.ExposedCursor{}) {
		t.Errorf("a new trajectory begins with %+v", at)
	}
}

func TestWhatASidecarSaysBecomesARecord(t *testing.T) {
	w := newWorld(t)
	w.exposing("t2", 2)
	over, unknown, broken, gone, away := request(1), request(2), request(3), request(4), request(5)
	over.TLS, over.SNI, over.Length, over.Host, over.Latin1, over.Target = "TLSv1.3", "Other.Example", 12, "other.example", true, "/ÿ"
	unknown.Host, unknown.Status, unknown.Upstream = "nobody.example", 404, ""
	broken.Method, broken.Host, broken.Status, broken.Upstream = "", "", 400, ""
	gone.Status, gone.Upstream = 502, ""
	away.Status = 499
	if _, err := w.admin.RecordExposed(context.Background(), "t2", &api.ExposedBatch{Container: "c1", Requests: []api.ExposedRequest{over, unknown, broken, gone, away}}); err != nil {
		t.Fatal(err)
	}
	all := w.records("t2", api.KindExposed)
	if len(all) != 5 {
		t.Fatalf("%d records", len(all))
	}
	r := all[0]
	if r.Persona != "other.example" || r.TLS == nil || r.TLS.Version != "1.3" || r.TLS.SNI != "Other.Example" || r.Request.Body.Size != 12 || r.Request.Charset != api.CharsetLatin1 || r.Request.Target != "/ÿ" ||
		!r.Time.Equal(over.Ended.Add(-250*time.Millisecond)) || r.DurationMS != 250 || r.Response.Status != 200 || r.Response.Body.Size != 400 || r.Client.Port != 4021 ||
		*r.Exposed != (api.ExposedFacts{Target: "web:3001", Upstream: "198.18.0.7:3000", Received: 79, Sent: 500, Container: "c1", RequestID: over.ID, Ended: over.Ended}) {
		t.Errorf("%+v, request %+v, exposed %+v", r, r.Request, r.Exposed)
	}
	if r := all[1]; r.Persona != "" || r.Exposed.Target != "" || r.Request == nil || r.Error != "" {
		t.Errorf("%+v", r)
	}
	if r := all[2]; r.Request != nil || r.Error != "the request could not be parsed" {
		t.Errorf("%+v", r)
	}
	if all[3].Error != "web:3000 is not there" || all[4].Error != "the client went away" {
		t.Errorf("%q, %q", all[3].Error, all[4].Error)
	}
}
