package compose

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWhatIsNoComposeFileIsNamedForWhatItIs: "there is none" would send the user
// looking for another place.
func TestWhatIsNoComposeFileIsNamedForWhatItIs(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"directory": {func(path string) error { return os.Mkdir(path, 0o755) }, `compose.yml: error: Compose file "compose.yml" is a directory`},
		"dangling":  {func(path string) error { return os.Symlink("nowhere", path) }, `compose.yml: error: Compose file "compose.yml" is a link to what does not exist`},
		"circle":    {func(path string) error { return os.Symlink("compose.yml", path) }, `compose.yml: error: Compose file "compose.yml" is a link that leads in a circle`},
	} {
		for _, declared := range []bool{false, true} {
			dir := t.TempDir()
			config, want := "network = \"x\"\n", c.want
			if declared {
				config += "compose_files = [\"compose.yml\"]\n"
				want = "ctis.toml:2:18: " + want[len("compose.yml: "):]
			}
			if err := os.WriteFile(filepath.Join(dir, ConfigFile), []byte(config), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := c.make(filepath.Join(dir, "compose.yml")); err != nil {
				t.Fatal(err)
			}
			_, ps := Load(t.Context(), Options{Dir: dir})
			want = filepath.Join(dir, want)
			if len(ps) != 1 || ps[0].String() != want {
				t.Errorf("%s, declared %t: %v\nwant %s", name, declared, ps, want)
			}
		}
	}
}
