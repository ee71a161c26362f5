package api

import (
	"net/textproto"
	"regexp"
	"slices"
	"testing"
)

func TestProvidersAreWellFormedAndDistinct(t *testing.T) {
	want := []string{
		"openai", "anthropic", "google", "mistral", "groq", "together", "openrouter", "deepseek", "xai", "fireworks", "cohere", "perplexity",
	}
	if got := ProviderNames(); !slices.Equal(got, want) {
		t.Fatalf("providers are %q", got)
	}
	hosts, variables := map[string]string{}, map[string]string{}
	host, variable := regexp.MustCompile(`^([a-z0-9]+\.)+[a-z]+$`), regexp.MustCompile(`^[A-Z]+_API_KEY$`)
	for _, p := range Providers {
		if other, twice := hosts[p.Host]; twice {
			t.Errorf("%s and %s have one host", p.Name, other)
		}
		if other, twice := variables[p.KeyEnv]; twice {
			t.Errorf("%s and %s have one variable", p.Name, other)
		}
		hosts[p.Host], variables[p.KeyEnv] = p.Name, p.Name
		switch {
		case !host.MatchString(p.Host), !variable.MatchString(p.KeyEnv), p.Scheme != "https", p.Port != 443, p.URL() != p.Host:
			t.Errorf("%+v", p)
		case p.AuthHeader != textproto.CanonicalMIMEHeaderKey(p.AuthHeader):
			t.Errorf("%s sends %s, which is not canonical", p.Name, p.AuthHeader)
		case (p.AuthHeader == DefaultAuthHeader) != (p.AuthPrefix == DefaultAuthPrefix):
			t.Errorf("%s sends %s: %qKEY", p.Name, p.AuthHeader, p.AuthPrefix)
		}
		if q, ok := ProviderNamed(p.Name); !ok || q.Host != p.Host {
			t.Errorf("%s is not found by its name", p.Name)
		}
		if q, ok := ProviderOf(p.Host); !ok || q.Name != p.Name {
			t.Errorf("%s is not found by its host", p.Name)
		}
	}
	if _, ok := ProviderNamed("OpenAI"); ok {
		t.Error("names are compared without regard to case")
	}
	if _, ok := ProviderOf("openai.com"); ok {
		t.Error("a host that is no provider's was found")
	}
}

func TestUpstreamsDifferInWhatIsSentAndWhere(t *testing.T) {
	u := Upstream{Host: "a.example", Scheme: "https", Port: 443, KeyEnv: "K", AuthHeader: "Authorization", AuthPrefix: "Bearer "}
	for field, change := range map[string]func(*Upstream){
		"host":        func(u *Upstream) { u.Host = "b.example" },
		"scheme":      func(u *Upstream) { u.Scheme = "http" },
		"port":        func(u *Upstream) { u.Port = 8443 },
		"api_key_env": func(u *Upstream) { u.KeyEnv = "L" },
		"auth_header": func(u *Upstream) { u.AuthHeader = "X-Key" },
		"auth_prefix": func(u *Upstream) { u.AuthPrefix = "" },
	} {
		v := u
		change(&v)
		if got := u.Differs(v); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: they differ in %q", field, got)
		}
	}
	same := u
	same.AuthHeader, same.Rules = "authorization", []Rule{{Pass: true}}
	if got := u.Differs(same); got != nil {
		t.Errorf("equal ones differ in %q", got)
	}
	for want, v := range map[string]Upstream{
		"a.example":              u,
		"http://a.example":       {Host: "a.example", Scheme: "http", Port: 80},
		"http://a.example:443":   {Host: "a.example", Scheme: "http", Port: 443},
		"https://a.example:8443": {Host: "a.example", Scheme: "https", Port: 8443},
	} {
		if got := v.URL(); got != want {
			t.Errorf("%+v is %s, want %s", v, got, want)
		}
	}
}
