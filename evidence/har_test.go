package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestAHARHasEveryExchange: fields that readers insist on are there, of the type they
// take, and what is no exchange is counted.
func TestAHARHasEveryExchange(t *testing.T) {
	c := sound(t)
	big := post("/big", c.file(bytes.Repeat([]byte("a"), HARBody+1)))
	gzip := post("/gzip?a=1&b=%zz&c", inline("plain"))
	gzip.TLS, gzip.Request.Headers = &api.TLS{}, [][2]string{{"content-encoding", "gzip"}}
	binary := post("/bin", api.Body{Size: 2, Encoding: "base64", Content: base64.StdEncoding.EncodeToString([]byte{0xff, 0}), SHA256: sum([]byte{0xff, 0})})
	star, spaces := post("*", inline("")), post("/", inline(""))
	spaces.Request.Host = "a b"
	long := post("/", inline(""))
	long.Request.Host = strings.Repeat("a", 64) + ".example"
	lost := post("/lost", inline(""))
	lost.Response, lost.OutcomeUnknown = nil, true
	records := []*api.Record{post("/data", inline("hello")), big, gzip, binary, lost, star, spaces, long, {Kind: api.KindGap, Dropped: 1}, {Kind: api.KindMalformed, Raw: &api.Body{}}}
	records[0].Request.Headers = [][2]string{{"Content-Type", "text/plain"}}
	var out bytes.Buffer
	h, err := NewHAR(&out, c)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		r.Seq = uint64(i + 1)
		if err := h.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if h.Entries != 5 || h.Left != 5 {
		t.Errorf("%d entries, %d left out", h.Entries, h.Left)
	}
	var har struct {
		Log struct {
			Version, Comment string
			Creator          struct{ Name, Version string }
			Entries          []map[string]any
		}
	}
	if err := json.Unmarshal(out.Bytes(), &har); err != nil {
		t.Fatal(err)
	}
	if l := har.Log; l.Version != "1.2" || l.Creator.Name == "" || l.Creator.Version == "" || len(l.Entries) != 5 || !strings.Contains(l.Comment, "5") {
		t.Errorf("%+v", l)
	}
	fields := map[string][]string{ // HAR 1.2, what is not optional
		"":                 {"startedDateTime", "time", "request", "response", "cache", "timings"},
		"request":          {"method", "url", "httpVersion", "cookies", "headers", "queryString", "headersSize", "bodySize"},
		"response":         {"status", "statusText", "httpVersion", "cookies", "headers", "content", "redirectURL", "headersSize", "bodySize"},
		"timings":          {"send", "wait", "receive"},
		"response/content": {"size", "mimeType"},
	}
	for i, e := range har.Log.Entries {
		for where, names := range fields {
			at := e
			for _, step := range strings.Split(where, "/") {
				if step != "" {
					at = at[step].(map[string]any)
				}
			}
			for _, name := range names {
				if v, ok := at[name]; !ok || v == nil {
					t.Errorf("entry %d: %s/%s is not there", i, where, name)
				}
			}
		}
	}
	request := func(i int) map[string]any { return har.Log.Entries[i]["request"].(map[string]any) }
	ctis := func(i int) map[string]any { return har.Log.Entries[i]["_ctis"].(map[string]any) }
	if got := request(0)["postData"].(map[string]any); got["text"] != "hello" || got["mimeType"] != "text/plain" {
		t.Errorf("%v", got)
	}
	if _, ok := request(1)["postData"]; ok || !strings.Contains(har.Log.Entries[1]["comment"].(string), "left out") {
		t.Error("a body that is too long is there, or nothing says that it is not")
	}
	if q := request(2)["queryString"].([]any); len(q) != 3 || q[1].(map[string]any)["value"] != "%zz" || request(2)["url"] != "https://filebin.net/gzip?a=1&b=%zz&c" {
		t.Errorf("%v", request(2))
	}
	for i, want := range map[int]string{2: "plain", 3: "\xff\x00"} {
		got, err := base64.StdEncoding.DecodeString(ctis(i)["body_base64"].(string))
		if _, ok := request(i)["postData"]; ok || string(got) != want || err != nil {
			t.Errorf("entry %d: %q", i, got)
		}
	}
}
