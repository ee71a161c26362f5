package imagehash

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// sumFor hashes a Dockerfile in a context of a few files.
func sumFor(t *testing.T, text string, o Options) (*Sum, error) {
	t.Helper()
	o.Dockerfile = "Dockerfile"
	in, err := Read(t.Context(), contextOf(text, "a", "b", "c"), o)
	if err != nil {
		return nil, err
	}
	return in.Sum(t.Context())
}

func TestWhatABaseImageMaySetIsNotSettled(t *testing.T) {
	const hint = `$F is not settled by the Dockerfile (base image "base" may set it)`
	for text, want := range map[string]string{
		"FROM base\nARG F\nCOPY ${F:-a} /x\n":                          hint,
		"FROM base AS s\nFROM s\nARG F\nCOPY ${F:-a} /x\n":             hint,
		"FROM base AS s\nARG F\nFROM s\nCOPY ${F:-a} /x\n":             hint,
		"ARG F\nFROM base\nARG F\nCOPY ${F:-a} /x\n":                   hint,
		"FROM base\nARG F\nENV G=$F\nCOPY ${G:-a} /x\n":                "made from $F",
		"FROM base\nARG F\nARG F=a\nCOPY $F /x\n":                      "",
		"ARG F=a\nFROM base\nARG F\nCOPY $F /x\n":                      "",
		"FROM base\nENV F=a\nARG F\nCOPY $F /x\n":                      "",
		"FROM base\nARG F\nRUN echo $F\nCOPY a /x\n":                   "",
		"FROM scratch\nARG F\nCOPY ${F:-a} /x\n":                       "",
		"FROM scratch AS s\nARG F\nFROM s\nARG F\nCOPY ${F:-a} /x\n":   "",
		"FROM base\nFROM scratch\nARG F\nCOPY ${F:-a} /x\n":            "",
		"FROM ${TARGETARCH}-base\nARG F\nCOPY ${F:-a} /x\n":            `base image "${TARGETARCH}-base" may set it`,
		"FROM base AS s\nENV F=a\nFROM s\nARG F\nCOPY ${F:-nope} /x\n": "",
	} {
		_, err := sumFor(t, text, Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := sumFor(t, "FROM base\nARG F\nCOPY ${F:-a} /x\n", Options{Args: map[string]string{"F": "b"}}); err != nil {
		t.Errorf("with the build argument: %v", err)
	}
}

func TestUnsettledBaseThatMayBeAStageWithTriggersIsRefused(t *testing.T) {
	const stage = "FROM scratch AS amd64-base\nONBUILD COPY b /x\n"
	_, err := sumFor(t, stage+"FROM ${TARGETARCH}-base\nCOPY a /y\n", Options{})
	var se *SyntaxError
	if !errors.As(err, &se) || se.Line != 3 || !strings.Contains(err.Error(), `it may be stage "amd64-base", whose ONBUILD instructions would then run`) {
		t.Errorf("error = %v", err)
	}
	s, err := sumFor(t, stage+"FROM ${TARGETARCH}-base\nCOPY a /y\n", Options{Platform: "linux/amd64"})
	if err != nil || len(s.Inputs) != 2 {
		t.Errorf("with the platform: %+v, %v", s, err)
	}
	if _, err := sumFor(t, "FROM scratch AS amd64-base\nCOPY b /x\nFROM ${TARGETARCH}-base\nCOPY a /y\n", Options{}); err != nil {
		t.Errorf("without triggers: %v", err)
	}
}

func TestBasesAreListedOnceWithTheArgumentsOnTopOfThem(t *testing.T) {
	s, err := sumFor(t, "ARG I=one\nFROM $I AS x\nARG A=1\nFROM one\nARG B=1\nENV C=1\nARG C=2\nFROM x\nARG D=1\nARG E\nFROM $BUILDARCH\nFROM scratch\nARG F=1\n", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range s.Bases {
		got = append(got, fmt.Sprint(b.Line, " ", b.Image, " ", b.Known, " ", b.Args))
	}
	if got, want := strings.Join(got, "\n"), "2 one true map[A:3 B:5 D:9]\n11 $BUILDARCH false map[]"; got != want {
		t.Errorf("bases:\n%s\nwant\n%s", got, want)
	}
}

func TestTriggersThatReadWhatIsNotHashedAreRefused(t *testing.T) {
	for trigger, refused := range map[string]bool{
		"COPY . /app/":                          true,
		"COPY --from=other / /":                 false,
		"ADD a /x":                              true,
		"ADD $X /x":                             true,
		"ADD https://x.example/a":               true, // cannot be read
		"ADD https://x.example/a /x":            false,
		"RUN make":                              false,
		"ENV A=b":                               false,
		"RUN --mount=target=/c make":            true,
		"RUN --mount=type=cache,target=/c make": false,
		"NONSENSE":                              true,
	} {
		s, err := sumFor(t, "# c\nFROM onb\nCOPY a /x\n", Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Refuse(s.Bases[0], []string{"WORKDIR /", trigger})
		var se *SyntaxError
		if (err != nil) != refused || refused && (!errors.As(err, &se) || se.Line != 2 || !strings.Contains(err.Error(), "ONBUILD "+trigger)) {
			t.Errorf("%s: error %v", trigger, err)
		}
	}
	s, err := sumFor(t, "FROM ${TARGETARCH}-x\nFROM $BUILDARCH\n", Options{})
	if err != nil {
		t.Fatal(err)
	}
	on, err := s.BasesOn("linux/arm64")
	if err != nil || len(on) != 2 || on[0].Image != "arm64-x" || s.Refuse(on[0], nil) != nil || s.Refuse(on[1], nil) == nil {
		t.Errorf("bases on a platform: %+v, %v", on, err)
	}
	s, err = sumFor(t, "FROM onb AS one\nFROM scratch\n", Options{Target: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Refuse(s.Bases[0], []string{"COPY --from=two / /"}) == nil {
		t.Error("a stage that the target leaves out may be taken from")
	}
}

func TestWhatTheBuildersMakeOfVariablesInTwoWaysNeedsBuildKit(t *testing.T) {
	for _, c := range []struct{ text, target, want string }{
		{"FROM scratch\nENV X=b\nARG X=a\n", "", "3 ARG X below an ENV of that name"},
		{"FROM scratch\nENV X=b\nARG X=b\n", "", ""},
		{"FROM scratch\nENV X=b\nARG X\n", "", ""},
		{"FROM scratch\nARG X=a\nENV X=b\n", "", ""},
		{"ARG X=a\nFROM scratch\nENV X=b\nARG X\n", "", "4 ARG X below an ENV of that name"},
		{"FROM scratch AS s\nENV X=b\nFROM s\nARG X=a\n", "", "4 ARG X below an ENV of that name"},
		{"FROM scratch AS s\nARG X=a\nFROM s\nCOPY ${X:-b} /x\n", "", "4 the ARG X of a stage it is built FROM"},
		{"FROM scratch AS s\nARG X=a\nFROM s\nLABEL l=$X\n", "", "4 the ARG X of a stage it is built FROM"},
		{"FROM y AS s\nARG X=a\nFROM s\nRUN printenv X\n", "", "4 the ARG X of a stage it is built FROM"},
		{"FROM y AS s\nARG X=a\nFROM s\nRUN echo $XY\n", "", ""},
		{"FROM y AS s\nARG X=a\nFROM s AS t\nFROM t\nRUN echo $X\n", "", "5 the ARG X of a stage it is built FROM"},
		{"FROM scratch AS s\nARG X=a\nFROM s\nARG X\n", "", "4 ARG X with the value that a stage it is built FROM gave it"},
		{"FROM scratch AS s\nARG X=a\nFROM s\nARG X=b\nCOPY ${X:-b} /x\n", "", ""},
		{"FROM scratch AS s\nARG X=a\nENV X=$X\nFROM s\nCOPY ${X:-b} /x\n", "", ""},
		{"FROM scratch AS s\nARG X=a\nFROM s\nCOPY a /x\n", "", ""},
		{"FROM ${TARGETARCH}-base\n", "", "1 FROM ${TARGETARCH}-base"},
		{"ARG B=x-$TARGETARCH\nFROM y\n", "", "1 ARG B=x-$TARGETARCH"},
		{"FROM scratch AS a\nCOPY a /x\nFROM y\nARG TARGETARCH\nRUN --mount=type=cache,target=/c make\n", "a", ""},
		{"FROM scratch AS a\nCOPY a /x\nFROM y\nCOPY --link a /x\n", "a", "4 COPY --link"},
		{"FROM y AS z\nARG TARGETARCH\nFROM scratch AS a\nCOPY a /x\nFROM y\n", "a", "2 ARG TARGETARCH"},
		{"FROM scratch AS z\nCOPY b /x\nFROM scratch AS a\nCOPY a /x\n", "a", "1 leaving out this stage, which the target does not need"},
		{"FROM scratch AS z\nCOPY b /x\nFROM z AS a\nCOPY a /x\n", "a", ""},
	} {
		s, err := sumFor(t, c.text, Options{Target: c.target})
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var got []string
		for _, n := range s.BuildKitNeeds() {
			got = append(got, fmt.Sprint(n.Line, " ", n.What))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%q needs %q, not %q", c.text, s, c.want)
		}
	}
}

func TestExecutableDockerfileIsBuiltAsItWasHashed(t *testing.T) {
	for _, mode := range []string{"FROM scratch\nCOPY . /x\n", "FROM scratch\nCOPY a /x\n"} {
		fsys := contextOf(mode, "a")
		fsys["Dockerfile"].Mode = 0o755
		s := sum(t, fsys, nil)
		copied := strings.Contains(mode, " . ")
		if s.All()[0].Path != "Dockerfile" || s.All()[0].Exec != copied {
			t.Errorf("%q: sent as %+v", mode, s.All()[0])
		}
	}
}
