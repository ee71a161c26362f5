package wire

import (
	"net/textproto"
	"slices"
	"sort"
	"strings"

	"github.com/linuxarena/ctis/templates/pages"
)

// Dialect is how one server family writes the head of an HTTP/1 response.
// Orders and habits are those measured on nginx 1.22, Apache 2.4, Caddy 2.11,
// lighttpd 1.4, gunicorn 20.1 and Express 4; those of Cloudflare and of
// Werkzeug's own server are not measured, but as published answers show them.
type Dialect struct {
	// order ranks header fields. Fields without a rank keep their alphabetical
	// order at the place of "*".
	order map[string]int // by canonical name, and in lower case
	other int
	// sayKeepAlive is when an HTTP/1.1 response states that the connection
	// stays open.
	sayKeepAlive int
	keepAlive    string // the word, in the family's case
	params       string // value of the Keep-Alive field, "" for none
	etag         string // how the field is spelled
	lateLength   bool   // Content-Length follows Date, except where a file is sent
	quietHTTP10  bool   // an HTTP/1.0 client is not told that the connection is closed
}

const (
	never = iota
	whenAsked
	always
)

func dialect(sayKeepAlive int, keepAlive, params, etag string, order ...string) Dialect {
	d := Dialect{order: map[string]int{}, sayKeepAlive: sayKeepAlive, keepAlive: keepAlive, params: params, etag: etag}
	for i, name := range order {
		if name == "*" {
			d.other = i
		} else {
			d.order[textproto.CanonicalMIMEHeaderKey(name)] = i
			d.order[d.spell(textproto.CanonicalMIMEHeaderKey(name))] = i
			d.order[strings.ToLower(name)] = i // as HTTP/2 spells it
		}
	}
	return d
}

// dialects are never changed after they are made.
var (
	nginx = dialect(always, "keep-alive", "", "ETag",
		"server", "date", "content-type", "content-length", "last-modified", "location", "transfer-encoding",
		"connection", "keep-alive", "etag", "content-range", "content-encoding", "*", "accept-ranges")
	apache = dialect(whenAsked, "Keep-Alive", "timeout=5, max=100", "ETag",
		"date", "server", "location", "last-modified", "etag", "accept-ranges", "allow", "*", "content-length",
		"content-range", "keep-alive", "connection", "transfer-encoding", "content-type")
	caddy    = goDialect("*", "date", "connection", "transfer-encoding")
	lighttpd = dialect(never, "keep-alive", "", "ETag",
		"content-type", "etag", "last-modified", "location", "allow", "*", "content-length", "accept-ranges",
		"content-range", "connection", "transfer-encoding", "date", "server")
	gunicorn = dialect(always, "keep-alive", "", "ETag",
		"server", "date", "connection", "transfer-encoding", "content-type", "allow", "*", "content-length")
	express = dialect(always, "keep-alive", "timeout=5", "ETag",
		"x-powered-by", "server", "*", "accept-ranges", "cache-control", "last-modified", "etag", "content-type", "content-range",
		"content-length", "location", "date", "connection", "keep-alive", "transfer-encoding")
	werkzeug = dialect(always, "keep-alive", "", "ETag",
		"server", "date", "content-type", "allow", "*", "content-length", "transfer-encoding", "connection")
	cloudflare = dialect(always, "keep-alive", "", "ETag",
		"date", "content-type", "content-length", "transfer-encoding", "connection", "location", "last-modified", "etag",
		"*", "accept-ranges", "content-range", "cf-cache-status", "server", "cf-ray")
)

func goDialect(order ...string) Dialect {
	d := dialect(never, "keep-alive", "", "Etag", order...)
	d.lateLength, d.quietHTTP10 = true, true
	return d
}

// DialectOf chooses the dialect of the product a Server header names; nginx's
// for a product that is none of the known ones.
func DialectOf(serverHeader string) *Dialect {
	switch pages.FamilyOf(serverHeader) {
	case pages.Apache:
		return &apache
	case pages.Caddy:
		return &caddy
	case pages.Lighttpd:
		return &lighttpd
	case pages.Gunicorn:
		if len(serverHeader) >= len("werkzeug") && strings.EqualFold(serverHeader[:len("werkzeug")], "werkzeug") {
			return &werkzeug
		}
		return &gunicorn
	case pages.Express:
		return &express
	case pages.Cloudflare:
		return &cloudflare
	}
	return &nginx
}

// Turn is what the request says about the connection its response goes over.
type Turn struct {
	Minor int  // of the request's HTTP/1 version
	Asked bool // the request has a Connection: keep-alive
	Close bool // the connection is closed after the response
	// Spelled is how a backend wrote the response's fields; nil: nobody did.
	Spelled Spelling
}

// Spelling is the case and the order that fields were written in, by canonical name.
// It counts for fields a dialect has no rank for: those are a proxied server's own.
type Spelling map[string]Spelled

// Spelled is one field's.
type Spelled struct {
	Name string
	At   int
}

// SpellingOf notes how fields are written; of one name, the first counts.
func SpellingOf(fields [][2]string) Spelling {
	s := make(Spelling, len(fields))
	for i, f := range fields {
		name := textproto.CanonicalMIMEHeaderKey(f[0])
		if _, ok := s[name]; !ok {
			s[name] = Spelled{f[0], i}
		}
	}
	return s
}

// respell puts the unranked fields, which stand together, as they were written.
func (d *Dialect) respell(fields [][2]string, s Spelling) {
	unranked := func(f [2]string) bool { r, ok := d.order[f[0]]; return !ok || r == d.other }
	from := slices.IndexFunc(fields, unranked)
	if from < 0 {
		return
	}
	to := from
	for to < len(fields) && unranked(fields[to]) {
		to++
	}
	at := func(f [2]string) int {
		if w, ok := s[textproto.CanonicalMIMEHeaderKey(f[0])]; ok {
			return w.At
		}
		return -1
	}
	slices.SortStableFunc(fields[from:to], func(a, b [2]string) int { return at(a) - at(b) })
	for i := from; i < to; i++ {
		if w, ok := s[textproto.CanonicalMIMEHeaderKey(fields[i][0])]; ok {
			fields[i][0] = w.Name
		}
	}
}

// Arrange puts the fields of a response into the dialect's order and spelling,
// and states what happens to the connection as the dialect does. It works in
// place, so fields is used up.
func (d *Dialect) Arrange(fields [][2]string, t Turn) [][2]string {
	out := fields[:0]
	upgrade := ""
	for _, f := range fields {
		switch {
		case strings.EqualFold(f[0], "Connection"):
			if hasToken(f[1], "upgrade") {
				upgrade = f[1]
			}
			continue
		case strings.EqualFold(f[0], "Keep-Alive"):
			continue
		}
		f[0] = d.spell(f[0])
		out = append(out, f)
	}
	switch {
	case upgrade != "":
		out = append(out, [2]string{"Connection", upgrade})
	case t.Close && t.Minor == 0 && d.quietHTTP10:
	case t.Close:
		out = append(out, [2]string{"Connection", "close"})
	case t.Minor == 0, d.sayKeepAlive == always, d.sayKeepAlive == whenAsked && t.Asked:
		out = append(out, [2]string{"Connection", d.keepAlive})
		if d.params != "" {
			out = append(out, [2]string{"Keep-Alive", d.params})
		}
	}
	d.Sort(out)
	if t.Spelled != nil {
		d.respell(out, t.Spelled)
	}
	return out
}

// lengthAfterDate moves Content-Length behind Date where no file is sent: net/http
// then computes it, and what it adds by itself comes last.
func lengthAfterDate(fields [][2]string) {
	length, date := -1, -1
	for i, f := range fields {
		switch f[0] {
		case "Content-Length":
			length = i
		case "Date":
			date = i
		case "Accept-Ranges":
			return
		}
	}
	if length < 0 || date < length {
		return
	}
	f := fields[length]
	copy(fields[length:date], fields[length+1:date+1])
	fields[date] = f
}

// Order puts the fields of a response into the dialect's order and spelling
// where nothing is said about the connection: on HTTP/2. It works in place.
func (d *Dialect) Order(fields [][2]string) [][2]string {
	for i := range fields {
		fields[i][0] = d.spell(fields[i][0])
	}
	d.Sort(fields)
	return fields
}

// Sort orders by rank and, without one, by name. Fields of one name keep their
// order.
func (d *Dialect) Sort(fields [][2]string) {
	d.sort(fields)
	if d.lateLength {
		lengthAfterDate(fields)
	}
}

// sort: headers are short and often in order already, so insertion is fastest.
func (d *Dialect) sort(fields [][2]string) {
	var few [24]int
	ranks := few[:0]
	for _, f := range fields {
		r, ok := d.order[f[0]]
		if !ok {
			r = d.other
		}
		ranks = append(ranks, r)
	}
	if len(fields) > len(few) {
		d.sortMany(fields, slices.Clone(ranks))
		return
	}
	r := ranked{fields, ranks, d.other}
	for i := 1; i < len(fields); i++ {
		for k := i; k > 0 && r.Less(k, k-1); k-- {
			r.Swap(k, k-1)
		}
	}
}

// sortMany has ranks of its own, so that those of few fields stay off the heap.
func (d *Dialect) sortMany(fields [][2]string, ranks []int) {
	sort.Stable(ranked{fields, ranks, d.other})
}

type ranked struct {
	fields [][2]string
	ranks  []int
	other  int
}

func (r ranked) Len() int { return len(r.fields) }
func (r ranked) Swap(i, k int) {
	r.fields[i], r.fields[k] = r.fields[k], r.fields[i]
	r.ranks[i], r.ranks[k] = r.ranks[k], r.ranks[i]
}
func (r ranked) Less(i, k int) bool {
	return r.ranks[i] < r.ranks[k] || r.ranks[i] == r.ranks[k] && r.ranks[i] == r.other && lessName(r.fields[i][0], r.fields[k][0])
}

// lessName compares without regard to case, in which HTTP/1 and HTTP/2 differ.
func lessName(a, b string) bool {
	for i := range min(len(a), len(b)) {
		if x, y := lower(a[i]), lower(b[i]); x != y {
			return x < y
		}
	}
	return len(a) < len(b)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// spell undoes what net/http's canonical form does to names that are written
// otherwise in practice.
func (d *Dialect) spell(name string) string {
	switch name {
	case "Etag":
		return d.etag
	case "Www-Authenticate":
		return "WWW-Authenticate"
	case "X-Xss-Protection":
		return "X-XSS-Protection"
	case "Content-Md5":
		return "Content-MD5"
	case "Cf-Ray":
		return "CF-RAY"
	}
	return name
}
