package journal

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/linuxarena/ctis/server/api"
)

// Begin starts a trajectory's journal. One that an earlier trajectory of the same
// id left is set aside first, as [api.ArchivedID] names it, and stays readable:
// what two runs did must never stand in one journal. An empty one is used on.
//
// Nothing may be writing to the earlier journal any more; what still tries to is
// refused with [ErrStorage].
func (s *Store) Begin(trajectory string) (*Journal, error) {
	old, ok := s.Lookup(trajectory)
	if !ok || old.empty() {
		return s.Journal(trajectory)
	}
	name := s.nextArchive(trajectory)
	if err := old.close(); err != nil {
		return nil, fmt.Errorf("journal of %q: %w: %w", trajectory, ErrStorage, err)
	}
	old.setMoved(true)
	if err := os.Rename(old.dir, filepath.Join(s.o.Dir, name)); err != nil {
		old.setMoved(false)
		return nil, fmt.Errorf("journal of %q: set the earlier one aside: %w: %w", trajectory, ErrStorage, err)
	}
	archived, err := s.recover(name)
	s.mu.Lock()
	delete(s.journals, trajectory)
	s.journals[name] = archived
	s.mu.Unlock()
	if err != nil {
		archived.broken = err
		s.problem(fmt.Sprintf("journal of %q cannot be read: %v", name, err))
	}
	return s.Journal(trajectory)
}

// nextArchive is the name for an earlier journal that follows all there are: the
// order of the runs stays that of the names, also after some were removed.
func (s *Store) nextArchive(trajectory string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	last := 0
	for name := range s.journals {
		if id, n := api.SplitArchived(name); id == trajectory {
			last = max(last, n)
		}
	}
	return api.ArchivedID(trajectory, last+1)
}

func (j *Journal) empty() bool {
	st := j.Status()
	return st.Records == 0 && st.Dropped == 0
}
