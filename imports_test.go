package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/linuxarena/ctis/"

// production lists the imports of every file that is no test, by path.
func production(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			imports[filepath.ToSlash(p)] = append(imports[filepath.ToSlash(p)], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(imports) < 20 {
		t.Fatalf("only %d files found; is the test run elsewhere?", len(imports))
	}
	return imports
}

func under(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") })
}

func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// TestPackagesImportOnlyWhatTheirRoomAllows keeps the arrows of the
// architecture: what faces agents depends on nothing of the host, the wire
// types on nothing at all, and what must be pure does no I/O.
func TestPackagesImportOnlyWhatTheirRoomAllows(t *testing.T) {
	pure := map[string]bool{"netpin/plan.go": false, "simulator/decide.go": false, "compose/registration.go": false}
	for file, names := range production(t) {
		if _, ok := pure[file]; ok {
			pure[file] = true
		}
		for _, name := range names {
			own := strings.TrimPrefix(name, module)
			isOwn := own != name
			switch {
			case under(file, "server/api") && !standard(name):
				t.Errorf("%s imports %s: the wire types are for both sides and depend on the standard library alone", file, name)
			case under(file, "server", "templates/pages") && !standard(name) && !(isOwn && under(own, "server", "templates/pages")):
				t.Errorf("%s imports %s: what is in the image imports the standard library and itself alone", file, name)
			case !under(file, "server") && isOwn && under(own, "server") && own != "server/api" && own != "server/rule" && !under(file, "bench", "e2e"):
				t.Errorf("%s imports %s: the host knows the server by its wire types, and by what rules mean, alone", file, name)
			case under(file, "server/rule") && (isOwn && own != "server/api" || slices.Contains([]string{"os", "os/exec", "net", "io/fs", "syscall"}, name)):
				t.Errorf("%s imports %s: what rules mean is for both sides and does no I/O", file, name)
			case name == "testing" || name == "net/http/httptest":
				if !under(file, "e2e") {
					t.Errorf("%s imports %s, which is for tests", file, name)
				}
			case strings.HasPrefix(name, "github.com/docker/docker/") && file != "commands/app.go" && !under(file, "compose/assets", "compose/sidecar", "compose/trust", "netpin", "simulator", "e2e", "bench"):
				t.Errorf("%s imports %s: the engine's client is used in few places, so that its successor touches few", file, name)
			case strings.HasPrefix(name, "github.com/compose-spec/") && path.Dir(file) != "compose":
				t.Errorf("%s imports %s: only package compose knows the Compose model", file, name)
			case name == "github.com/BurntSushi/toml" && file != "compose/config.go":
				t.Errorf("%s imports %s: only compose/config.go reads TOML", file, name)
			case strings.HasPrefix(name, "charm.land/lipgloss") && !under(file, "commands"):
				t.Errorf("%s imports %s: only package commands draws", file, name)
			}
			if _, ok := pure[file]; ok && slices.Contains([]string{"os", "os/exec", "net", "net/http", "io/fs", "syscall"}, name) {
				t.Errorf("%s imports %s: it is pure, no I/O", file, name)
			}
		}
	}
	for file, found := range pure {
		if !found {
			t.Errorf("%s is not there: mend the list or the tree", file)
		}
	}
}
