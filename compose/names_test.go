package compose

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValidateIDAcceptsWhatComposeAccepts(t *testing.T) {
	for _, id := range []string{"a", "0", "a-b_c", "9-", strings.Repeat("a", 63)} {
		if err := ValidateID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		if got := SuggestID(id); got != id {
			t.Errorf("%q is valid, but %q is suggested", id, got)
		}
	}
}

func TestValidateIDRefusesWithTheNearestValidID(t *testing.T) {
	for id, want := range map[string]string{
		"":                      "trajectory",
		"Traj_1":                "traj_1",
		"-a":                    "a",
		"_a_":                   "a_",
		"run.2026/11":           "run-2026-11",
		"a  b!":                 "a-b",
		"größe":                 "gr-e",
		"日本":                    "trajectory",
		strings.Repeat("x", 70): strings.Repeat("x", 63),
		"a\n":                   "a",
	} {
		err := ValidateID(id)
		var invalid *InvalidIDError
		if !errors.As(err, &invalid) || invalid.Suggestion != want {
			t.Errorf("%q: %v, want the suggestion %q", id, err, want)
		}
	}
}

func TestSuggestIDIsValidAndDeterministicForAnyText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		s := randomText(r, 80)
		id := SuggestID(s)
		if err := ValidateID(id); err != nil || SuggestID(s) != id || SuggestID(id) != id {
			t.Fatalf("%q gives %q: %v", s, id, err)
		}
	}
}

func TestNewIDIsValidUniqueAndRecognisable(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		for _, name := range []string{"demo", "", "Ünï.code", strings.Repeat("long", 40)} {
			id := NewID(name)
			if err := ValidateID(id); err != nil || seen[id] {
				t.Fatalf("%q: %v (seen: %v)", id, err, seen[id])
			}
			seen[id] = true
		}
	}
	if id := NewID("demo"); !strings.HasPrefix(id, "demo-") {
		t.Errorf("%q does not show its environment", id)
	}
}

func randomText(r *rand.Rand, most int) string {
	var b strings.Builder
	for range r.IntN(most) {
		switch r.IntN(4) {
		case 0:
			b.WriteRune(rune(r.IntN(utf8.MaxRune)))
		case 1:
			b.WriteString("-_. /AZ"[r.IntN(7):][:1])
		default:
			b.WriteByte("abcdefghijklmnopqrstuvwxyz0123456789"[r.IntN(36)])
		}
	}
	return b.String()
}

func TestParseHostnameNormalises(t *testing.T) {
	for in, want := range map[string]Hostname{
		"filebin.net":      "filebin.net",
		"FileBin.NET.":     "filebin.net",
		"bücher.example":   "xn--bcher-kva.example",
		"BÜCHER.example":   "xn--bcher-kva.example",
		"faß.de":           "xn--fa-hia.de",
		"a":                "a",
		"1.2.3.example":    "1.2.3.example",
		"ab--c.example":    "",
		"a.example..":      "",
		".a.example":       "",
		"a b.example":      "",
		"a.example\n":      "",
		"::1":              "",
		"0x7f.1":           "",
		"user@a.example":   "",
		"%61.example":      "",
		"a.example\x00":    "",
		"xn--a.example":    "",
		"-":                "",
		"a-.example":       "",
		"\u200d.example":   "",
		"ⓐ.example":        "a.example",
		"a。example":        "a.example",
		"localhost.":       "",
		"LOCALHOST":        "",
		"localhost.a.test": "localhost.a.test",
	} {
		got, err := ParseHostname(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

func FuzzParseHostname(f *testing.F) {
	for _, s := range []string{"a.example", "Bücher.example.", "[::1]", "*.x", "a..b", "xn--p1ai", "1.2.3.4", "a:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := ParseHostname(s)
		if err != nil {
			return
		}
		if len(h) == 0 || len(h) > 253 || strings.Trim(string(h), "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			t.Errorf("%q gives %q", s, h)
		}
		if again, err := ParseHostname(string(h)); err != nil || again != h {
			t.Errorf("%q gives %q, which gives %q, %v", s, h, again, err)
		}
	})
}

func TestParseTargetAcceptsServiceColonPortOnly(t *testing.T) {
	for in, want := range map[string]Target{
		"default:8080":     {"default", 8080},
		"VPN_Client:1":     {"VPN_Client", 1},
		"a.b-c:65535":      {"a.b-c", 65535},
		"default":          {},
		"default:":         {},
		":80":              {},
		"default:0":        {},
		"default:65536":    {},
		"default:080":      {},
		"default:+80":      {},
		"default: 80":      {},
		" default:80":      {},
		"default:80/tcp":   {},
		"default:80:81":    {},
		"http://default:1": {},
		"default:http":     {},
		"a/b:1":            {},
		"":                 {},
		"[::1]:80":         {},
	} {
		got, err := ParseTarget(in)
		if got != want || (err == nil) != (want != Target{}) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

// TestATargetThatIsNoneIsToldAsOneThatIs: what the advice says to write can be written.
func TestATargetThatIsNoneIsToldAsOneThatIs(t *testing.T) {
	const form = "write service:port"
	for in, want := range map[string]string{
		"http://default:80/":     `target "http://default:80/" has a scheme; write "default:80"`,
		"https://default:8443/x": `target "https://default:8443/x" has a scheme; write "default:8443"`,
		"http://default":         `target "http://default" has a scheme; ` + form,
		"default:080":            `target "default:080" has "080" as its port; write "default:80"`,
		"default:+80":            `target "default:+80" has "+80" as its port; write "default:80"`,
		"default:80/tcp":         `target "default:80/tcp" has "80/tcp" as its port; write "default:80"`,
		" default: 80":           `target " default: 80" has no service name at its beginning; write "default:80"`,
		"default:000":            `target "default:000" has "000" as its port; it must be a number from 1 to 65535`,
		"default:80:81":          `target "default:80:81" has "80:81" as its port; it must be a number from 1 to 65535`,
		"default":                `target "default" has no port; ` + form,
		":80":                    `target ":80" has no service name at its beginning; ` + form,
	} {
		if _, err := ParseTarget(in); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", in, err, want)
		}
		if meant, ok := meantTarget(in); ok {
			if got, err := ParseTarget(meant.String()); err != nil || got != meant {
				t.Errorf("%q: advice %s is %v, %v", in, meant, got, err)
			}
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"a:1", "a:b:1", ":1", "a:", "http://a:1", "a:00001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTarget(s)
		if err == nil && (got.String() != s || got.Port == 0 || got.Service == "") {
			t.Errorf("%q gives %+v", s, got)
		}
	})
}

func TestNearestFindsTypingMistakesAndNothingElse(t *testing.T) {
	known := []string{"network", "personas", "compose_files", "v1", "default"}
	for in, want := range map[string]string{
		"netwrok":       "network",
		"Network":       "network",
		"composefiles":  "compose_files",
		"compose-files": "compose_files",
		"v2":            "v1",
		"defualt":       "default",
		"something":     "",
		"":              "",
		"network":       "",
	} {
		if got, ok := Nearest(in, known); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", in, got, ok)
		}
	}
}
