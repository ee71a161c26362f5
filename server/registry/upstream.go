package registry

import (
	"regexp"
	"strings"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/rule"
	"github.com/linuxarena/ctis/server/wire"
)

const maxUpstreams = 1000

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,254}$`)

// framing are headers that say where a message ends or belong to one connection: no
// key can be sent in them.
var framing = map[string]bool{
	"connection": true, "content-length": true, "expect": true, "host": true, "http2-settings": true, "keep-alive": true,
	"proxy-authenticate": true, "proxy-authorization": true, "proxy-connection": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true,
}

// CheckUpstream judges an upstream by itself.
func CheckUpstream(u api.Upstream) *api.Error {
	switch {
	case !validHost(u.Host):
		return invalid("upstream %q is no lower-case ascii hostname", clip(u.Host))
	case u.Scheme != "https" && u.Scheme != "http":
		return invalid("upstream %q: scheme %q is neither https nor http", u.Host, clip(u.Scheme))
	case u.Port == 0:
		return invalid("upstream %q has no port", u.Host)
	case u.KeyEnv == "" && (u.AuthHeader != "" || u.AuthPrefix != ""):
		return invalid("upstream %q says how a key is sent, and has none", u.Host)
	case u.KeyEnv == "":
		return nil
	case !variableName.MatchString(u.KeyEnv):
		return invalid("upstream %q: its key comes from no variable", u.Host)
	case !wire.IsToken(u.AuthHeader) || framing[strings.ToLower(u.AuthHeader)]:
		return invalid("upstream %q: header %q cannot carry a key", u.Host, clip(u.AuthHeader))
	case len(u.AuthPrefix) > 256 || strings.HasPrefix(u.AuthPrefix, " ") || strings.ContainsFunc(u.AuthPrefix, func(c rune) bool { return c < ' ' || c > '~' }):
		return invalid("upstream %q: prefix %q cannot begin a header value", u.Host, clip(u.AuthPrefix))
	}
	return nil
}

// checkUpstreams judges those of a registration beside its personas, whose hosts are
// given: a host is one thing only.
func checkUpstreams(list []api.Upstream, hosts map[string]bool) *api.Error {
	if len(list) > maxUpstreams {
		return invalid("%d upstreams are declared; at most %d are served", len(list), maxUpstreams)
	}
	for _, u := range list {
		if e := CheckUpstream(u); e != nil {
			return e
		}
		if _, err := rule.Compile(u.Rules); err != nil {
			return invalid("upstream %q: %v", u.Host, err)
		}
		if hosts[u.Host] {
			return invalid("upstream %q stands twice, or is a persona too", u.Host)
		}
		hosts[u.Host] = true
	}
	return nil
}
