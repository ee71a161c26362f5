package wire

import (
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/templates/pages"
)

// tolerance is what a parser takes. Whatever it is, net/http takes the same and
// frames it the same: only what no two servers read differently is up to the
// family.
type tolerance struct {
	methods     bool // any token as method, not capitals alone
	star        bool // OPTIONS *
	connect     bool // CONNECT with an authority, which no endpoint then matches
	line, block int  // bytes of a line, and of all fields
}

// strict is nginx, and what is not known to be otherwise.
var strict = tolerance{line: MaxLine, block: MaxBlock}

// wide is below MaxHead, so that a head of that size is still collected whole.
const wide = MaxHead - 4<<10

var tolerances = map[pages.Family]tolerance{
	pages.Apache:   {methods: true, star: true, connect: true, line: MaxLine, block: MaxBlock},
	pages.Caddy:    {methods: true, star: true, connect: true, line: wide, block: wide}, // it takes 1 MiB
	pages.Lighttpd: {methods: true, star: true, line: MaxLine, block: MaxBlock},
	pages.Gunicorn: {methods: true, star: true, connect: true, line: MaxLine, block: MaxBlock},
	pages.Express:  {star: true, line: 16 << 10, block: 16 << 10}, // Node's max-http-header-size
}

// ParseHeadFor is [ParseHead] as the family of serverHeader reads a head.
func ParseHeadFor(b []byte, serverHeader string) (*Head, *Refusal) {
	takes, ok := tolerances[pages.FamilyOf(serverHeader)]
	if !ok {
		takes = strict
	}
	return parseHead(b, takes)
}

// Identity is the field by which serverHeader's product names itself. Express
// never sends a Server field: the product stands in X-Powered-By.
func Identity(serverHeader string) (name string) {
	if pages.FamilyOf(serverHeader) == pages.Express {
		return "X-Powered-By"
	}
	return "Server"
}

// ClosesAlways reports whether the family ends each HTTP/1 connection after one
// response: gunicorn's default worker keeps none, nor does Werkzeug's server.
func ClosesAlways(serverHeader string) bool { return pages.FamilyOf(serverHeader) == pages.Gunicorn }

// answersHTTP10 reports whether the family answers an HTTP/1.0 request with a
// status line of that version.
func answersHTTP10(serverHeader string) bool {
	f := pages.FamilyOf(serverHeader)
	return f == pages.Caddy || f == pages.Lighttpd
}

// ContinuesWithoutBody reports whether the family answers Expect: 100-continue
// with an interim response even where no body is announced.
func ContinuesWithoutBody(serverHeader string) bool {
	f := pages.FamilyOf(serverHeader)
	return f == pages.Gunicorn || f == pages.Express
}

// Expects reports whether the request has an Expect: 100-continue.
func (h *Head) Expects() bool {
	for _, f := range h.Fields {
		if strings.EqualFold(f[0], "Expect") && strings.EqualFold(f[1], "100-continue") {
			return true
		}
	}
	return false
}

// Shouts reports whether the family takes a method for the one in capitals.
func Shouts(serverHeader string) bool { return pages.FamilyOf(serverHeader) == pages.Gunicorn }

// PortOf is the port a request was sent to as its Host says, or else the
// scheme's own. It is what servers put on their pages.
func PortOf(host, scheme string) int {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		if n, err := strconv.ParseUint(host[i+1:], 10, 16); err == nil && n > 0 {
			return int(n)
		}
	}
	if scheme == "https" {
		return 443
	}
	return 80
}
