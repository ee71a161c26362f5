package server

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func spools(t *testing.T, w *world) (left []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.state, "tmp"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return left
}

const handshake = "GET /v1/ws HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: x\r\n\r\n"

// talker switches and then answers each line with itself in capitals.
func talker(c *net.TCPConn, r *bufio.Reader) {
	lines := strings.Join(takeHead(r), "\n")
	if !strings.Contains(lines, "Connection: Upgrade\nUpgrade: websocket") || strings.Count(lines, "pgrade:") != 1 || !strings.Contains(lines, "Sec-WebSocket-Key: x") {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: y\r\nServer: Own\r\n\r\nHELLO\n")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, strings.ToUpper(line))
	}
}

func TestWebSocketPassesBothWaysAndItsOutcomeSaysWhat(t *testing.T) {
	w := withBackend(t, talker)
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	if _, err := io.WriteString(c, handshake+"early\n"); err != nil { // the first frame may come with the head
		t.Fatal(err)
	}
	head := strings.Join(takeHead(br), "\n")
	if !strings.HasPrefix(head, "HTTP/1.1 101 Switching Protocols\nServer: nginx/1.22.1\n") || !strings.Contains(head, "\nConnection: upgrade\n") || !strings.Contains(head, "Upgrade: websocket") || !strings.Contains(head, "\nSec-WebSocket-Accept: y") {
		t.Fatalf("%q", head)
	}
	for _, step := range [][2]string{{"", "HELLO\n"}, {"", "EARLY\n"}, {"one\n", "ONE\n"}, {"two\n", "TWO\n"}} {
		if _, err := io.WriteString(c, step[0]); err != nil {
			t.Fatal(err)
		}
		if line, err := br.ReadString('\n'); err != nil || line != step[1] {
			t.Fatalf("%q %v", line, err)
		}
	}
	if rec := w.records("t2")[0]; rec.Response != nil {
		t.Errorf("the outcome is known before the end: %+v", rec)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(br); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
	w.stop() // its outcome is written before the journal is closed
	w.start()
	rec := w.records("t2")[0]
	received := "HELLO\nEARLY\nONE\nTWO\n"
	if rec.Kind != api.KindBackend || rec.Response == nil || rec.Response.Status != 101 || rec.Error != "" || rec.Tunnel == nil ||
		rec.Tunnel.Sent.Content != "early\none\ntwo\n" || w.kept("t2", rec.Tunnel.Received) != received {
		t.Errorf("%+v %+v %+v", rec, rec.Response, rec.Tunnel)
	}
}

func TestARefusedHandshakeIsAnOrdinaryResponse(t *testing.T) {
	w := withBackend(t, says("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"))
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	for range 2 {
		_, _ = io.WriteString(c, handshake)
		if r, got := readResponse(t, br, "GET"); r.StatusCode != 403 || got != "no" {
			t.Errorf("%d %q", r.StatusCode, got)
		}
	}
}

func TestABackendThatEndsATunnelEndsIt(t *testing.T) {
	w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) {
		takeHead(r)
		_, _ = io.WriteString(c, "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nbye")
	})
	c := w.dial(2, w.plain)
	_, _ = io.WriteString(c, handshake)
	b, err := io.ReadAll(c)
	if err != nil || !strings.HasSuffix(string(b), "\r\n\r\nbye") {
		t.Errorf("%q %v", b, err)
	}
	_ = c.Close()
	if rec := w.await("t2", 1)[0]; rec.Tunnel == nil || rec.Tunnel.Received.Size != 3 {
		t.Errorf("%+v", rec)
	}
}

func TestRemovingATrajectoryEndsItsTunnels(t *testing.T) {
	w := withBackend(t, talker)
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	_, _ = io.WriteString(c, handshake)
	takeHead(br)
	if _, err := br.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.Unregister(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(br); err == nil {
		t.Log("closed in good order") // or reset: both are an end
	}
	if rec := w.records("t2")[0]; rec.Tunnel == nil || rec.OutcomeUnknown {
		t.Errorf("%+v", rec)
	}
}
