package compose

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	plainTOML = "network = 'default'\n"
	plainYAML = "services: {default: {image: x}}\n"
)

// loadSoon loads dir and fails the test where that takes longer than any
// environment may.
func loadSoon(t *testing.T, dir string) Problems {
	t.Helper()
	done := make(chan Problems, 1)
	go func() {
		_, ps := Load(context.Background(), Options{Dir: dir})
		done <- ps
	}()
	select {
	case ps := <-done:
		return ps
	case <-time.After(time.Minute):
		t.Fatal("loading does not end")
		return nil
	}
}

// Each file that an environment is read from can be one that has no end.
func TestFilesWithoutEndAreRefused(t *testing.T) {
	withFile := func(mention string) string { return "services: {default: {image: x, " + mention + "}}\n" }
	kinds := map[string]struct {
		put  func(path string) error
		want string
	}{
		"a pipe":   {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is a named pipe, and only a regular file is read"},
		"a device": {func(path string) error { return os.Symlink("/dev/zero", path) }, "is a device, and only a regular file is read"},
		"too much": {func(path string) error { return os.WriteFile(path, make([]byte, maxFile+1), 0o600) }, "is larger than 1024 KiB"},
	}
	for name, c := range map[string]struct{ file, toml, yaml, at string }{
		"ctis.toml":      {file: "ctis.toml", yaml: plainYAML, at: "ctis.toml: "},
		"Compose file":   {file: "compose.yaml", toml: plainTOML, at: "compose.yaml: "},
		"named file":     {file: "a.yaml", toml: plainTOML + "compose_files = ['a.yaml']\n", at: "a.yaml: "},
		".env":           {file: ".env", toml: plainTOML, yaml: plainYAML, at: ".env: "},
		"include":        {file: "sub/a.yaml", toml: plainTOML, yaml: plainYAML + "include: [sub/a.yaml]\n", at: "compose.yaml:2:11: "},
		"include's path": {file: "sub/a.yaml", toml: plainTOML, yaml: plainYAML + "include:\n- {path: ['${X:-sub}/a.yaml']}\n", at: "compose.yaml:3:3: "},
		"include's .env": {file: "sub/.env", toml: plainTOML, yaml: plainYAML + "include: [sub/ok.yaml]\n", at: "compose.yaml:2:11: "},
		"include's env":  {file: "e", toml: plainTOML, yaml: plainYAML + "include:\n- path: sub/ok.yaml\n  env_file: [e]\n", at: "compose.yaml:4:14: "},
		"nested include": {file: "sub/b.yaml", toml: plainTOML, yaml: plainYAML + "include: [sub/inner.yaml]\n", at: "sub/inner.yaml:1:11: "},
		"extends":        {file: "b.yaml", toml: plainTOML, yaml: withFile("extends: {file: b.yaml, service: z}"), at: "compose.yaml:1:48: "},
		"extends by <<":  {file: "b.yaml", toml: plainTOML, yaml: "x-e: &e {extends: {file: b.yaml, service: z}}\nservices: {default: {<<: *e, image: x}}\n", at: "compose.yaml:1:26: "},
		"env_file":       {file: "e", toml: plainTOML, yaml: withFile("env_file: e"), at: "compose.yaml:1:42: "},
		"optional env":   {file: "e", toml: plainTOML, yaml: withFile("env_file: [{path: e, required: false}]"), at: "compose.yaml:1:43: "},
		"label_file":     {file: "e", toml: plainTOML, yaml: withFile("label_file: e"), at: "compose.yaml:1:44: "},
		"included env":   {file: "sub/e", toml: plainTOML, yaml: plainYAML + "include: [sub/env.yaml]\n", at: "sub/env.yaml:1:36: "},
	} {
		for kind, k := range kinds {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				for file, content := range map[string]string{
					"ctis.toml": c.toml, "compose.yaml": c.yaml, "sub/ok.yaml": "services: {z: {image: x}}\n", "sub/inner.yaml": "include: [b.yaml]\n",
					"sub/env.yaml": "services: {z: {image: x, env_file: e}}\n",
				} {
					if content != "" {
						write(t, dir, file, content)
					}
				}
				if err := k.put(filepath.Join(dir, c.file)); err != nil {
					t.Fatal(err)
				}
				got := render(loadSoon(t, dir), dir)
				if !strings.HasPrefix(got, c.at+"error: ") || !strings.Contains(got, k.want) || strings.Count(got, "error: ") != 1 || !strings.Contains(got, "\n    ") {
					t.Errorf("got\n%s\nwant one error at %s that says %q and what to do", got, c.at, k.want)
				}
				if !strings.HasPrefix(c.at, c.file) && !strings.Contains(got, `"`+c.file+`"`) {
					t.Errorf("%s is not named:\n%s", c.file, got)
				}
			})
		}
	}
}

// A mistake about one file of a service does not make another be read.
func TestAFileWithoutEndBesideAMissingOneIsNotRead(t *testing.T) {
	dir := writeEnvironment(t, plainTOML, "services: {default: {image: x, env_file: missing.env, label_file: e}}\n")
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "e")); err != nil {
		t.Fatal(err)
	}
	if got := render(loadSoon(t, dir), dir); !strings.Contains(got, "missing.env") && !strings.Contains(got, "is a device") {
		t.Errorf("neither file is named:\n%s", got)
	}
}

// What a decoder would take minutes or all memory for, within the size of a file.
func TestWhatDecodersCannotTakeIsRefused(t *testing.T) {
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	bomb := "x-0: &a0 [z,z,z,z,z,z,z,z,z]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("x-%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	deepAliases := "x-0: &a0 z\n" // short steps, a long way
	for i := range 300 {
		deepAliases += fmt.Sprintf("x-%d: &a%d [*a%d]\n", i+1, i+1, i)
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"TOML arrays":       {map[string]string{"ctis.toml": "x = " + strings.Repeat("[", 20000)}, "ctis.toml:1:205: error: this file is nested more than 200 levels deep"},
		"TOML tables":       {map[string]string{"ctis.toml": "x = " + strings.Repeat("{a=", 20000)}, "ctis.toml:1:605: error: this file is nested more than 200 levels deep"},
		"TOML dotted key":   {map[string]string{"ctis.toml": "x" + strings.Repeat(".a", 20000) + " = 1"}, "ctis.toml:1:402: error: this file is nested more than 200 levels deep"},
		"TOML header":       {map[string]string{"ctis.toml": "[x" + strings.Repeat(".a", 20000) + "]"}, "ctis.toml:1:401: error: this file is nested more than 200 levels deep"},
		"TOML both":         {map[string]string{"ctis.toml": "[x" + strings.Repeat(".a", 150) + "]\ny" + strings.Repeat(".b", 60) + "= 1"}, "error: this file is nested more than 200 levels deep"},
		"TOML long key":     {map[string]string{"ctis.toml": "[" + strings.Repeat("k", 400000) + "]\n" + many("a#=1\n", 50000)}, "error: this file has a key of more than 1024 bytes"},
		"YAML flow":         {map[string]string{"compose.yaml": "x-deep: " + strings.Repeat("{a: ", 5000) + "1" + strings.Repeat("}", 5000) + "\n" + plainYAML}, "compose.yaml:1:20006: error: this file is nested more than 200 levels deep"},
		"YAML beyond":       {map[string]string{"compose.yaml": "x-deep: " + strings.Repeat("[", 500000)}, "error: this file is nested more than 200 levels deep"},
		"YAML block":        {map[string]string{"compose.yaml": "x-deep:\n " + strings.Repeat("- ", 5000) + "1\n" + plainYAML}, "error: this file is nested more than 200 levels deep"},
		"YAML aliases":      {map[string]string{"compose.yaml": deepAliases + plainYAML}, "compose.yaml:1:6: error: this file is nested more than 200 levels deep"},
		"YAML in include":   {map[string]string{"compose.yaml": plainYAML + "include: [a.yaml]\n", "a.yaml": "x-deep: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)}, "a.yaml:1:5008: error: this file is nested more than 200 levels deep"},
		"YAML bomb":         {map[string]string{"compose.yaml": bomb + plainYAML}, "error: this file brings the project to more than 400000 values"},
		"YAML in itself":    {map[string]string{"compose.yaml": plainYAML + "a: &a {<<: {x: 1, <<: *a}}\n"}, "compose.yaml:2:4: error: this file has an anchor \"a\" that contains an alias of itself"},
		"YAML documents":    {map[string]string{"compose.yaml": strings.Repeat("x-a: &a [1,2,3,4,5,6,7,8,9]\nx-b: [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n---\n", 9000) + plainYAML}, "error: this file brings the project to more than 400000 values"},
		"many services":     {map[string]string{"compose.yaml": plainYAML + "x:\n" + many(" s#: {image: x}\n", 30000)}, "error: this file has a mapping or list of more than 5000 members"},
		"many ports":        {map[string]string{"compose.yaml": "services: {default: {image: x, ports: [" + many("'1-65535:1-65535',", 100) + "]}}\n"}, "compose.yaml:1:32: error: this file brings the project to more than 5000 ports"},
		"many files":        {map[string]string{"compose.yaml": plainYAML + "include:\n" + many("- {path: a.yaml, project_directory: d#}\n", 1100), "a.yaml": ""}, "error: the project includes more than 1000 files"},
		"defaults":          {map[string]string{"compose.yaml": "x-a: '" + strings.Repeat("${A:-", 50000) + strings.Repeat("}", 50000) + "'\n" + plainYAML}, "compose.yaml:1:6: error: this file brings the project to more text with variables than"},
		"variables of .env": {map[string]string{"compose.yaml": plainYAML, ".env": "A0=xxxxxxxx\n" + doubling(60)}, ".env:18:1: error: this file has variables that grow to more than 4 MiB"},
		"variables":         {map[string]string{"compose.yaml": "x-a: '" + strings.Repeat("${A}", 500) + "'\n" + plainYAML, ".env": "A=" + strings.Repeat("x", 100000)}, "variables make this project larger than 4 MiB"},
		"variables of a service": {map[string]string{
			"compose.yaml": "services: {default: {image: x, env_file: [e]}}\n", "e": "A0=xxxxxxxx\n" + doubling(60)}, "e:22:1: error: this file has variables that grow to more than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := map[string]string{"ctis.toml": plainTOML, "compose.yaml": plainYAML}
			maps.Copy(files, c.files)
			for file, content := range files {
				write(t, dir, file, content)
			}
			ps := loadSoon(t, dir)
			if got := render(ps, dir); !strings.Contains(got, c.want) || len(ps) > 1 && name != "variables" {
				t.Errorf("got\n%.600s\nwant\n%s", got, c.want)
			}
		})
	}
}

// doubling is an env file each of whose variables is two of the one before.
func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "A%d=$A%d$A%d\n", i+1, i, i)
	}
	return b.String()
}

func TestDepthIsThatOfValuesNotOfText(t *testing.T) {
	brackets := strings.Repeat("[{.", 500)
	toml := "# " + brackets + "\nnetwork = 'default'\n[personas.'a.example']\nserver_header = '" + brackets + "'\n[personas.\"b.example\"]\nendpoints = [\n'data', # " + brackets + "\n'public',\n]\n"
	toml += "[personas.'c.example']\nserver_header = \"\"\"" + brackets + "\"\"\"\n" + strings.Repeat("# x\n", 300)
	for i := range 300 {
		toml += fmt.Sprintf("[personas.'h%d.example']\nendpoints = ['data', 'webhook']\n", i)
	}
	yaml := "# " + brackets + "\nservices:\n  default:\n    image: x\n    command: ['" + brackets + "']\n    environment:\n      A: |\n        " + brackets + "\n"
	dir := writeEnvironment(t, toml, yaml)
	if _, ps := Load(context.Background(), Options{Dir: dir}); ps.HasErrors() {
		t.Error(render(ps, dir))
	}
}

func TestAFileOfTheGreatestSizeIsRead(t *testing.T) {
	dir := writeEnvironment(t, plainTOML+strings.Repeat("#", maxFile-len(plainTOML)), plainYAML+strings.Repeat("#", maxFile-len(plainYAML)))
	if _, ps := Load(context.Background(), Options{Dir: dir}); len(ps) > 0 {
		t.Error(render(ps, dir))
	}
}

func TestNoDirectoryIsNotCalledOneWithoutConfig(t *testing.T) {
	dir := writeEnvironment(t, plainTOML, plainYAML)
	for path, want := range map[string]string{
		"gone":      "gone: error: this directory does not exist",
		"gone/deep": "gone/deep: error: this directory does not exist",
		ConfigFile:  ConfigFile + ": error: this is a file, and an environment is a directory\n    name the directory: ",
	} {
		_, ps := Load(context.Background(), Options{Dir: filepath.Join(dir, path)})
		if got := render(ps, dir); !strings.HasPrefix(got, want) || len(ps) != 1 {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
}
