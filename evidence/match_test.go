package evidence

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/linuxarena/ctis/server/api"
)

// kept are bodies beside a journal.
type kept map[string][]byte

func (k kept) Open(_ context.Context, sum string) (io.ReadCloser, error) {
	b, ok := k[sum]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(iotest.OneByteReader(bytes.NewReader(b))), nil
}

func glob(t *testing.T, s string) Pattern {
	t.Helper()
	p, err := Glob(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConditionsAnswerYesNoOrUnknown(t *testing.T) {
	status := func(s string) []Status {
		v, err := ParseStatus(s)
		if err != nil {
			t.Fatal(err)
		}
		return []Status{v}
	}
	regex := func(s string) []Pattern {
		p, err := Regex(s)
		if err != nil {
			t.Fatal(err)
		}
		return []Pattern{p}
	}
	big := append(bytes.Repeat([]byte("x"), 70_000), "needle\xff end"...)
	sum := api.HexSHA256(big)
	r := api.Record{Kind: "data", Response: &api.Response{Status: 201}, Request: &api.Request{
		Method: "PUT", Host: "FileBin.net:443", Target: "/data/a/b?c=/d",
		Body: api.Body{Size: 5, Encoding: api.EncodingUTF8, Content: "hello", SHA256: api.HexSHA256([]byte("hello"))}}}
	filed, lost, unknown, pending, raw := r, r, r, r, api.Record{Kind: "malformed", Raw: &api.Body{Size: 3, Encoding: "base64", Content: "AAEC"}}
	with := func(b api.Body) *api.Request { q := *r.Request; q.Body = b; return &q }
	filed.Request = with(api.Body{Size: int64(len(big)), Encoding: api.EncodingFile, SHA256: sum})
	lost.Request = with(api.Body{Size: 9e9, Encoding: api.EncodingNone, SHA256: "ab", Truncated: true})
	unknown.Response, unknown.OutcomeUnknown = nil, true
	pending.Response = nil
	for name, c := range map[string]struct {
		m    Match
		r    api.Record
		want Answer
	}{
		"nothing asked":         {Match{}, r, Yes},
		"all":                   {Match{Kinds: []string{"x", "data"}, Hosts: []string{"filebin.net."}, Methods: []string{"PUT"}, Paths: []Pattern{glob(t, "/data/**")}, Statuses: status("2xx"), Contains: [][]byte{[]byte("ell")}}, r, Yes},
		"method is exact":       {Match{Methods: []string{"put"}}, r, No},
		"query is no path":      {Match{Paths: []Pattern{glob(t, "/data/a/b")}}, r, Yes},
		"star and slash":        {Match{Paths: []Pattern{glob(t, "/data/*")}}, r, No},
		"status":                {Match{Statuses: status("200")}, r, No},
		"no response":           {Match{Statuses: status("none")}, api.Record{Kind: "refused"}, Yes},
		"outcome lost":          {Match{Statuses: status("200")}, unknown, Unknown},
		"outcome to come":       {Match{Statuses: status("none")}, pending, Unknown},
		"outcome lost, no host": {Match{Statuses: status("200"), Hosts: []string{"a"}}, unknown, No},
		"digest":                {Match{SHA256: []string{strings.ToUpper(sum)}}, filed, Yes},
		"across pieces":         {Match{Contains: [][]byte{[]byte("xneedle\xff")}}, filed, Yes},
		"every text":            {Match{Contains: [][]byte{[]byte("needle"), []byte("nadel")}}, filed, No},
		"regex in a stream":     {Match{Regexes: regex("x{3}n..dle")}, filed, Yes},
		"regex misses":          {Match{Regexes: regex("^needle")}, filed, No},
		"not kept":              {Match{Contains: [][]byte{[]byte("a")}}, lost, Unknown},
		"digest of not kept":    {Match{SHA256: []string{"AB"}}, lost, Yes},
		"no request":            {Match{Paths: []Pattern{glob(t, "**")}}, raw, No},
		"no host":               {Match{Hosts: []string{"."}}, raw, No},
		"raw bytes":             {Match{Contains: [][]byte{{1, 2}}}, raw, Yes},
	} {
		if got, found, err := c.m.Judge(t.Context(), &c.r, kept{sum: big}); got != c.want || err != nil {
			t.Errorf("%s: %v, %v, %+v", name, got, err, found)
		}
	}
	m := Match{Contains: [][]byte{[]byte("a")}}
	if _, _, err := m.Judge(t.Context(), &filed, kept{}); err == nil {
		t.Error("a body that is gone is taken for one without the text")
	}
}

func TestOddStatusesAreRefused(t *testing.T) {
	for _, s := range []string{"", "20", "0xx", "xx", "2x", "1000", "-200", "ok"} {
		if got, err := ParseStatus(s); err == nil {
			t.Errorf("%q is %+v", s, got)
		}
	}
}
