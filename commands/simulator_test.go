package commands

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/linuxarena/ctis/server/admin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
)

// A script's simulator is the real journal behind the real administrative interface,
// and nothing else.

// simulatorOf connects the program to the script's simulator, if it has one.
func simulatorOf(socket string) func(context.Context) (*api.Client, error) {
	if socket == "" {
		return nil
	}
	return func(context.Context) (*api.Client, error) {
		return api.NewClient(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}), nil
	}
}

// failing is a collecting that fails for that reason; nil without one.
func failing(why string) func(context.Context, string) error {
	if why == "" {
		return nil
	}
	return func(context.Context, string) error { return errors.New(why) }
}

// scriptSimulator is the part of a simulator that has to do with journals.
type scriptSimulator struct {
	admin.Simulator
	store *journal.Store
}

func (s scriptSimulator) Journal(id string) (admin.Journal, bool) {
	j, ok := s.store.Lookup(id)
	return j, ok
}

func (s scriptSimulator) Journals() (*api.Journals, error) {
	list, err := s.store.List()
	return &api.Journals{Now: time.Now(), Journals: list}, err
}

// exchangeLine is one exchange as scripts write it.
type exchangeLine struct {
	Kind, Method, Host, Target, Body, Error string
	Repeat                                  int // the body, so often
	Status                                  int // 0 for no response
	Type                                    string
	Headers                                 [][2]string
	Answer, AnswerType, AnswerCoding        string // of a response that is kept
	AnswerRepeat                            int    // how often Answer stands in it
	TLS, Truncated, Pending                 bool
	Raw                                     string
	Dropped                                 uint64
}

// startSimulator is the script command `simulator ID FILE [DELAY]`: a simulator with the
// journal of ID, which has an exchange for each line of FILE. With a delay, each comes
// that much after the one before, in the background.
func startSimulator(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: simulator ID FILE [DELAY]")
	}
	dir, err := os.MkdirTemp("", "sim") // short: a socket's path is limited in length
	ts.Check(err)
	store, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), Now: func() time.Time { return time.Date(2026, 11, 29, 17, 0, 0, 5e6, time.UTC) }})
	ts.Check(err)
	j, err := store.Begin(args[0])
	ts.Check(err)
	content := ts.ReadFile(args[1])
	var delay time.Duration
	if len(args) == 3 {
		delay, err = time.ParseDuration(args[2])
		ts.Check(err)
	}
	write := func() error {
		for lines := bufio.NewScanner(strings.NewReader(content)); lines.Scan(); time.Sleep(delay) {
			if err := appendExchange(j, lines.Bytes()); err != nil {
				return err
			}
		}
		return nil
	}
	written := make(chan error, 1)
	if delay == 0 {
		ts.Check(write())
		written <- nil
	} else {
		go func() { written <- write() }()
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	srv := admin.NewServer(ctx, scriptSimulator{store: store}, slog.New(slog.DiscardHandler))
	go func() { _ = srv.Serve(l) }()
	ts.Defer(func() {
		err := <-written
		cancel()
		err = errors.Join(err, srv.Close(), store.Close(), os.RemoveAll(dir))
		if err != nil && !errors.Is(err, http.ErrServerClosed) {
			ts.Logf("simulator: %v", err)
		}
	})
	ts.Setenv("CTIS_TEST_SIMULATOR", l.Addr().String())
	ts.Setenv("JOURNAL", filepath.Join(dir, "journal", args[0]))
}

func appendExchange(j *journal.Journal, line []byte) error {
	var e exchangeLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return err
	}
	r := &api.Record{Kind: e.Kind, Client: api.Source{IP: "198.18.0.20", Port: 40211, Service: "default"}, Error: e.Error, Dropped: e.Dropped, DurationMS: 0.5}
	if e.TLS {
		r.TLS = &api.TLS{Version: "1.3", SNI: e.Host, ALPN: "h2"}
	}
	if e.Raw != "" {
		raw, err := kept(j, e.Raw)
		if err != nil {
			return err
		}
		r.Raw = &raw
	}
	if e.Method != "" {
		if e.Type != "" {
			e.Headers = append(e.Headers, [2]string{"Content-Type", e.Type})
		}
		body, err := kept(j, strings.Repeat(e.Body, max(1, e.Repeat)))
		if err != nil {
			return err
		}
		if e.Truncated {
			body.Encoding, body.Content, body.Truncated = api.EncodingNone, "", true
		}
		r.Request = &api.Request{Method: e.Method, Host: e.Host, Target: e.Target, Proto: "HTTP/1.1", Headers: e.Headers, Body: body}
	}
	if e.Status > 0 {
		r.Response = &api.Response{Status: e.Status, Headers: [][2]string{{"Server", "nginx"}}, Body: api.Received{Size: 2, SHA256: api.HexSHA256([]byte("ok"))}}
	}
	if e.Answer != "" {
		if err := keepAnswer(j, r.Response, &e); err != nil {
			return err
		}
	}
	if err := j.Append(r); err != nil || r.Response != nil || e.Pending || r.Request == nil {
		return err
	}
	return j.Finish(r.Seq, &api.Outcome{Error: e.Error})
}

// keepAnswer puts into a response what a backend would have answered.
func keepAnswer(j *journal.Journal, to *api.Response, e *exchangeLine) error {
	content := []byte(strings.Repeat(e.Answer, max(1, e.AnswerRepeat)))
	if e.AnswerType != "" {
		to.Headers = append(to.Headers, [2]string{"Content-Type", e.AnswerType})
	}
	if e.AnswerCoding != "" {
		to.Headers = append(to.Headers, [2]string{"Content-Encoding", e.AnswerCoding})
	}
	var out bytes.Buffer
	var w io.WriteCloser
	switch e.AnswerCoding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "br":
		w = brotli.NewWriter(&out)
	}
	if w != nil {
		if _, err := w.Write(content); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		content = out.Bytes()
	}
	spool := j.NewAnswer()
	defer spool.Discard()
	if _, err := spool.Write(content); err != nil {
		return err
	}
	to.Body = api.Received(j.Keep(spool))
	return nil
}

func kept(j *journal.Journal, content string) (api.Body, error) {
	spool := j.NewSpool()
	defer spool.Discard()
	if _, err := io.WriteString(spool, content); err != nil {
		return api.Body{}, err
	}
	b := j.Keep(spool)
	return b, spool.Err()
}
