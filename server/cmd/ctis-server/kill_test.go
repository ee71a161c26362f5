package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

// stored is a server's journal as package evidence reads one.
type stored struct {
	admin *api.Client
	id    string
}

func (s stored) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	return s.admin.JournalBody(ctx, s.id, digest)
}

func (s stored) Lines(ctx context.Context, yield func([]byte) error) error {
	return s.admin.Journal(ctx, s.id, api.JournalQuery{Raw: true}, yield)
}

func (s stored) Status(ctx context.Context) (*api.JournalStatus, error) {
	list, err := s.admin.Journals(ctx)
	if err != nil {
		return nil, err
	}
	for _, j := range list.Journals {
		if j.Name == s.id {
			return &j.JournalStatus, nil
		}
	}
	return nil, fmt.Errorf("there is no journal %q", s.id)
}

// load posts at a rate that does not depend on how fast it is answered, and notes what
// was acknowledged. Where the server is away a post is made again, as another one.
type load struct {
	addr atomic.Pointer[string]
	size func(n int64) int // of the body of post n, in bytes, at least

	mu           sync.Mutex
	acknowledged map[string]string // digest of the body by the id that the answer gave
	sent         map[string]bool   // digests of all bodies, acknowledged or not
	odd          []string          // answers other than 200
}

func (l *load) run(ctx context.Context, rate int) {
	const clients = 64
	begun := time.Now()
	var turn atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", *l.addr.Load())
			}}}
			defer client.CloseIdleConnections()
			for {
				n := turn.Add(1)
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(begun.Add(time.Duration(n) * time.Second / time.Duration(rate)))):
				}
				l.post(client, n)
			}
		})
	}
	wg.Wait()
}

func (l *load) post(client *http.Client, n int64) {
	content := fmt.Sprintf("post %d\n", n)
	content = strings.Repeat(content, 1+l.size(n)/len(content))
	raw := sha256.Sum256([]byte(content))
	digest := hex.EncodeToString(raw[:])
	l.mu.Lock()
	l.sent[digest] = true
	l.mu.Unlock()
	r, err := client.Post("http://a.example/webhook", "text/plain", strings.NewReader(content))
	if err != nil {
		return // nothing was acknowledged
	}
	answer, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return // likewise
	}
	var a struct{ ID string }
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.StatusCode != http.StatusOK || json.Unmarshal(answer, &a) != nil || l.acknowledged[a.ID] != "" {
		l.odd = append(l.odd, fmt.Sprintf("%s %s", r.Status, answer))
		return
	}
	l.acknowledged[a.ID] = digest
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// TestWhatIsAcknowledgedIsThereOnceHoweverOftenTheServerIsKilled kills the server at random
// moments while 2,000 requests a second come in. CTIS_KILLS says how often, 3 times where
// it says nothing; there are six seconds between two kills, or one for the short form.
func TestWhatIsAcknowledgedIsThereOnceHoweverOftenTheServerIsKilled(t *testing.T) {
	kills, between := 3, time.Second
	if v := os.Getenv("CTIS_KILLS"); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil || kills < 1 {
			t.Fatalf("CTIS_KILLS=%q is no number of kills", v)
		}
		between = 6 * time.Second
	}
	p := build(t)
	p.start()
	p.register("a.example")
	l := &load{acknowledged: map[string]string{}, sent: map[string]bool{}, size: func(n int64) int {
		if n%200 == 0 {
			return 100 << 10 // kept as a file
		}
		return 20
	}}
	addr := p.plain
	l.addr.Store(&addr)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	begun := time.Now()
	clients.Go(func() { l.run(ctx, 2000) })
	for range kills {
		at := time.Duration(rand.Int64N(int64(between)))
		time.Sleep(at)
		before := l.count()
		p.kill()
		p.start()
		addr := p.plain
		l.addr.Store(&addr)
		for end := time.Now().Add(20 * time.Second); l.count() <= before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing is acknowledged after the restart")
			}
		}
		time.Sleep(between - at)
	}
	stop()
	clients.Wait()
	took := time.Since(begun)

	if len(l.odd) > 0 {
		t.Errorf("%d answers were other than expected, the first: %s", len(l.odd), l.odd[0])
	}
	there := map[string]int{}
	acknowledged := len(l.acknowledged)
	src := stored{p.admin, "t1"}
	records := 0
	if err := src.Lines(t.Context(), func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		records++
		there[r.Request.Body.SHA256]++
		want, ok := l.acknowledged[r.ID]
		if ok && r.Request.Body.SHA256 != want {
			t.Errorf("record %d has another body than was acknowledged", r.Seq)
		}
		delete(l.acknowledged, r.ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(l.acknowledged) > 0 {
		t.Errorf("%d of %d acknowledged requests are lost", len(l.acknowledged), acknowledged)
	}
	for digest, n := range there {
		if n != 1 || !l.sent[digest] && digest != "" {
			t.Errorf("a body stands in %d records", n)
		}
	}
	report, err := evidence.VerifyJournal(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	// What was being sent when the server was killed may not have come whole. That is
	// neither acknowledged nor complete, and no fault of the journal.
	if !report.Sound || report.Records != uint64(records) || report.Dropped > 0 {
		t.Errorf("the journal is not sound: %+v", report)
	}
	s, err := p.admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("killed %d times in %.1f s; %d requests acknowledged (%.0f a second), %d records, %d bodies beside them; found at the last start: %q",
		kills, took.Seconds(), acknowledged, float64(acknowledged)/took.Seconds(), records, report.Bodies, s.Problems)
}
