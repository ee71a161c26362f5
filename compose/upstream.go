package compose

import (
	"fmt"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// Upstream is a real API host that the agent reaches through the simulator.
type Upstream struct {
	api.Upstream          // without rules, which are in Rules
	Host         Hostname // "" if it is not valid
	Provider     string   // name of the built-in provider; "": declared in the file
	Rules        []Rule   // in the order of the file

	path   []string // in the file
	caFile string   // as written; its content is in Authorities
}

const maxUpstreams = 1000

var upstreamKeys = []string{"host", "api_key_env", "auth_header", "auth_prefix", "ca_file", "rules"}

func (r *configReader) upstreams(doc map[string]any) []Upstream {
	v, ok := doc["upstream_proxies"]
	if !ok {
		return nil
	}
	list, ok := elements(v)
	if !ok {
		p := r.problems.errorf(r.index.value("upstream_proxies"), "upstream_proxies must be an array of names and tables, not %s", tomlType(v))
		if s, ok := v.(string); ok {
			p.hint("write [%q]", s)
		}
		return nil
	}
	if len(list) > maxUpstreams {
		r.problems.errorf(r.index.value("upstream_proxies", elem(maxUpstreams)), "upstream_proxies has %d elements; %d are allowed", len(list), maxUpstreams)
		return nil
	}
	var upstreams []Upstream
	for i, v := range list {
		path := []string{"upstream_proxies", elem(i)}
		switch v := v.(type) {
		case string:
			if p, ok := r.provider(v, path); ok {
				upstreams = append(upstreams, Upstream{Upstream: p.Upstream, Host: Hostname(p.Host), Provider: p.Name, path: path})
			}
		case map[string]any:
			upstreams = append(upstreams, r.upstream(v, path))
		default:
			r.problems.errorf(r.index.value(path...), "%s must be the name of a built-in provider or a table, not %s", keyName(path), tomlType(v))
		}
	}
	return upstreams
}

// elements are the members of an array, be it written as one or as [[tables]].
func elements(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []map[string]any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list, true
	}
	return nil, false
}

func (r *configReader) provider(name string, path []string) (api.Provider, bool) {
	p, ok := api.ProviderNamed(name)
	if ok {
		return p, true
	}
	if name == "" {
		r.problems.errorf(r.index.value(path...), "%s is empty", keyName(path))
		return p, false
	}
	q := r.problems.errorf(r.index.value(path...), "%q is not a built-in provider", withoutUser(name))
	near, found := Nearest(name, api.ProviderNames())
	host, err := ParseUpstreamHost(name)
	switch builtin, ok := api.ProviderOf(string(host.Host)); {
	case found:
		q.hint("did you mean %q?", near)
	case err == nil && ok:
		q.hint("write %q, which is the provider with that host", builtin.Name)
	case err == nil && strings.ContainsAny(name, ".:"):
		q.hint("a host of your own is a table: { host = %q, api_key_env = \"NAME\" }", name)
	default:
		q.hint("built in are %s; another host is a table", strings.Join(api.ProviderNames(), ", "))
	}
	return api.Provider{}, false
}

// upstream reads a table. What it leaves out has the usual value.
func (r *configReader) upstream(table map[string]any, path []string) Upstream {
	r.keys(table, path, upstreamKeys)
	u := Upstream{path: path}
	if _, ok := table["host"]; !ok {
		r.problems.errorf(r.index.value(path...), "%s has no host", keyName(path)).
			hint("say which host is meant: host = \"api.vendor.example\"")
	} else if s, ok := r.text(table, below(path, "host")...); ok && s != "" {
		host, err := ParseUpstreamHost(s)
		if err != nil {
			r.problems.errorf(r.index.value(below(path, "host")...), "%s", err)
		}
		u.Host, u.Upstream.Host, u.Scheme, u.Port = host.Host, string(host.Host), host.Scheme, host.Port
	}
	u.Rules = r.rules(table, path, onUpstream)
	u.KeyEnv, _ = r.text(table, below(path, "api_key_env")...)
	if u.KeyEnv != "" && !envName.MatchString(u.KeyEnv) {
		r.problems.errorf(r.index.value(below(path, "api_key_env")...), "api_key_env is not the name of an environment variable").
			hint("a key itself must never be in this file; write the name of the variable that holds it")
	}
	r.authentication(table, path, &u)
	if s, ok := r.text(table, below(path, "ca_file")...); ok && s != "" {
		u.caFile = s
		if u.Scheme == "http" {
			r.problems.errorf(r.index.value(below(path, "ca_file")...), "ca_file verifies TLS, and %q is asked without it", u.Host).
				hint("remove it, or write https://")
		}
	}
	r.builtinHost(table, u)
	return u
}

// authentication reads how the key is sent: as "Authorization: Bearer KEY", or
// bare in another header, unless the file says more.
func (r *configReader) authentication(table map[string]any, path []string, u *Upstream) {
	if _, ok := table["api_key_env"]; !ok {
		for _, key := range []string{"auth_header", "auth_prefix"} {
			if _, ok := table[key]; ok {
				r.problems.errorf(r.index.key(below(path, key)...), "%s says how a key is sent, and there is none", key).
					hint("name the variable that holds it: api_key_env = \"NAME\"")
			}
		}
		return
	}
	u.AuthHeader = api.DefaultAuthHeader
	if name, ok := r.text(table, below(path, "auth_header")...); ok && name != "" {
		at := r.index.value(below(path, "auth_header")...)
		switch {
		case !headerToken(name):
			p := r.problems.errorf(at, "auth_header %q is not a legal header name", name)
			if bare, _, ok := strings.Cut(name, ":"); ok && headerToken(strings.TrimSpace(bare)) {
				p.hint("write %q; what stands before the key goes into auth_prefix", strings.TrimSpace(bare))
			}
		case isConnectionHeader(name):
			r.problems.errorf(at, "auth_header %q cannot carry a key: the gateway sets it for each connection", name)
		}
		u.AuthHeader = textproto.CanonicalMIMEHeaderKey(name)
	}
	if u.AuthHeader == api.DefaultAuthHeader {
		u.AuthPrefix = api.DefaultAuthPrefix
	}
	v, ok := table["auth_prefix"]
	if !ok {
		return
	}
	prefix, ok := v.(string)
	if !ok {
		r.wrongType(v, "a string", below(path, "auth_prefix"))
		return
	}
	u.AuthPrefix = prefix // it may be empty: then the key stands alone
	at := r.index.value(below(path, "auth_prefix")...)
	switch last := strings.TrimRight(prefix, " "); {
	case strings.ContainsFunc(prefix, func(c rune) bool { return c < ' ' || c > '~' }) || strings.HasPrefix(prefix, " "):
		r.problems.errorf(at, "auth_prefix %q cannot begin a header value", prefix).
			hint("use visible ASCII characters and spaces, and begin with no space")
	case prefix != "" && last == prefix && isAlphanumeric(prefix[len(prefix)-1]):
		r.problems.errorf(at, "auth_prefix %q would run into the key", prefix).
			hint("write %q: the prefix is put before the key as it is", prefix+" ")
	}
}

// inWords joins words as a sentence does.
func inWords(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// builtinHost reports a built-in provider's host that is declared with other
// settings: all trajectories share the built-in ones.
func (r *configReader) builtinHost(table map[string]any, u Upstream) {
	p, ok := api.ProviderOf(u.Upstream.Host)
	if !ok {
		return
	}
	if fields := p.Differs(u.Upstream); len(fields) > 0 {
		at := r.index.value(below(u.path, "host")...)
		if _, has := table[fields[0]]; has {
			at = r.index.value(below(u.path, fields[0])...)
		}
		r.problems.errorf(at, "host %q is the built-in provider %q with another %s", u.Host, p.Name, inWords(fields)).
			hint("write %q instead of the table; its key comes from %s", p.Name, p.KeyEnv)
	}
}

// repeatedUpstreams reports hosts that are declared more than once.
func (r *configReader) repeatedUpstreams(c *Config) {
	first := map[Hostname]Upstream{}
	for _, u := range c.Upstreams {
		f, twice := first[u.Host]
		if !twice || u.Host == "" {
			first[u.Host] = u
			continue
		}
		line := r.index.value(f.path...).Line
		switch fields := f.Differs(u.Upstream); {
		case len(fields) == 0 && f.Provider != "" && u.Provider != "":
			r.problems.errorf(r.index.value(u.path...), "%q stands twice in upstream_proxies", u.Provider)
		case len(fields) == 0:
			r.problems.errorf(r.index.value(u.path...), "upstream %q is declared twice, first in line %d", u.Host, line)
		default:
			r.problems.errorf(r.index.value(u.path...), "upstream %q is declared twice with a different %s, first in line %d", u.Host, inWords(fields), line)
		}
	}
}

// UpstreamHost is where an upstream proxy connects.
type UpstreamHost struct {
	Scheme string // https or http
	Host   Hostname
	Port   uint16
}

// ParseUpstreamHost reads a hostname, which means HTTPS, or
// http(s)://hostname[:port], and only that.
func ParseUpstreamHost(s string) (UpstreamHost, error) {
	none := UpstreamHost{}
	if strings.Contains(s, "@") {
		return none, fmt.Errorf("host %q has a user name; keys are given by api_key_env alone", withoutUser(s))
	}
	u := UpstreamHost{Scheme: "https", Port: 443}
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		switch scheme {
		case "https":
		case "http":
			u = UpstreamHost{Scheme: "http", Port: 80}
		default:
			return none, fmt.Errorf("host %q has the scheme %q; write https:// or http://", s, scheme)
		}
		if rest = after; rest == "" {
			return none, fmt.Errorf("host %q has no hostname", s)
		}
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			return none, fmt.Errorf("host %q has a path or query; write %q: agents choose the rest", s, scheme+"://"+rest[:i])
		}
		if strings.HasPrefix(rest, "[") {
			return none, fmt.Errorf("host %q is an address, not a name", s)
		}
		if name, port, ok := strings.Cut(rest, ":"); ok {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
				return none, fmt.Errorf("host %q has %q as its port; it must be a number from 1 to 65535", s, port)
			}
			rest, u.Port = name, uint16(n)
		}
	} else if name, port, ok := strings.Cut(s, ":"); ok && isNumber(port) && name != "" {
		return none, fmt.Errorf("host %q has a port and no scheme; write %q", s, "https://"+s)
	}
	host, err := ParseHostname(rest)
	if err != nil {
		return none, err
	}
	u.Host = host
	return u, nil
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// withoutUser is a host without what might be a password.
func withoutUser(s string) string {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s
	}
	scheme, _, ok := strings.Cut(s[:i], "://")
	if ok {
		return scheme + "://…" + s[i:]
	}
	return "…" + s[i:]
}
