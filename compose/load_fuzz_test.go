package compose

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Whatever a Compose file holds, loading it must end, and what is wrong with it
// must be reported with a place inside a file.
func FuzzLoadReportsInsteadOfCrashing(f *testing.F) {
	stories, _ := filepath.Glob("testdata/load/*.txtar")
	for _, story := range stories {
		if a, err := txtar.ParseFile(story); err == nil {
			if content := fileIn(a, "compose.yaml"); content != "" {
				f.Add(content)
			}
		}
	}
	f.Add("a: &a {<<: {x: 1, <<: *a}}\nservices: {<<: *a, default: *a}\n")
	f.Add("services: &s\n  default: *s\n")
	f.Add("services: {default: {<<: [*x]}}\n")
	f.Fuzz(func(t *testing.T, content string) {
		// An include could name a pipe or a device, which no test should wait for.
		if strings.Contains(content, "/dev") || strings.Contains(content, "/proc") {
			t.Skip()
		}
		sub := t.TempDir()
		write(t, sub, ConfigFile, "network = 'default'\n[personas.'a.test']\n")
		write(t, sub, "compose.yaml", content)
		env, ps := Load(context.Background(), Options{Dir: sub})
		if (env == nil) != ps.HasErrors() {
			t.Errorf("environment %v with %v", env, ps)
		}
		for _, p := range ps {
			if p.Line < 1 || p.Column < 1 || strings.TrimSpace(p.Message) == "" {
				t.Errorf("%+v", p)
			}
		}
		if env != nil {
			if _, _, err := env.Override(OverrideInput{ID: "t", Instance: "i", Networks: map[string]NetworkPlan{env.Network: {Simulator: addr("10.0.0.9")}}}); err != nil {
				t.Errorf("no override: %v", err)
			}
		}
	})
}
