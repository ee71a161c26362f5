package imagehash

import (
	"strings"
	"testing"
)

func TestTargetAndPlatformAreInTheHash(t *testing.T) {
	of := func(o Options) string {
		o.Dockerfile = "Dockerfile"
		in, err := Read(t.Context(), fixed(), o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := in.Sum(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Hash
	}
	seen := map[string]Options{}
	for _, o := range []Options{{}, {Target: "build"}, {Platform: "linux/amd64"}, {Platform: "linux/arm64"}, {Platform: "linux/arm"}, {Target: "build", Platform: "linux/arm64"}} {
		h := of(o)
		if other, dup := seen[h]; dup {
			t.Errorf("%+v and %+v have one hash", o, other)
		}
		seen[h] = o
	}
	for a, b := range map[string]string{"linux/amd64": "Linux/x86_64", "linux/arm64": "linux/aarch64/v8", "linux/arm": "linux/arm/7"} {
		if of(Options{Platform: a}) != of(Options{Platform: b}) {
			t.Errorf("platforms %s and %s have two hashes", a, b)
		}
	}
	for _, bad := range []string{"linux", "linux/", "a/b/c/d", "linux/am d64"} {
		if _, err := Read(t.Context(), fixed(), Options{Dockerfile: "Dockerfile", Platform: bad}); err == nil {
			t.Errorf("platform %q is taken", bad)
		}
	}
	if _, err := Read(t.Context(), fixed(), Options{Dockerfile: "Dockerfile", Target: "biuld"}); err == nil || !strings.Contains(err.Error(), `no stage "biuld" to build; it names build`) {
		t.Errorf("error = %v, want it to name the stages", err)
	}
}

func TestInputsOfATargetAreThoseOfTheStagesItNeeds(t *testing.T) {
	const text = "FROM scratch AS a\nCOPY a /\nFROM scratch AS b\nCOPY b /\nFROM a AS c\nCOPY c /\nFROM scratch AS d\nCOPY --from=c / /\nFROM base AS e\nRUN --mount=from=b,target=/b true\nFROM scratch\nCOPY --from=1 / /\nCOPY f /\n"
	fsys := contextOf(text, "a", "b", "c", "f")
	for target, want := range map[string]string{"a": "a", "b": "b", "C": "a c", "d": "a c", "e": "b", "": "a b c f"} {
		in, err := Read(t.Context(), fsys, Options{Dockerfile: "Dockerfile", Target: target})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(in.paths, " "); got != want {
			t.Errorf("target %q: inputs = %s, want %s", target, got, want)
		}
	}
}

func TestWhatMayChangeUnseenIsWarnedOf(t *testing.T) {
	in, err := Read(t.Context(), contextOf("FROM scratch\nADD https://example.com/x /\nCOPY a *.lock /x/\n", "a"), Options{Dockerfile: "Dockerfile"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(s.Warnings(), "\n")
	for _, want := range []string{`Dockerfile:3: "*.lock" matches nothing; the hash changes when a file does`,
		`Dockerfile:2: ADD fetches "https://example.com/x", whose content is no part of the hash; pin it (--checksum, or a full commit)`} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings lack %s:\n%s", want, got)
		}
	}
}
