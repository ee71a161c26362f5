package assets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// Seed says which directory of which containers is to be served.
type Seed struct {
	Trajectory string
	Service    string      // for errors
	Dir        string      // absolute and clean, not "/"
	Containers []Container // all of the service
	Progress   Progress    // may be nil
}

// Container is one container of the default service.
type Container struct{ ID, Name string }

// Copy makes the simulator serve the seed directory and deletes it in every
// container. It goes on from wherever an earlier call was ended, and does nothing
// where one has succeeded: a directory of that name which is there later is not what
// was to be served, and stays. It returns what was copied.
//
// Nothing is deleted before the simulator has it, under the same count and digest,
// on stable storage; and nothing that it does not have. An *[Error] says what is
// wrong with the directory.
func Copy(ctx context.Context, eng Engine, sim Simulator, seed Seed) (api.AssetSum, error) {
	list, err := sim.Assets(ctx, seed.Trajectory)
	if err != nil {
		return api.AssetSum{}, err
	}
	s := &seeding{Seed: seed, eng: eng, sim: sim}
	gone := map[string]bool{}
	if was := list.Seeded; was != nil {
		for _, id := range was.Deleted {
			gone[id] = true
		}
		// If all containers are others, so may their directories be.
		if slices.ContainsFunc(seed.Containers, func(c Container) bool { return c.ID == was.From || gone[c.ID] }) {
			s.took(was.AssetSum, list.Assets)
		}
	}
	for _, c := range seed.Containers {
		if s.copied != nil && gone[c.ID] {
			continue
		}
		if err := s.one(ctx, c); err != nil {
			return s.sum, fmt.Errorf("seed assets of service %q (container %q): %w", seed.Service, c.Name, err)
		}
	}
	return s.sum, nil
}

type seeding struct {
	Seed
	eng    Engine
	sim    Simulator
	sum    api.AssetSum
	copied map[string]string // digest by path, of what the simulator has; nil: nothing yet
}

func (s *seeding) took(sum api.AssetSum, files []api.Asset) {
	s.sum, s.copied = sum, map[string]string{}
	for _, a := range files {
		if a.Seed {
			s.copied[a.Path] = a.SHA256
		}
	}
}

// one sees to one container: copies its directory if none was, or makes sure that
// it has nothing else, and deletes it.
func (s *seeding) one(ctx context.Context, c Container) (err error) {
	frozen, thaw := freeze(ctx, s.eng, c.ID)
	defer func() { err = errors.Join(err, thaw()) }()
	there, err := s.place(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case there && s.copied == nil:
		err = s.copy(ctx, c, frozen)
	case there:
		err = s.compare(ctx, c)
	case s.copied == nil:
		err = &Error{Msg: fmt.Sprintf("there is no directory %q in it", s.Dir), Do: "correct seed_assets_from, or put the files there in the image or before the service is healthy"}
	}
	if err == nil && there {
		err = s.remove(ctx, c)
	}
	if err != nil {
		return err
	}
	return s.sim.SeedDeleted(ctx, s.Trajectory, c.ID)
}

// copy uploads the directory, compares what arrived with what was sent, and makes it
// visible.
func (s *seeding) copy(ctx context.Context, c Container, frozen bool) error {
	var read *tree
	staged, sent, err := s.sim.StageAssets(ctx, s.Trajectory, func(w *api.AssetWriter) (err error) {
		read, err = s.read(ctx, c, w)
		return err
	})
	if err != nil {
		return err
	}
	if staged.AssetSum != sent {
		err = fmt.Errorf("the simulator has %d files of %d bytes, digest %s; sent were %d of %d, %s", staged.Files, staged.Bytes, staged.Digest, sent.Files, sent.Bytes, sent.Digest)
	}
	if err == nil && !frozen {
		err = s.unchanged(ctx, c, read)
	}
	if err == nil {
		_, err = s.sim.CommitAssets(ctx, s.Trajectory, staged.Stage, api.AssetCommit{AssetSum: sent, SeededFrom: c.ID})
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTimeout)
		defer cancel()
		_ = s.sim.DropAssets(ctx, s.Trajectory, staged.Stage) // else it expires
		return err
	}
	s.sum, s.copied = sent, map[string]string{}
	for name, a := range read.files {
		s.copied[name] = a.SHA256
	}
	return nil
}

// read reads the directory into to.
func (s *seeding) read(ctx context.Context, c Container, to sink) (*tree, error) {
	stream, _, err := s.eng.CopyFromContainer(ctx, c.ID, s.Dir)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", s.Dir, err)
	}
	defer stream.Close()
	read, err := readTree(stream, s.Dir, to, s.Progress)
	if err != nil {
		return nil, err
	}
	return read, refusal(fmt.Sprintf("%q", s.Dir), read.refused, "leave it out of the directory, or put a copy of the file there")
}

// unchanged looks a second time.
func (s *seeding) unchanged(ctx context.Context, c Container, read *tree) error {
	again, err := s.read(ctx, c, digests{})
	if err != nil {
		return err
	}
	var changed []string
	for name, a := range again.files {
		if was, ok := read.files[name]; !ok || was.SHA256 != a.SHA256 {
			changed = append(changed, name)
		}
	}
	for name := range read.files {
		if _, ok := again.files[name]; !ok {
			changed = append(changed, name)
		}
	}
	return differs(s.Dir, "changed while it was copied", changed,
		"let the service write nothing there once it is up: what is healthy is taken for complete")
}

// compare makes sure that a directory has nothing that was not copied. It may have
// less: a deletion may have been broken off.
func (s *seeding) compare(ctx context.Context, c Container) error {
	read, err := s.read(ctx, c, digests{})
	if err != nil {
		return err
	}
	var others []string
	for name, a := range read.files {
		if sum, ok := s.copied[name]; !ok || sum != a.SHA256 {
			others = append(others, name)
		}
	}
	return differs(s.Dir, "has other files than those that were copied before", others, "take the trajectory down and bring it up again")
}

func differs(dir, how string, names []string, do string) error {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	quoted := make([]string, 0, shownNames)
	for _, name := range names[:min(len(names), shownNames)] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return &Error{Msg: fmt.Sprintf("%q %s: %s", dir, how, text), Do: do}
}

// thawTimeout bounds what must be done also after an interrupt.
const thawTimeout = 30 * time.Second

// freeze stops what runs in a container; frozen is false where that cannot be done
// or nothing runs. thaw ends it, and must be called.
func freeze(ctx context.Context, eng Engine, id string) (frozen bool, thaw func() error) {
	nothing := func() error { return nil }
	info, err := eng.ContainerInspect(ctx, id)
	if err != nil || info.ContainerJSONBase == nil || info.State == nil || !info.State.Running || info.State.Paused {
		return false, nothing // an engine that fails says so at the next call
	}
	err = eng.ContainerPause(ctx, id)
	thaw = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTimeout)
		defer cancel()
		if err := eng.ContainerUnpause(ctx, id); err != nil {
			return &Error{Msg: fmt.Sprintf("the container was paused while its seed directory was copied, and cannot be resumed: %v", err), Do: "docker unpause " + id[:min(12, len(id))]}
		}
		return nil
	}
	if err == nil {
		return true, thaw
	}
	if ctx.Err() != nil { // the engine may have done it all the same
		return false, func() error { _ = thaw(); return nil }
	}
	return false, nothing
}
