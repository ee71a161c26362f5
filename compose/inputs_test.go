package compose

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestChangedNamesEachFileThatIsReadAnew(t *testing.T) {
	files := map[string]string{
		ConfigFile:          "network='default'\n",
		"compose.yaml":      "include: [{path: sub/inner.yaml, env_file: [sub/vars.env]}]\nservices:\n  default:\n    extends: {file: base.yaml, service: base}\n    env_file: [a.env, {path: optional.env, required: false}]\n    label_file: [labels.env]\n",
		"base.yaml":         "services: {base: {image: x}}\n",
		"sub/inner.yaml":    "services: {inner: {image: x, env_file: b.env}}\n",
		"sub/vars.env":      "V=1\n",
		"sub/b.env":         "B=1\n",
		".env":              "E=1\n",
		"a.env":             "A=1\n",
		"labels.env":        "l=1\n",
		"beside/unused.env": "U=1\n",
	}
	for changed, want := range map[string]bool{
		"compose.yaml": true, "base.yaml": true, "sub/inner.yaml": true, "sub/vars.env": true, "sub/b.env": true, ".env": true, "a.env": true, "labels.env": true,
		"optional.env": true, ConfigFile: false, "beside/unused.env": false,
	} {
		t.Run(changed, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range files {
				write(t, dir, name, content)
			}
			env := mustLoad(t, Options{Dir: dir, ID: "t"})
			if got := env.Changed(); len(got) > 0 {
				t.Errorf("changed before anything did: %q", got)
			}
			write(t, dir, changed, files[changed]+"# more\n")
			if got := env.Changed(); slices.Contains(got, changed) != want || len(got) > 1 {
				t.Errorf("changed are %q", got)
			}
			if err := os.Remove(filepath.Join(dir, changed)); err != nil {
				t.Fatal(err)
			}
			if got := env.Changed(); slices.Contains(got, changed) != (want && changed != "optional.env") {
				t.Errorf("without the file, changed are %q", got)
			}
		})
	}
}
