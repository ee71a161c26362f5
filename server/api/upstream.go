package api

import (
	"strconv"
	"strings"
)

// Upstream is a real API host that agents reach through the simulator. The key
// itself is never part of it: only the name of the variable it comes from.
type Upstream struct {
	Host   string `json:"host"`   // lower-case ASCII, no trailing dot; what agents call it
	Scheme string `json:"scheme"` // https or http
	Port   uint16 `json:"port"`   // on the real host

	KeyEnv     string `json:"key_env,omitempty"`     // variable that holds the key; "": none is added
	AuthHeader string `json:"auth_header,omitempty"` // header that carries it, in canonical form
	AuthPrefix string `json:"auth_prefix,omitempty"` // stands right before the key, its own space included

	// Authorities are further certificate authorities, as PEM, that the real host is
	// verified against; "": only the public ones.
	Authorities string `json:"authorities,omitempty"`

	Rules []Rule `json:"rules,omitempty"` // in order; the first match wins
	// RulesRevision is how often they were replaced since; 0 in a new registration.
	RulesRevision int `json:"rules_revision,omitempty"`
}

// URL is the upstream as ctis.toml would name it: the bare host where that
// means the same.
func (u Upstream) URL() string {
	switch {
	case u.Scheme == "https" && u.Port == 443:
		return u.Host
	case u.Scheme == "http" && u.Port == 80:
		return "http://" + u.Host
	}
	return u.Scheme + "://" + u.Host + ":" + strconv.Itoa(int(u.Port))
}

// Differs names the settings in which two upstreams differ, as ctis.toml does
// where they are keys of it. Without any they are one upstream, whatever rules they have.
func (u Upstream) Differs(v Upstream) []string {
	var fields []string
	if u.Host != v.Host {
		fields = append(fields, "host")
	}
	if u.Scheme != v.Scheme {
		fields = append(fields, "scheme")
	}
	if u.Port != v.Port {
		fields = append(fields, "port")
	}
	if u.KeyEnv != v.KeyEnv {
		fields = append(fields, "api_key_env")
	}
	if !strings.EqualFold(u.AuthHeader, v.AuthHeader) {
		fields = append(fields, "auth_header")
	}
	if u.AuthPrefix != v.AuthPrefix {
		fields = append(fields, "auth_prefix")
	}
	if u.Authorities != v.Authorities {
		fields = append(fields, "ca_file")
	}
	return fields
}

// The header that carries a key where nothing else is said, and what stands
// before the key in it (RFC 6750, section 2.1).
const (
	DefaultAuthHeader = "Authorization"
	DefaultAuthPrefix = "Bearer "
)

// Provider is an upstream that is built in under a name.
type Provider struct {
	Name string
	Upstream
}

// Providers lists the built-in upstreams in the order they are shown. Each is
// what the provider's own client library does when only the variable is set, as
// its API reference or that library's source has it.
var Providers = []Provider{
	// platform.openai.com/docs/api-reference/authentication
	bearer("openai", "api.openai.com", "OPENAI_API_KEY"),
	// docs.anthropic.com/en/api/overview, "Authentication": x-api-key with the bare key
	bare("anthropic", "api.anthropic.com", "ANTHROPIC_API_KEY", "X-Api-Key"),
	// ai.google.dev/gemini-api/docs/api-key: GEMINI_API_KEY; the libraries take
	// GOOGLE_API_KEY too, and send x-goog-api-key with the bare key
	bare("google", "generativelanguage.googleapis.com", "GEMINI_API_KEY", "X-Goog-Api-Key"),
	// docs.mistral.ai/api
	bearer("mistral", "api.mistral.ai", "MISTRAL_API_KEY"),
	// console.groq.com/docs/api-reference
	bearer("groq", "api.groq.com", "GROQ_API_KEY"),
	// docs.together.ai/reference and togethercomputer/together-py, src/together/_client.py;
	// the library before version 2 calls api.together.xyz
	bearer("together", "api.together.ai", "TOGETHER_API_KEY"),
	// openrouter.ai/docs/api-reference/authentication
	bearer("openrouter", "openrouter.ai", "OPENROUTER_API_KEY"),
	// api-docs.deepseek.com
	bearer("deepseek", "api.deepseek.com", "DEEPSEEK_API_KEY"),
	// docs.x.ai/docs/api-reference
	bearer("xai", "api.x.ai", "XAI_API_KEY"),
	// docs.fireworks.ai/api-reference/introduction
	bearer("fireworks", "api.fireworks.ai", "FIREWORKS_API_KEY"),
	// docs.cohere.com/reference/about and cohere-ai/cohere-python: the variable is CO_API_KEY
	bearer("cohere", "api.cohere.com", "CO_API_KEY"),
	// docs.perplexity.ai/guides/perplexity-sdk
	bearer("perplexity", "api.perplexity.ai", "PERPLEXITY_API_KEY"),
}

func bearer(name, host, keyEnv string) Provider {
	return Provider{Name: name, Upstream: Upstream{
		Host: host, Scheme: "https", Port: 443,
		KeyEnv: keyEnv, AuthHeader: DefaultAuthHeader, AuthPrefix: DefaultAuthPrefix,
	}}
}

func bare(name, host, keyEnv, header string) Provider {
	return Provider{Name: name, Upstream: Upstream{
		Host: host, Scheme: "https", Port: 443, KeyEnv: keyEnv, AuthHeader: header,
	}}
}

// ProviderNamed finds a built-in provider by its name.
func ProviderNamed(name string) (Provider, bool) {
	for _, p := range Providers {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// ProviderOf finds the built-in provider whose host is host.
func ProviderOf(host string) (Provider, bool) {
	for _, p := range Providers {
		if p.Host == host {
			return p, true
		}
	}
	return Provider{}, false
}

// ProviderNames are the names of the built-in providers, in their order.
func ProviderNames() []string {
	names := make([]string, len(Providers))
	for i, p := range Providers {
		names[i] = p.Name
	}
	return names
}
