package assets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
)

func seedOf(e *fakeEngine) Seed {
	return Seed{Trajectory: "t1", Service: "default", Dir: seedDir, Containers: e.containers()}
}

// served lists what the simulator has, as "path=digest's beginning size".
func served(t *testing.T, f *files) string {
	t.Helper()
	list, err := f.Files.Assets("t1")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range list.Assets {
		if !a.Modified.Equal(then) || a.Mode != 0o640 || !a.Seed {
			t.Errorf("%+v", a)
		}
		all = append(all, fmt.Sprintf("%s:%d", a.Path, a.Size))
	}
	return strings.Join(all, " ")
}

func TestDirectoryIsServedDeletedAndForgotten(t *testing.T) {
	for _, noPause := range []bool{false, true} {
		b := &box{files: map[string]node{"a": file("one"), "d": dir(), "d/b": file("three"), "l": symlink("d/b"), "h": hard("a")}}
		e, f := newEngine(t, b), newFiles(t)
		e.noPause = noPause
		sum, err := Copy(t.Context(), e, f, seedOf(e))
		if err != nil || sum.Files != 4 || sum.Bytes != 16 {
			t.Fatalf("%+v, %v", sum, err)
		}
		if got := served(t, f); got != "a:3 d/b:5 h:3 l:5" {
			t.Errorf("served: %s", got)
		}
		if b.files != nil || len(e.paused) > 0 || (b.reads != 1) != noPause {
			t.Errorf("left %v, paused %v, read %d times", b.files, e.paused, b.reads)
		}
		// What is there later is none of it.
		b.files = map[string]node{"evil": file("x")}
		again, err := Copy(t.Context(), e, f, seedOf(e))
		if err != nil || again != sum || b.files == nil || b.reads > 2 {
			t.Errorf("again: %+v, %v, left %v", again, err, b.files)
		}
	}
}

// TestChangesMeanwhileAreFoundOut where the engine cannot freeze a container: nothing
// becomes visible, nothing is deleted.
func TestChangesMeanwhileAreFoundOut(t *testing.T) {
	for what, change := range map[string]func(*box){
		"added":    func(b *box) { b.files["z"] = file("new") },
		"replaced": func(b *box) { b.files["a"] = file("eno") },
		"removed":  func(b *box) { delete(b.files, "a") },
		"linked":   func(b *box) { b.files["k"] = symlink("d") },
	} {
		b := &box{files: map[string]node{"a": file("one"), "b": file("two"), "d": file("three")}, read: func(b *box) {
			if b.reads == 1 {
				change(b)
			}
		}}
		e, f := newEngine(t, b), newFiles(t)
		e.noPause = true
		_, err := Copy(t.Context(), e, f, seedOf(e))
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "changed while it was copied") || wrong.Hint() == "" {
			t.Errorf("%s: %v", what, err)
		}
		if b.files == nil || served(t, f) != "" {
			t.Errorf("%s: left %v, served %q", what, b.files, served(t, f))
		}
		// Frozen, the same program changes nothing.
		e.noPause, b.reads = false, 0
		if _, err := Copy(t.Context(), e, f, seedOf(e)); err != nil || b.files != nil {
			t.Errorf("%s, frozen: %v, left %v", what, err, b.files)
		}
	}
}

// TestKilledAnywhereItIsGoneOnWith: whichever call was the last, the next run ends
// with all of it served and none of it left, or says why not.
func TestKilledAnywhereItIsGoneOnWith(t *testing.T) {
	for _, at := range []string{"stage", "commit", "deleted"} {
		b := &box{files: map[string]node{"a": file("one"), "b": file("two")}}
		e, f := newEngine(t, b), newFiles(t)
		f.ends[at] = 1
		if _, err := Copy(t.Context(), e, f, seedOf(e)); !errors.Is(err, errKilled) {
			t.Fatalf("%s: %v", at, err)
		}
		if len(e.paused) > 0 {
			t.Errorf("%s: left paused", at)
		}
		sum, err := Copy(t.Context(), e, f, seedOf(e))
		if err != nil || sum.Files != 2 || b.files != nil || served(t, f) != "a:3 b:3" {
			t.Errorf("%s: %+v, %v, left %v, served %q", at, sum, err, b.files, served(t, f))
		}
	}
	for what, change := range map[string]struct {
		change func(map[string]node)
		ok     bool
	}{
		"partly deleted":     {func(m map[string]node) { delete(m, "a") }, true},
		"one more":           {func(m map[string]node) { m["c"] = file("new") }, false},
		"with other content": {func(m map[string]node) { m["a"] = file("eno") }, false},
	} {
		b := &box{files: map[string]node{"a": file("one"), "b": file("two")}}
		e, f := newEngine(t, b), newFiles(t)
		f.ends["commit"] = 1
		_, _ = Copy(t.Context(), e, f, seedOf(e)) // killed, as above
		change.change(b.files)
		_, err := Copy(t.Context(), e, f, seedOf(e))
		if (err == nil) != change.ok || (b.files == nil) != change.ok || served(t, f) != "a:3 b:3" {
			t.Errorf("%s: %v, left %v, served %q", what, err, b.files, served(t, f))
		}
		if err != nil && !strings.Contains(err.Error(), "other files than those that were copied before") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestReplicasAndContainersMadeAnew(t *testing.T) {
	same := func() map[string]node { return map[string]node{"a": file("one"), "old": file("x")} }
	e, f := newEngine(t, &box{files: same()}, &box{files: same()}), newFiles(t)
	if sum, err := Copy(t.Context(), e, f, seedOf(e)); err != nil || sum.Files != 2 || e.boxes["a"].files != nil || e.boxes["b"].files != nil {
		t.Fatalf("%+v, %v", sum, err)
	}
	// One replica made anew has what the others had; with other files it is refused.
	e.boxes["c"], e.boxes["b"] = e.boxes["b"], nil
	delete(e.boxes, "b")
	e.boxes["c"].files = same()
	if _, err := Copy(t.Context(), e, f, seedOf(e)); err != nil || e.boxes["c"].files != nil {
		t.Errorf("%v, left %v", err, e.boxes["c"].files)
	}
	// All made anew: what they have is what is served, and what was put by hand stays.
	if err := put(t, f, "mine", "by hand"); err != nil {
		t.Fatal(err)
	}
	if err := put(t, f, "a", "by hand too"); err != nil {
		t.Fatal(err)
	}
	e.boxes = map[string]*box{"d": {files: map[string]node{"a": file("one"), "new": file("y")}, info: e.boxes["a"].info}}
	if _, err := Copy(t.Context(), e, f, seedOf(e)); err != nil {
		t.Fatal(err)
	}
	list, err := f.Files.Assets("t1")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, a := range list.Assets {
		got += fmt.Sprintf("%s:%d ", a.Path, a.Size)
	}
	if got != "a:11 mine:7 new:1 " {
		t.Errorf("served: %s", got)
	}
}

func TestWhatCannotBeDeletedIsRefusedBeforeOrAfter(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*box)
		says   string
	}{
		"not there":   {func(b *box) { b.files = nil }, "there is no directory"},
		"read-only":   {func(b *box) { b.info.HostConfig.ReadonlyRootfs = true }, "is read-only"},
		"tmpfs":       {func(b *box) { b.info.HostConfig.Tmpfs = map[string]string{"/srv": ""} }, "mount (tmpfs)"},
		"volume":      {func(b *box) { b.info.Mounts = []container.MountPoint{{Type: "volume", Destination: seedDir + "/sub"}} }, "not the container's own"},
		"bind above":  {func(b *box) { b.info.Mounts = []container.MountPoint{{Type: "bind", Destination: "/srv/"}} }, "not the container's own"},
		"link":        {func(b *box) { b.around = map[string]fs.FileMode{seedDir: fs.ModeSymlink} }, "is no directory"},
		"link above":  {func(b *box) { b.around = map[string]fs.FileMode{"/srv": fs.ModeSymlink} }, "is no directory"},
		"a file":      {func(b *box) { b.around = map[string]fs.FileMode{seedDir: 0o644} }, "is no directory"},
		"stuck":       {func(b *box) { b.stuck = true }, "cannot be deleted: operation not permitted"},
		"link out":    {func(b *box) { b.files["l"] = symlink("/etc/shadow") }, "outside of the directory"},
		"named alike": {func(b *box) { b.info.Mounts = []container.MountPoint{{Type: "bind", Destination: seedDir + "2"}} }, ""},
	} {
		b := &box{files: map[string]node{"a": file("one")}}
		e, f := newEngine(t, b), newFiles(t)
		c.change(b)
		_, err := Copy(t.Context(), e, f, seedOf(e))
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.says) || wrong.Hint() == "" || !strings.Contains(err.Error(), `service "default"`) {
			t.Errorf("%s: %v", what, err)
		}
		if len(e.paused) > 0 {
			t.Errorf("%s: left paused", what)
		}
		if what != "stuck" && served(t, f) != "" {
			t.Errorf("%s: served %q", what, served(t, f))
		}
	}
}

// TestInterruptLeavesNothingFrozen: what must be done then is done on a context that
// the interrupt does not end.
func TestInterruptLeavesNothingFrozen(t *testing.T) {
	b := &box{files: map[string]node{"a": file("one")}}
	e, f := newEngine(t, b), newFiles(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.interrupt = cancel
	if _, err := Copy(ctx, e, f, seedOf(e)); !errors.Is(err, context.Canceled) || e.pauses != 1 || len(e.paused) > 0 || b.files == nil {
		t.Errorf("%v, paused %v, left %v", err, e.paused, b.files)
	}
}

func TestUploadThatArrivesOtherwiseIsNotUsed(t *testing.T) {
	b := &box{files: map[string]node{"a": file("one")}}
	e, f := newEngine(t, b), newFiles(t)
	f.spoil = true
	if _, err := Copy(t.Context(), e, f, seedOf(e)); err == nil || b.files == nil || served(t, f) != "" {
		t.Errorf("%v, left %v, served %q", err, b.files, served(t, f))
	}
}
