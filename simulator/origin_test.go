package simulator

import (
	"strings"
	"testing"

	recipe "github.com/linuxarena/ctis/templates/image"
)

func TestWhatABuildLeftIsToldFromWhatWasBuiltOnIt(t *testing.T) {
	nop := func(lines ...string) (out []string) {
		for _, l := range lines {
			out = append(out, "/bin/sh -c #(nop)  "+l)
		}
		return out
	}
	var run string
	for _, step := range recipe.StepsAfter(LabelBuildStage) {
		if rest, ok := strings.CutPrefix(step, "RUN "); ok {
			run = rest
		}
	}
	if run == "" || len(recipe.StepsAfter(LabelProtocol)) < 5 {
		t.Fatalf("the Dockerfile is not read: %q", recipe.StepsAfter(LabelProtocol))
	}
	hash, stage, protocol := map[string]string{LabelHash: "ab", LabelProtocol: "2"}, map[string]string{LabelBuildStage: "1"}, map[string]string{LabelProtocol: "2"}
	whole := nop("LABEL io.ctis.protocol=2", "COPY --chown=65532:65532dir:12 in / ", "USER 65532:65532", "STOPSIGNAL SIGTERM",
		`HEALTHCHECK &{["CMD" "/ctis-server" "health"] "10s" "5s" "2s" '\x03'}`, `ENTRYPOINT ["/ctis-server"]`)
	kit := []string{"LABEL io.ctis.protocol=2", "COPY /out/ / # buildkit", `ENTRYPOINT ["/ctis-server"]`}
	inStage := append([]string{"ADD rootfs.tar / # buildkit"}, nop("LABEL io.ctis.build-stage=1", "WORKDIR /src", "COPY dir:1 in server/ ", "COPY dir:2 in templates/pages/ ")...)
	with := func(history []string, more ...string) []string {
		return append(append([]string{}, history...), more...)
	}
	for _, tt := range []struct {
		name          string
		labels        map[string]string
		history, twin []string
		want          bool
	}{
		{"classic, before its tag", hash, with(whole, nop("LABEL io.ctis.source-hash=ab")...), nil, true},
		{"classic, with another label", hash, with(whole, nop("LABEL a=b io.ctis.source-hash=ab c=d")...), nil, true},
		{"built on it, classic", hash, with(whole, nop("LABEL io.ctis.source-hash=ab", "COPY file:1 in /mine ")...), nil, false},
		{"built on it, BuildKit", hash, with(whole, "/bin/sh -c #(nop)  LABEL io.ctis.source-hash=ab", "COPY mine / # buildkit"), whole, false},
		{"of another hash", hash, nop("LABEL io.ctis.source-hash=abc"), nil, false},
		{"BuildKit, like the one that is tagged", hash, kit, kit, true},
		{"BuildKit, built on the one that is tagged", hash, with(kit, "RUN mine # buildkit"), kit, false},
		{"BuildKit, and none is tagged", hash, kit, nil, false},
		{"nothing known of it", hash, nil, nil, false},
		{"no label of ctis", map[string]string{"a": "b"}, whole, whole, false},
		{"stage, just begun", stage, inStage[:2], nil, true},
		{"stage, in the middle", stage, inStage, nil, true},
		{"stage, whole", stage, with(inStage, "/bin/sh -c "+run), nil, true},
		{"stage, whole, with arguments", stage, with(inStage, "|1 A=b /bin/sh -c "+run), nil, true},
		{"built on the stage", stage, with(inStage, "/bin/sh -c "+run, "/bin/sh -c mine"), nil, false},
		{"built on a part of the stage", stage, with(inStage, "/bin/sh -c mine"), nil, false},
		{"last stage, just begun", protocol, whole[:1], nil, true},
		{"last stage, in the middle", protocol, whole[:3], nil, true},
		{"built by hand", protocol, whole, nil, false},
		{"built by hand, and on it", protocol, with(whole, nop("CMD x")...), nil, false},
		{"somebody's Dockerfile with that label", protocol, nop("LABEL io.ctis.protocol=2", "ENV A=b"), nil, false},
	} {
		if got := leftByBuild(tt.labels, tt.history, tt.twin); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
