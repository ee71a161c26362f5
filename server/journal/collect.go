package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// removing starts the name of a journal that is being removed. It is the name of no
// journal, so that a removal which a crash broke off is finished by the next start.
const removing = ".removing-"

// ErrNewer says that a journal was written to later than its remover knows.
var ErrNewer = errors.New("the journal was written to since")

// List describes every journal of a trajectory, sorted by name.
func (s *Store) List() ([]api.JournalInfo, error) {
	list := []api.JournalInfo{}
	for _, j := range s.all() {
		if j.name == api.Unattributed {
			continue
		}
		last, err := j.written()
		if err != nil {
			return nil, fmt.Errorf("journal of %q: %w", j.name, err)
		}
		id, _ := api.SplitArchived(j.name)
		list = append(list, api.JournalInfo{Name: j.name, Trajectory: id, JournalStatus: j.Status(), Last: last})
	}
	slices.SortFunc(list, func(a, b api.JournalInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// written is when the journal was last written to; for one without a line, when it
// was made.
func (j *Journal) written() (time.Time, error) {
	j.mu.Lock()
	path := j.path()
	j.mu.Unlock()
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		fi, err = os.Stat(j.dir)
	}
	if err != nil {
		return time.Time{}, err
	}
	return fi.ModTime().UTC(), nil
}

// Remove removes a journal with its bodies for good, whole or not at all. The
// caller sees to it that its trajectory is over; what still tries to write to it
// is refused with [ErrStorage]. One that is written to at or after before stays:
// [ErrNewer].
//
// One that is not there is no error, and known is false.
func (s *Store) Remove(name string, before time.Time) (known bool, err error) {
	j, ok := s.Lookup(name)
	if !ok || name == api.Unattributed {
		return false, nil
	}
	last, err := j.written()
	if err != nil {
		return true, fmt.Errorf("journal of %q: %w: %w", name, ErrStorage, err)
	}
	if !last.Before(before) {
		return true, ErrNewer
	}
	_ = j.sync() // so that the flusher has no business with it any more
	aside := filepath.Join(s.o.Dir, removing+name)
	j.setMoved(true)
	if err := errors.Join(os.RemoveAll(aside), os.Rename(j.dir, aside)); err != nil {
		j.setMoved(false)
		return true, fmt.Errorf("journal of %q: %w: %w", name, ErrStorage, err)
	}
	s.mu.Lock()
	delete(s.journals, name)
	s.mu.Unlock()
	_ = j.close() // what it would still tell is of no use to a journal that is gone
	if err := os.RemoveAll(aside); err != nil {
		return true, fmt.Errorf("journal of %q: %w: %w", name, ErrStorage, err)
	}
	return true, nil
}

// finishRemovals removes what an earlier process was removing when it ended.
func finishRemovals(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removing) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
