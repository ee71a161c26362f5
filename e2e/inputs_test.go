package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	kit, old := buildKit(t), classic(eng)
	for _, whole := range slices.Concat(buildCases, corpusCases(t)) {
		for i, p := range whole.parts {
			whole.parts[i].from = strings.ReplaceAll(p.from, "{{base}}", base)
			if p.since > major {
				whole.parts[i].buildKit = refuses
				if p.classic == nil {
					whole.parts[i].classic = refuses
				}
			}
		}
		// One build answers for many parts, several builds at once for all.
		for parts := range slices.Chunk(whole.parts, 9) {
			c := whole
			c.parts = parts
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				var wg sync.WaitGroup
				wg.Go(func() { c.check(t, kit, func(p part) *difference { return p.buildKit }) })
				wg.Go(func() { c.check(t, old, func(p part) *difference { return p.classic }) })
				wg.Wait()
			})
		}
	}
}

// check asks one builder.
func (c buildCase) check(t *testing.T, b builder, differs func(part) *difference) {
	t.Helper()
	ctx := t.Context()
	var wg sync.WaitGroup
	defer wg.Wait()
	names := map[int]string{}
	for i, p := range c.parts {
		name := fmt.Sprintf("part-%d", i+1)
		if d := differs(p); d == nil || !d.refuses {
			names[i] = name
			continue
		}
		alone := c
		alone.parts = []part{p}
		dir := t.TempDir()
		if _, err := alone.write(dir, map[int]string{0: name}, b.gathers); err != nil {
			t.Error(err)
			return
		}
		wg.Go(func() {
			_, built := b.inTurn(ctx, alone.order(dir))
			if !differs(p).byCtis {
				if built == nil {
					t.Errorf("%s builds what it is said to refuse: %s", b.name, p.name)
				}
				return
			}
			if sum, err := alone.sum(ctx, dir, ""); err != nil || len(sum.BuildKitNeeds()) == 0 {
				t.Errorf("%s may build what the hash is not of, and ctis does not refuse that: %s (%v)", b.name, p.name, err)
			}
		})
	}
	if len(names) == 0 {
		return
	}

	dir := t.TempDir()
	content, err := c.write(dir, names, b.gathers)
	if err != nil {
		t.Error(err)
		return
	}
	whole, err := b.inTurn(ctx, c.order(dir))
	if err != nil {
		t.Errorf("%s: %v", b.name, err)
		return
	}
	links := map[string][]string{} // by part
	for i, name := range names {
		sum, err := c.sum(ctx, dir, c.parts[i].last(name))
		if err != nil {
			t.Error(err)
			return
		}
		var files []string
		for _, in := range sum.Inputs {
			if in.Kind == imagehash.KindFile {
				files = append(files, in.Path)
			} else {
				links[name] = append(links[name], in.Path)
			}
		}
		read := readBy(c.made(whole, i, name), content)
		if d := differs(c.parts[i]); d != nil {
			if got := strings.Join(read, " "); got != d.reads || slices.Equal(read, files) {
				t.Errorf("%s: %s reads %s\n where it is said to read %s", c.parts[i].name, b.name, got, d.reads)
			}
		} else if !slices.Equal(read, files) {
			t.Errorf("%s: %s reads %s\n        named are %s", c.parts[i].name, b.name, read, files)
		}
	}
	if !slices.ContainsFunc(c.parts, func(p part) bool { return differs(p) != nil && !differs(p).refuses }) {
		wg.Go(func() { c.checkAlone(ctx, t, b, dir, whole) }) // where a builder reads something else, it lacks that
	}
	for round := 0; ; round++ {
		turned := map[string]string{} // the link of each part
		some := map[int]string{}      // the parts that have one
		for i, name := range names {
			if all := links[name]; round < len(all) {
				turned[name], some[i] = all[round], name
			}
		}
		if len(turned) == 0 {
			return
		}
		wg.Go(func() { c.checkLinks(ctx, t, b, whole, some, turned) })
	}
}

// checkAlone builds from what ctis would send.
func (c buildCase) checkAlone(ctx context.Context, t *testing.T, b builder, dir string, whole fileTree) {
	t.Helper()
	alone := t.TempDir()
	sum, err := c.sum(ctx, dir, "")
	if err == nil {
		err = unpack(sum, alone)
	}
	if err != nil {
		t.Error(err)
	} else if got, err := b.inTurn(ctx, c.order(alone)); err != nil {
		t.Errorf("%s, from the inputs alone: %v", b.name, err)
	} else if !maps.Equal(whole, got) {
		t.Errorf("%s makes another image of the inputs alone:\n%v\nof everything:\n%v", b.name, got, whole)
	}
}

// checkLinks turns one link of each of some parts.
func (c buildCase) checkLinks(ctx context.Context, t *testing.T, b builder, whole fileTree, some map[int]string, turned map[string]string) {
	t.Helper()
	dir := t.TempDir()
	_, err := c.write(dir, some, b.gathers)
	for _, link := range slices.Compact(slices.Sorted(maps.Values(turned))) {
		if err == nil {
			err = turn(dir, link)
		}
	}
	if err != nil {
		t.Error(err)
		return
	}
	other, err := b.inTurn(ctx, c.order(dir))
	if err != nil {
		t.Errorf("%s, with links that lead elsewhere: %v", b.name, err)
		return
	}
	for i, name := range some {
		if maps.Equal(c.made(whole, i, name), c.made(other, i, name)) {
			t.Errorf("%s makes the same of %s whatever link %q leads to", b.name, c.parts[i].name, turned[name])
		}
	}
}

// made is what a part made: of one that goes on in a second stage, that.
func (c buildCase) made(tree fileTree, i int, name string) fileTree {
	return tree.below(c.parts[i].last(name))
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

// text is the Dockerfile with the named parts, and a last one that gathers what they
// made where that is asked for.
func (c buildCase) text(names map[int]string, gather bool) string {
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
		fmt.Fprintf(&last, "COPY --from=%s %s /%s/\n", p.last(name), out, p.last(name))
	}
	if !gather {
		return stages.String()
	}
	return stages.String() + "FROM scratch\n" + last.String()
}

func (c buildCase) sum(ctx context.Context, dir, target string) (*imagehash.Sum, error) {
	in, err := imagehash.Read(ctx, imagehash.Dir(dir), imagehash.Options{Dockerfile: c.dockerfile(), Args: c.args, Target: target, Platform: c.platform})
	if err != nil {
		return nil, err
	}
	return in.Sum(ctx)
}

// write makes the context, and says what each file's own content is.
func (c buildCase) write(dir string, names map[int]string, gather bool) (map[string]string, error) {
	content := map[string]string{}
	put := func(p, data string, mode fs.FileMode) error {
		content[p] = data
		full, err := place(dir, p)
		if err != nil {
			return err
		}
		return os.WriteFile(full, []byte(data), mode)
	}
	errs := []error{put(c.dockerfile(), c.text(names, gather), 0o644)}
	for _, f := range c.files {
		if strings.HasSuffix(f, "/") {
			_, err := place(dir, f+"x")
			errs = append(errs, err)
			continue
		}
		if p, target, ok := strings.Cut(f, "->"); ok {
			full, err := place(dir, p)
			errs = append(errs, err, os.Symlink(target, full))
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
		errs = append(errs, put(p, data, mode))
	}
	return content, errors.Join(errs...)
}

func place(dir, p string) (string, error) {
	full := filepath.Join(dir, p)
	return full, os.MkdirAll(filepath.Dir(full), 0o755)
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
func unpack(sum *imagehash.Sum, dir string) error {
	var context bytes.Buffer
	if err := sum.WriteTar(&context); err != nil {
		return err
	}
	// With times of now: BuildKit keeps what it got of a directory of that name before,
	// and takes a file of the same size and time for the same.
	cmd := exec.Command("tar", "-x", "-m", "-C", dir)
	cmd.Stdin = &context
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack the context: %w: %s", err, out)
	}
	return nil
}

// turn makes a link lead into alt instead, to the same kind of thing.
func turn(dir, link string) error {
	full := filepath.Join(dir, link)
	to := "alt/db"
	if fi, err := os.Stat(full); err == nil && fi.IsDir() {
		to = "alt"
	}
	target, err := filepath.Rel(filepath.Dir(link), to)
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(full), os.Symlink(target, full))
}
