package image

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestImageIsLabelledWithTheProtocolTheServerSpeaks(t *testing.T) {
	m := regexp.MustCompile(`(?m)^LABEL io\.ctis\.protocol="(\d+)"$`).FindStringSubmatch(read(t, "Dockerfile"))
	if m == nil || m[1] != strconv.Itoa(api.Protocol) {
		t.Errorf("label %q, the server speaks %d", m, api.Protocol)
	}
}

// The host derives its registry-free build from the final stage, replacing the
// source of its only COPY.
func TestFinalStageIsPlain(t *testing.T) {
	_, final, ok := strings.Cut(read(t, "Dockerfile"), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the final stage is not FROM scratch")
	}
	plain := map[string]bool{"COPY": true, "USER": true, "LABEL": true, "STOPSIGNAL": true, "HEALTHCHECK": true, "ENTRYPOINT": true}
	copies := 0
	for line := range strings.SplitSeq(strings.TrimSpace(final), "\n") {
		word, _, _ := strings.Cut(line, " ")
		if !plain[word] || strings.HasSuffix(line, `\`) {
			t.Errorf("%q is no plain instruction", line)
		}
		if word == "COPY" {
			copies++
			if line != "COPY --from=build --chown=65532:65532 /out/ /" {
				t.Errorf("%q is not the copy the host knows", line)
			}
		}
	}
	if copies != 1 {
		t.Errorf("%d copies", copies)
	}
}

func TestContextIsServerAndPagesWithoutTests(t *testing.T) {
	docker, ignore := read(t, "Dockerfile"), read(t, "Dockerfile.dockerignore")
	var sources []string
	for _, m := range regexp.MustCompile(`(?m)^COPY ([^-]\S*) `).FindAllStringSubmatch(docker, -1) {
		sources = append(sources, m[1])
	}
	if strings.Join(sources, " ") != "server/ templates/pages/" {
		t.Errorf("copied are %q", sources)
	}
	for _, pattern := range []string{"**/__pycache__", "**/*.pyc", "**/*_test.go", "**/testdata"} {
		if !strings.Contains(ignore, "\n"+pattern+"\n") {
			t.Errorf("%s is not kept out", pattern)
		}
	}
}
