package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/imagehash"
)

// The engine's builders are asked, for each part of each case, which files they
// read: every file has content of its own, and is read if that is in what the
// part made. The hash must name these files, and no other. Then a context of the
// inputs alone must give the same, so that nothing else was read; and every link
// that is an input must change what is made if it leads elsewhere.
func TestInputsAreWhatTheBuildersRead(t *testing.T) {
	if os.Getenv("CTIS_E2E") != "1" {
		t.Skip("needs a Docker engine: set CTIS_E2E=1, or run ./task test")
	}
	eng, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	version, err := eng.ServerVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	major := majorOf(t, version.Version)
	base, err := images.Scratch(t.Context(), eng, images.ScratchSpec{Name: "copytree", Package: "github.com/linuxarena/ctis/e2e/copytree"})
	if err != nil {
		t.Fatal(err)
	}
	kit, old := buildKit(t, eng), classic(t)
	turns := make(chan struct{}, 4) // most of a build is waiting for the engine
	for _, c := range slices.Concat(buildCases, corpusCases(t)) {
		for i, p := range c.parts {
			c.parts[i].from = strings.ReplaceAll(p.from, "{{base}}", base)
			if p.since > major {
				c.parts[i].buildKit = cmp.Or(p.before, refuses)
			}
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			c.check(t, kit, func(p part) *difference { return p.buildKit })
			c.check(t, old, func(p part) *difference { return p.classic })
		})
	}
}

// check asks one builder.
func (c buildCase) check(t *testing.T, b builder, differs func(part) *difference) {
	t.Helper()
	ctx := t.Context()
	known := c
	known.parts = nil
	names := map[int]string{}
	for i, p := range c.parts {
		if d := differs(p); d == nil || !d.refuses {
			names[i] = fmt.Sprintf("part-%d", i+1)
			continue
		}
		alone := c
		alone.parts = []part{p}
		dir := t.TempDir()
		alone.write(t, dir, map[int]string{0: fmt.Sprintf("part-%d", i+1)})
		if _, err := b.build(ctx, alone.order(dir)); err == nil {
			t.Errorf("%s builds what it is said to refuse: %s", b.name, p.name)
		}
	}
	if len(names) == 0 {
		return
	}

	dir := t.TempDir()
	content := c.write(t, dir, names)
	whole, err := b.build(ctx, c.order(dir))
	if err != nil {
		t.Errorf("%s: %v", b.name, err)
		return
	}
	links := map[string][]string{} // by part
	for i, name := range names {
		sum := c.sum(t, dir, c.parts[i].last(name))
		var files []string
		for _, in := range sum.Inputs {
			if in.Kind == imagehash.KindFile {
				files = append(files, in.Path)
			} else {
				links[name] = append(links[name], in.Path)
			}
		}
		read := readBy(whole.below(name), content)
		if d := differs(c.parts[i]); d != nil {
			if got := strings.Join(read, " "); got != d.reads || slices.Equal(read, files) {
				t.Errorf("%s: %s reads %s\n where it is said to read %s", c.parts[i].name, b.name, got, d.reads)
			}
		} else if !slices.Equal(read, files) {
			t.Errorf("%s: %s reads %s\n        named are %s", c.parts[i].name, b.name, read, files)
		}
	}
	c.checkAlone(ctx, t, b, dir, whole, slices.ContainsFunc(c.parts, func(p part) bool { return differs(p) != nil && !differs(p).refuses }))
	c.checkLinks(ctx, t, b, whole, names, links)
}

// checkAlone builds from what ctis would send. Where a builder reads something
// else, it lacks that.
func (c buildCase) checkAlone(ctx context.Context, t *testing.T, b builder, dir string, whole fileTree, differs bool) {
	t.Helper()
	if differs {
		return
	}
	alone := t.TempDir()
	unpack(t, c.sum(t, dir, ""), alone)
	if got, err := b.build(ctx, c.order(alone)); err != nil {
		t.Errorf("%s, from the inputs alone: %v", b.name, err)
	} else if !maps.Equal(whole, got) {
		t.Errorf("%s makes another image of the inputs alone:\n%v\nof everything:\n%v", b.name, got, whole)
	}
}

// checkLinks turns the first link of every part, then the second, and so on.
func (c buildCase) checkLinks(ctx context.Context, t *testing.T, b builder, whole fileTree, names map[int]string, links map[string][]string) {
	t.Helper()
	for round := 0; ; round++ {
		dir := t.TempDir()
		c.write(t, dir, names)
		turned := map[string]string{}
		for name, all := range links {
			if round < len(all) {
				turned[name] = all[round]
			}
		}
		if len(turned) == 0 {
			return
		}
		for _, link := range slices.Compact(slices.Sorted(maps.Values(turned))) {
			turn(t, dir, link)
		}
		other, err := b.build(ctx, c.order(dir))
		if err != nil {
			t.Errorf("%s, with links that lead elsewhere: %v", b.name, err)
			return
		}
		for name, link := range turned {
			if maps.Equal(whole.below(name), other.below(name)) {
				t.Errorf("%s makes the same of %s whatever link %q leads to", b.name, name, link)
			}
		}
	}
}

func (c buildCase) dockerfile() string {
	if c.at == "" {
		return "Dockerfile"
	}
	return c.at
}

func (c buildCase) order(dir string) order {
	return order{dir: dir, dockerfile: c.dockerfile(), args: c.args, platform: c.platform}
}

// last names the stage in which a part ends.
func (p part) last(name string) string {
	if strings.Contains(p.text, "{{more}}") {
		return "more-" + name
	}
	return name
}

// text is the Dockerfile with the named parts.
func (c buildCase) text(names map[int]string) string {
	var stages, last strings.Builder
	stages.WriteString(c.head)
	for i, p := range c.parts {
		name, ok := names[i]
		if !ok {
			continue
		}
		from, out := p.from, p.out
		if from == "" {
			from = "scratch"
		}
		if out == "" {
			out = "/"
		}
		text := strings.NewReplacer("{{part}}", name, "{{more}}", p.last(name)).Replace(p.text)
		fmt.Fprintf(&stages, "FROM %s AS %s\n%s\n", from, name, text)
		fmt.Fprintf(&last, "COPY --from=%s %s /%s/\n", p.last(name), out, name)
	}
	return stages.String() + "FROM scratch\n" + last.String()
}

func (c buildCase) sum(t *testing.T, dir, target string) *imagehash.Sum {
	t.Helper()
	in, err := imagehash.Read(t.Context(), os.DirFS(dir), imagehash.Options{Dockerfile: c.dockerfile(), Args: c.args, Target: target, Platform: c.platform})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// write makes the context, and says what each file's own content is.
func (c buildCase) write(t *testing.T, dir string, names map[int]string) map[string]string {
	t.Helper()
	content := map[string]string{}
	put := func(p, data string, mode fs.FileMode) {
		content[p] = data
		if err := os.WriteFile(place(t, dir, p), []byte(data), mode); err != nil {
			t.Fatal(err)
		}
	}
	put(c.dockerfile(), c.text(names), 0o644)
	for _, f := range c.files {
		if strings.HasSuffix(f, "/") {
			place(t, dir, f+"x")
			continue
		}
		if p, target, ok := strings.Cut(f, "->"); ok {
			if err := os.Symlink(target, place(t, dir, p)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		p, data, ok := strings.Cut(f, "=")
		p, exec := strings.CutSuffix(p, "!")
		if !ok {
			data = "content of " + p + "\n"
		}
		mode := fs.FileMode(0o644)
		if exec {
			mode = 0o755
		}
		put(p, data, mode)
	}
	return content
}

func place(t *testing.T, dir, p string) string {
	t.Helper()
	full := filepath.Join(dir, p)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	return full
}

// readBy lists the files whose content is in what was made.
func readBy(made fileTree, content map[string]string) []string {
	seen := map[string]bool{}
	for _, file := range made {
		seen[strings.TrimPrefix(strings.TrimPrefix(file, "file true "), "file false ")] = true
	}
	var out []string
	for _, p := range slices.Sorted(maps.Keys(content)) {
		if seen[content[p]] {
			out = append(out, p)
		}
	}
	return out
}

// unpack writes the context that ctis sends.
func unpack(t *testing.T, sum *imagehash.Sum, dir string) {
	t.Helper()
	var context bytes.Buffer
	if err := sum.WriteTar(&context); err != nil {
		t.Fatal(err)
	}
	// With times of now: BuildKit keeps what it got of a directory of that name before,
	// and takes a file of the same size and time for the same.
	cmd := exec.Command("tar", "-x", "-m", "-C", dir)
	cmd.Stdin = &context
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("unpack the context: %v: %s", err, out)
	}
}

// turn makes a link lead into alt instead, to the same kind of thing.
func turn(t *testing.T, dir, link string) {
	t.Helper()
	full := filepath.Join(dir, link)
	to := "alt/db"
	if fi, err := os.Stat(full); err == nil && fi.IsDir() {
		to = "alt"
	}
	target, err := filepath.Rel(filepath.Dir(link), to)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, full); err != nil {
		t.Fatal(err)
	}
}
