package wire

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// measured is a row of the answers real servers gave.
type measured struct {
	Server     string   `json:"server"`
	Probe      string   `json:"probe"`
	StatusLine string   `json:"status_line"`
	Headers    []string `json:"headers"`
}

func readMeasured(t *testing.T) []measured {
	t.Helper()
	dir := os.Getenv("CTIS_REALISM")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_REALISM is not set; it must name the directory of answers.jsonl")
		}
		t.Skip("CTIS_REALISM is not set: the measured answers are not at hand")
	}
	f, err := os.Open(filepath.Join(dir, "answers.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []measured
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m measured
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, m)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestHeadFieldsComeInTheMeasuredOrder takes each measured header apart, shuffles
// it into net/http's alphabetical order, and wants the measured one back.
func TestHeadFieldsComeInTheMeasuredOrder(t *testing.T) {
	checked := 0
	for _, m := range readMeasured(t) {
		product := strings.Fields(m.Server)[0]
		if !strings.Contains("nginx/1.22.1 apache lighttpd/1.4.69", product) || len(m.Headers) == 0 {
			continue // the rest compose their headers in the application
		}
		var head strings.Builder
		head.WriteString("HTTP/1.1 200 OK\r\n")
		fields := append([]string(nil), m.Headers...)
		closed := false
		for i := range fields { // alphabetical
			for k := range i {
				if fields[i] < fields[k] {
					fields[i], fields[k] = fields[k], fields[i]
				}
			}
		}
		for _, f := range fields {
			name, _, _ := strings.Cut(f, ":")
			closed = closed || f == "Connection: close"
			if name != "Connection" && name != "Keep-Alive" {
				head.WriteString(f + "\r\n")
			}
		}
		head.WriteString("\r\n")
		turn := Turn{Minor: 1, Close: closed, Asked: strings.Contains(m.Probe, "keep")}
		if strings.HasPrefix(m.Probe, "http10") {
			turn.Minor = 0
		}
		out, _ := RewriteHead(nil, []byte(head.String()), product, turn)
		got := strings.Split(strings.TrimSuffix(string(out), "\r\n\r\n"), "\r\n")[1:]
		if strings.Join(got, "\n") != strings.Join(m.Headers, "\n") {
			t.Errorf("%s %s:\n got %q\nwant %q", m.Server, m.Probe, got, m.Headers)
		}
		checked++
	}
	if checked < 100 {
		t.Errorf("only %d rows were compared", checked)
	}
}

func TestRewriteLeavesInterimResponsesAlone(t *testing.T) {
	const raw = "HTTP/1.1 100 Continue\r\n\r\n"
	out, status := RewriteHead(nil, []byte(raw), "nginx", Turn{Minor: 1})
	if string(out) != raw || status != 100 {
		t.Errorf("%d %q", status, out)
	}
}

func TestRewriteKeepsAnUpgrade(t *testing.T) {
	out, status := RewriteHead(nil, []byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "nginx", Turn{Minor: 1})
	if status != 101 || !strings.Contains(string(out), "\r\nConnection: Upgrade\r\n") {
		t.Errorf("%d %q", status, out)
	}
}

func TestRewriteAnswersHTTP10AsHTTP11AndSaysWhatBecomesOfTheConnection(t *testing.T) {
	closed, _ := RewriteHead(nil, []byte("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), "nginx", Turn{Close: true})
	kept, _ := RewriteHead(nil, []byte("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"), "nginx", Turn{Close: true})
	if string(closed) != "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" {
		t.Errorf("closed: %q", closed)
	}
	if string(kept) != "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n" {
		t.Errorf("kept: %q", kept)
	}
}

func TestErrorAnswerNamesNginxOwnCauses(t *testing.T) {
	a := ErrorAnswer("nginx/1.22.1", StatusHeaderTooLarge, time.Unix(0, 0))
	if a.Status != 400 || len(a.Body) != 233 || !strings.Contains(string(a.Body), "<center>Request Header Or Cookie Too Large</center>") {
		t.Errorf("%d, %d bytes: %s", a.Status, len(a.Body), a.Body)
	}
}
