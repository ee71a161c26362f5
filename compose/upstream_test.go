package compose

import (
	"strings"
	"testing"
)

func TestParseUpstreamHost(t *testing.T) {
	for in, want := range map[string]UpstreamHost{
		"api.vendor.example":           {"https", "api.vendor.example", 443},
		"API.Vendor.Example.":          {"https", "api.vendor.example", 443},
		"https://a.example":            {"https", "a.example", 443},
		"https://a.example:443":        {"https", "a.example", 443},
		"https://a.example:8443":       {"https", "a.example", 8443},
		"http://a.example":             {"http", "a.example", 80},
		"http://a.example:65535":       {"http", "a.example", 65535},
		"https://bücher.example:1":     {"https", "xn--bcher-kva.example", 1},
		"":                             {},
		"https://":                     {},
		"HTTPS://a.example":            {},
		"wss://a.example":              {},
		"//a.example":                  {},
		"a.example:443":                {},
		"a.example:":                   {},
		":443":                         {},
		"https://:443":                 {},
		"https://a.example:":           {},
		"https://a.example:0":          {},
		"https://a.example:00443":      {},
		"https://a.example:65536":      {},
		"https://a.example:+1":         {},
		"https://a.example:1:2":        {},
		"https://a.example/":           {},
		"https://a.example:1/v1":       {},
		"https://a.example?x":          {},
		"https://a.example#x":          {},
		"https://u@a.example":          {},
		"https://u:p@a.example:1":      {},
		"https://a.example\\@b.exampl": {},
		"https://a.example\n":          {},
		" https://a.example":           {},
		"https://1.2.3.4":              {},
		"https://[::1]":                {},
		"https://[::1]:80":             {},
		"https://0x7f.1":               {},
		"https://localhost":            {},
		"*.a.example":                  {},
	} {
		got, err := ParseUpstreamHost(in)
		if got != want || (err == nil) != (want != UpstreamHost{}) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestWhatMayBeAPasswordIsNotRepeated(t *testing.T) {
	for _, s := range []string{"https://user:hunter2@a.example", "http://hunter2@a.example/x", "https://a:hunter2@b@c.example", "u:hunter2@a.example"} {
		if _, err := ParseUpstreamHost(s); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// What is accepted is a hostname, a scheme and a port, and means itself.
func FuzzParseUpstreamHost(f *testing.F) {
	for _, s := range []string{"a.example", "https://a.example:1", "http://ü.example", "https://[::1]:1", "https://u:p@h", "x:1", "://", "https://a:b:c", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseUpstreamHost(s)
		if err != nil {
			if got != (UpstreamHost{}) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q gives %+v with %q", s, got, err)
			}
			return
		}
		if h, err := ParseHostname(string(got.Host)); err != nil || h != got.Host {
			t.Errorf("%q gives the host %q: %v", s, got.Host, err)
		}
		if got.Scheme != "https" && got.Scheme != "http" || got.Port == 0 {
			t.Errorf("%q gives %+v", s, got)
		}
	})
}
