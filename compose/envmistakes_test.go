package compose

import (
	"strings"
	"testing"
)

func TestWrongLinesOfAnEnvFileAreToldUpToALimit(t *testing.T) {
	unset := func(string) (string, bool) { return "", false }
	for name, content := range map[string]string{
		"names":  strings.Repeat("x y\n", 4*maxEnvMistakes),
		"values": strings.Repeat("A=${\n", 4*maxEnvMistakes),
	} {
		_, wrong, _ := envMistakes(content, unset)
		if len(wrong) < maxEnvMistakes || len(wrong) > maxEnvMistakes+1 {
			t.Errorf("%s: %d lines are told", name, len(wrong))
		}
		for i, w := range wrong[:maxEnvMistakes] {
			if w.line != i+1 {
				t.Errorf("%s: mistake %d is in line %d", name, i, w.line)
			}
		}
	}
}
