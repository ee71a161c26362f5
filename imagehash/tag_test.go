package imagehash

import "testing"

func TestTagAndParseTagAreInverse(t *testing.T) {
	const hash = "0123456789abcdef"
	if got := Tag(hash); got != "linuxarena/env-internet-simulator:src-0123456789abcdef" {
		t.Errorf("Tag = %q", got)
	}
	if got, err := ParseTag(Tag(hash)); err != nil || got != hash {
		t.Errorf("ParseTag = %q, %v", got, err)
	}
}

func TestParseTagRefusesEverythingElse(t *testing.T) {
	for _, ref := range []string{
		"", "src-0123456789abcdef", Repository, Repository + ":latest", Repository + ":src-", Repository + ":src-0123456789abcde",
		Repository + ":src-0123456789abcdef0", Repository + ":src-0123456789ABCDEF", Repository + ":src-0123456789abcdeg",
		"other/" + Tag("0123456789abcdef"), Tag("0123456789abcdef") + "\n", Tag("0123456789abcdef") + "@sha256:00",
	} {
		if hash, err := ParseTag(ref); err == nil {
			t.Errorf("ParseTag(%q) = %q, want an error", ref, hash)
		}
	}
}

func TestOverridesWinInTheirOrder(t *testing.T) {
	const hash = "0123456789abcdef"
	tests := []struct {
		name, flag, env string
		skip            bool
		want            Choice
	}{
		{"nothing", "", "", false, Choice{Tag(hash), hash, FromSource, Build}},
		{"skip", "", "", true, Choice{Repository + ":latest", "", FromSkipBuild, PullAlways}},
		{"variable", "", "v:1", false, Choice{"v:1", "", FromVariable, PullMissing}},
		{"variable over skip", "", "v:1", true, Choice{"v:1", "", FromVariable, PullMissing}},
		{"flag over all", "f:1", "v:1", true, Choice{"f:1", "", FromFlag, PullMissing}},
		{"a source tag given by flag is taken as it is", Tag(hash), "", false, Choice{Tag(hash), "", FromFlag, PullMissing}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Resolve(tt.flag, tt.env, tt.skip, hash); got != tt.want {
				t.Errorf("Resolve = %+v, want %+v", got, tt.want)
			}
			if got, want := Overridden(tt.flag, tt.env, tt.skip), tt.want.Origin != FromSource; got != want {
				t.Errorf("Overridden = %v, want %v", got, want)
			}
		})
	}
}
