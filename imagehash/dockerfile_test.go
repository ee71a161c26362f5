package imagehash

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// patterns scans a Dockerfile and lists the sources it found, in order.
func patterns(t *testing.T, text string, args map[string]string) []string {
	t.Helper()
	sc, err := scan(Options{Dockerfile: "Dockerfile", Args: args}, []byte(text))
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	var out []string
	for _, s := range sc.sources {
		out = append(out, s.pattern)
	}
	return out
}

func TestEveryLocalSourceIsFoundInEveryStage(t *testing.T) {
	tests := []struct {
		name, text string
		args       map[string]string
		want       []string
	}{
		{name: "copy of several sources", text: "FROM scratch\nCOPY a b/ c /x/", want: []string{"a", "b/", "c"}},
		{name: "json form", text: "FROM scratch\nCOPY [\"a b\", \"c\", \"/x/\"]", want: []string{"a b", "c"}},
		{name: "add", text: "FROM scratch\nADD a.tar /x", want: []string{"a.tar"}},
		{name: "mixed case", text: "from scratch\nCoPy a /x", want: []string{"a"}},
		{name: "flags", text: "FROM scratch\nCOPY --chown=1:1 --chmod=755 --link a /x", want: []string{"a"}},
		{name: "from a stage does not count", text: "FROM scratch AS b\nFROM scratch\nCOPY --from=b /a /x\nCOPY c /x", want: []string{"c"}},
		{name: "from an image does not count", text: "FROM scratch\nCOPY --from=nginx:1 /a /x", want: nil},
		{name: "unused stages count", text: "FROM scratch AS b\nCOPY a /x\nFROM scratch\nCOPY c /x", want: []string{"a", "c"}},
		{name: "continuation with a comment inside", text: "FROM scratch\nCOPY a \\\n# not this\n b \\\n /x/", want: []string{"a", "b"}},
		{name: "escape directive", text: "# escape=`\nFROM scratch\nCOPY a `\n b /x/", want: []string{"a", "b"}},
		{name: "here-documents are in the Dockerfile", text: "FROM scratch\nCOPY <<EOF /x\nCOPY no /y\nEOF\nCOPY a /x", want: []string{"a"}},
		{name: "here-document beside a path", text: "FROM scratch\nCOPY <<EOF b /x/\ntext\nEOF", want: []string{"b"}},
		{name: "arg default", text: "FROM scratch\nARG D=src\nCOPY $D/a /x", want: []string{"src/a"}},
		{name: "passed arg wins over the default", text: "FROM scratch\nARG D=src\nCOPY ${D}/a /x", args: map[string]string{"D": "other"}, want: []string{"other/a"}},
		{name: "passed arg without ARG is nothing", text: "FROM scratch\nENV D=e\nCOPY $D/a /x", args: map[string]string{"D": "other"}, want: []string{"e/a"}},
		{name: "arg declared empty", text: "FROM scratch\nARG D\nCOPY ${D}a* /x/", want: []string{"a*"}},
		{name: "default modifier", text: "FROM scratch\nARG D\nCOPY ${D:-dir}/a /x", want: []string{"dir/a"}},
		{name: "global arg needs declaring", text: "ARG D=g\nFROM scratch\nARG D\nCOPY $D /x", want: []string{"g"}},
		{name: "stage default wins over global", text: "ARG D=g\nFROM scratch\nARG D=s\nCOPY $D /x", want: []string{"s"}},
		{name: "env", text: "FROM scratch\nENV A=1 B=2\nENV A=3 C=$A\nCOPY $A$B$C /x", want: []string{"321"}},
		{name: "env is inherited by name", text: "FROM scratch AS base\nENV D=src\nFROM base\nCOPY $D /x", want: []string{"src"}},
		{name: "inherited through a global arg", text: "ARG B=base\nFROM scratch AS base\nENV D=src\nFROM $B\nCOPY $D /x", want: []string{"src"}},
		{name: "unknown variables elsewhere do not matter", text: "FROM scratch\nENV P=$PATH:/x\nARG TARGETARCH\nRUN echo $TARGETARCH\nCOPY a /x", want: []string{"a"}},
		{name: "platform argument that was passed", text: "FROM scratch\nARG TARGETARCH\nCOPY bin/$TARGETARCH /x", args: map[string]string{"TARGETARCH": "arm64"}, want: []string{"bin/arm64"}},
		{name: "remote add is no local source", text: "FROM scratch\nADD https://example.com/a.tgz git@example.com:a/b.git b /x/", want: []string{"b"}},
		{name: "bind mounts show the context", text: "FROM scratch\nRUN --mount=type=bind,source=go.mod,target=/go.mod --mount=target=. --mount=type=cache,target=/c --mount=type=tmpfs,target=/t true", want: []string{"/go.mod", "/"}},
		{name: "bind mount from a stage does not count", text: "FROM scratch AS b\nFROM scratch\nRUN --mount=type=bind,from=b,target=/x true", want: nil},
		{name: "bind mount with a variable", text: "FROM scratch\nARG D=dir\nRUN --mount=source=$D,target=/x true", want: []string{"/dir"}},
		{name: "onbuild is for other Dockerfiles", text: "FROM scratch\nONBUILD COPY a /x\nCOPY b /x", want: []string{"b"}},
		{name: "nothing is set that an empty base and the file do not set", text: "FROM scratch\nCOPY $NOPE/a ${X:-b} ${Y-c} ${Z:+no}d /x/", want: []string{"/a", "b", "c", "d"}},
		{name: "removing a prefix and a suffix", text: "FROM scratch\nARG V=v1.2.tar\nCOPY ${V#v} ${V%.tar} ${V/1/2} /x/", want: []string{"1.2.tar", "v1.2", "v2.2.tar"}},
		{name: "arg after env wins", text: "FROM scratch\nENV D=e\nARG D=a\nCOPY $D /x", want: []string{"a"}},
		{name: "arg is inherited", text: "FROM scratch AS base\nARG D=src\nFROM base\nCOPY $D /x", want: []string{"src"}},
		{name: "onbuild of a stage runs in what is built from it", text: "FROM scratch AS base\nONBUILD COPY a /x\nFROM base\nCOPY b /x", want: []string{"a", "b"}},
		{name: "onbuild is not handed on", text: "FROM scratch AS base\nONBUILD COPY a /x\nFROM base AS mid\nFROM mid\nCOPY b /x", want: []string{"a", "b"}},
		{name: "exclude is taken as written", text: "FROM scratch\nCOPY --exclude=$X a /x", want: []string{"a"}},
		{name: "check and syntax directives", text: "# syntax=docker/dockerfile:1\n# check=error=true\nFROM scratch\nCOPY a /x", want: []string{"a"}},
		{name: "byte order mark", text: "\ufeffFROM scratch\nCOPY a /x", want: []string{"a"}},
		{name: "crlf", text: "FROM scratch\r\nCOPY a /x\r\n", want: []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := patterns(t, tt.text, tt.args); !slices.Equal(got, tt.want) {
				t.Errorf("sources = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhatCannotBeUnderstoodIsRefusedWithItsLine(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "# nothing\n", "Dockerfile:1: file with no instructions"},
		{"no stage", "ARG A=1\n", "Dockerfile: has no FROM instruction"},
		{"instruction before FROM", "COPY a b\nFROM scratch\n", "Dockerfile:1: no build stage in current context"},
		{"unknown instruction", "FROM scratch\n\nCOYP a b\n", "Dockerfile:3: unknown instruction: COYP (did you mean COPY?)"},
		{"unknown flag", "FROM scratch\nCOPY --user=1 a b\n", "Dockerfile:2: unknown flag: --user"},
		{"no destination", "FROM scratch\nCOPY a\n", "Dockerfile:2: COPY requires at least two arguments, but only one was provided. Destination could not be determined"},
		{"unset variable", "FROM base\nCOPY a /x\nCOPY $NOPE/a /x\n", "Dockerfile:3: $NOPE is not settled by the Dockerfile (no ARG or ENV sets it); give it a value with ARG, ENV or a build argument"},
		{"platform argument", "FROM scratch\nARG TARGETARCH\nCOPY bin/$TARGETARCH /x\n", "Dockerfile:3: $TARGETARCH is not settled by the Dockerfile (the builder sets it by platform); give it a value with ARG, ENV or a build argument"},
		{"made from an unset variable", "FROM base\nENV D=$NOPE/a\nCOPY $D /x\n", "Dockerfile:3: $D is not settled by the Dockerfile (it is made from $NOPE: no ARG or ENV sets it); give it a value with ARG, ENV or a build argument"},
		{"unset variable in a mount", "FROM base\nRUN --mount=source=$NOPE,target=/x true\n", "Dockerfile:2: $NOPE is not settled by the Dockerfile (no ARG or ENV sets it); give it a value with ARG, ENV or a build argument"},
		{"url in copy", "FROM scratch\nCOPY https://example.com/a /x\n", "Dockerfile:2: COPY cannot fetch \"https://example.com/a\"; use ADD"},
		{"another language", "# syntax=acme/mockerfile:1\nFROM scratch\n", "Dockerfile:1: syntax \"acme/mockerfile:1\" is another language; its inputs cannot be told"},
		{"stage that is not there", "FROM scratch\nCOPY --from=3 a /x\n", "Dockerfile:2: there is no stage 3; the first is 0"},
		{"stage below", "FROM scratch\nCOPY --from=b a /x\nFROM scratch AS b\n", "Dockerfile:2: \"b\" is taken from before it is built; move its stage up"},
		{"bad substitution", "FROM scratch\nCOPY ${ /x\n", "Dockerfile:2: failed to process \"${\": syntax error: missing '}'"},
		{"required variable", "FROM scratch\nARG D\nCOPY ${D:?needed} /x\n", "Dockerfile:3: failed to process \"${D:?needed}\": D: needed"},
		{"mount key of another builder", "FROM scratch\nRUN --mount=type=bind,relabel=shared,target=/x true\n", "Dockerfile:2: unexpected key 'relabel' in 'relabel=shared'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scan(Options{Dockerfile: "Dockerfile"}, []byte(tt.text))
			var se *SyntaxError
			if !errors.As(err, &se) {
				t.Fatalf("error = %v (%T), want a *SyntaxError", err, err)
			}
			if got := err.Error(); got != tt.want {
				t.Errorf("error = %q\n want %q", got, tt.want)
			}
		})
	}
}

func TestWhatIsReadFromElsewhereIsReported(t *testing.T) {
	const hex40 = "0123456789012345678901234567890123456789"
	text := strings.Join([]string{
		"FROM golang@sha256:" + hex40 + " AS build",
		"ADD https://example.com/a.tgz /x",
		"ADD --checksum=sha256:" + strings.Repeat("0", 64) + " https://example.com/b.tgz /x",
		"ADD git@example.com:a/b.git /y",
		"ADD https://example.com/c.git#" + hex40 + ":sub /y",
		"ADD https://example.com/d.git?ref=main /y",
		"COPY --from=extra /e /f /z/",
		"FROM scratch",
		"COPY --from=0 /e /z/",
		"RUN --mount=from=tools,target=/t true",
	}, "\n")
	sc, err := scan(Options{Dockerfile: "Dockerfile"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Remote{
		{Line: 1, Kind: RemoteImage, Source: "golang@sha256:" + hex40, Pinned: true},
		{Line: 2, Kind: RemoteURL, Source: "https://example.com/a.tgz"},
		{Line: 3, Kind: RemoteURL, Source: "https://example.com/b.tgz", Pinned: true},
		{Line: 4, Kind: RemoteGit, Source: "git@example.com:a/b.git"},
		{Line: 5, Kind: RemoteGit, Source: "https://example.com/c.git#" + hex40 + ":sub", Pinned: true},
		{Line: 6, Kind: RemoteGit, Source: "https://example.com/d.git?ref=main"},
		{Line: 7, Kind: RemoteImage, Source: "extra", Paths: []string{"/e", "/f"}},
		{Line: 10, Kind: RemoteImage, Source: "tools"},
	}
	if !reflect.DeepEqual(sc.remote, want) {
		t.Errorf("remote =\n%+v, want\n%+v", sc.remote, want)
	}
}

func FuzzScanNeverPanicsAndErrorsAreTyped(f *testing.F) {
	for _, s := range []string{
		"FROM scratch\nCOPY a /x", "FROM a AS b\nFROM b\nARG X\nCOPY $X /", "FROM scratch\nRUN --mount=target=. true",
		"# escape=`\nFROM x\nCOPY <<A <<B /\nA\nB\n", "FROM scratch\nCOPY --parents a/./b* /", "FROM scratch\nADD git@h:x /",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := scan(Options{Dockerfile: "Dockerfile"}, []byte(text))
		var se *SyntaxError
		if err != nil && !errors.As(err, &se) {
			t.Fatalf("untyped error %T: %v", err, err)
		}
		_, _ = finalStage([]byte(text))
	})
}
