package imagehash

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func sumOf(t *testing.T, dockerfile string, args map[string]string) *Sum {
	t.Helper()
	files := fstest.MapFS{"Dockerfile": {Data: []byte(dockerfile)}, "a/b": {Data: []byte("b")}}
	in, err := Read(t.Context(), files, Options{Dockerfile: "Dockerfile", Args: args})
	if err != nil {
		t.Fatalf("%q: %v", dockerfile, err)
	}
	s, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatOnlyBuildKitDoesIsFoundByLine(t *testing.T) {
	for _, c := range []struct {
		dockerfile string
		args       map[string]string
		want       string
	}{
		{"FROM x\nCOPY a /a\nADD --chown=1:1 a /b\nRUN make\nHEALTHCHECK --interval=1s CMD x\n", nil, ""},
		{"FROM --platform=linux/amd64 x\nARG A\nARG B=1\n", nil, ""},
		{"FROM x\nRUN --mount=type=cache,target=/c make\n", nil, "2 RUN --mount"},
		{"FROM x\nRUN --mount=type=cache,target=/c --network=none make\n", nil, "2 RUN --mount, 2 RUN --network"},
		{"FROM x\n\nCOPY <<EOF /a\ntext\nEOF\n", nil, "3 COPY with a here-document"},
		{"FROM x\nCOPY --link --parents a/b /\nCOPY --exclude=*.md a /\nCOPY --chmod=755 a /\n", nil, "2 COPY --link, 2 COPY --parents, 3 COPY --exclude, 4 COPY --chmod"},
		{"FROM x\nADD --checksum=sha256:" + strings.Repeat("0", 64) + " https://files.example/a /a\n", nil, "2 ADD --checksum"},
		{"FROM x\nADD https://git.example/a.git /a\n", nil, "2 ADD of a git repository"},
		{"FROM --platform=$BUILDPLATFORM x\nARG TARGETARCH\n", nil, "1 FROM --platform=$BUILDPLATFORM, 2 ARG TARGETARCH"},
		{"FROM x\nARG TARGETARCH\n", map[string]string{"TARGETARCH": "arm64"}, ""},
		{"FROM x\nARG TARGETARCH=amd64\n", nil, ""},
		{"FROM x\nONBUILD RUN --mount=type=cache,target=/c make\n", nil, "2 ONBUILD RUN --mount"},
	} {
		var got []string
		for _, n := range sumOf(t, c.dockerfile, c.args).BuildKitNeeds() {
			got = append(got, fmt.Sprint(n.Line, " ", n.What))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%q needs %q, not %q", c.dockerfile, s, c.want)
		}
	}
}

func TestStagesAreComparedWithoutTheirBases(t *testing.T) {
	const same = "ARG I=golang:1\nFROM $I AS build\nRUN a \\\n && b\nFROM scratch\nCOPY --from=build /out/ /\n"
	for dockerfile, want := range map[string]bool{
		same: true,
		"FROM other AS build\nRUN a   && b\nFROM scratch\nUSER 1\n":               true,
		"FROM other AS build\nRUN a && b && c\nFROM scratch\n":                    false,
		"FROM other AS build\nENV X=1\nRUN a && b\nFROM scratch\n":                false,
		"FROM other AS build\nRUN a && b\nFROM build\nFROM scratch\n":             false,
		"FROM other AS build\nRUN a && b\n":                                       false,
		"FROM other AS build\nRUN <<EOF\na && b\nEOF\nRUN a && b\nFROM scratch\n": false,
	} {
		if got := sumOf(t, dockerfile, nil).BuildsLike([]byte(same)); got != want {
			t.Errorf("%q: %v", dockerfile, got)
		}
	}
}
