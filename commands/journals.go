package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
)

// checkJournal says what is wrong with the name of a journal: a trajectory's id, or
// the name of an earlier journal of it.
func checkJournal(name string) error {
	if id, _ := api.SplitArchived(name); compose.ValidateID(id) != nil {
		return compose.ValidateID(name)
	}
	return nil
}

// recordedElsewhere tells whether a trajectory may have records that are not in its
// journal yet: those of its sidecar. What is over has it all, and so has a simulator
// without an engine.
func (a *app) recordedElsewhere(name string) bool {
	id, archived := api.SplitArchived(name)
	return archived == 0 && id != api.Unattributed && (a.setting.Simulator == nil || a.setting.Collect != nil)
}

// freshen brings what is recorded elsewhere into the journal of a trajectory before it
// is read, and with follow goes on doing so until end is called. What cannot be brought
// is warned of.
func (a *app) freshen(ctx context.Context, name string, follow bool) (end func(), err error) {
	if !a.recordedElsewhere(name) {
		return func() {}, nil
	}
	if err := a.readExposed(ctx, name); err != nil {
		return nil, err
	}
	if !follow || a.setting.Collect != nil {
		return func() {}, nil
	}
	watched, cancel := context.WithCancel(ctx)
	go a.watchExposed(watched, name)
	return cancel, nil
}

// stale is freshen for who decides from the journal: it says what the journal lacks
// because something could not be brought into it, "" for nothing.
func (a *app) stale(ctx context.Context, name string) (string, error) {
	if !a.recordedElsewhere(name) {
		return "", nil
	}
	err := a.collectOnce(ctx, name)
	var unread *uncollectedError
	if errors.As(err, &unread) {
		return unread.Error(), ctx.Err()
	}
	return "", err
}

// noJournal makes of a refusal that says so what a user is told; other errors stay.
func noJournal(id string, err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Code != api.CodeNotFound {
		return err
	}
	return &hintedError{err: fmt.Errorf("there is no journal of a trajectory %q", id), hint: "ctis status lists the trajectories that are up"}
}

// comeBack is how long following waits for a simulator that was restarted.
const comeBack = time.Minute

// readJournal reads a journal. Following outlives a restart of the simulator: it
// goes on behind the last record that was shown.
func (a *app) readJournal(ctx context.Context, id string, q api.JournalQuery, show func([]byte) error) error {
	shown := map[uint64]bool{} // records come in the order in which they are complete
	var failed error           // of show
	lost := time.Time{}
	for {
		admin, err := a.connect(ctx)
		if err == nil {
			err = admin.Journal(ctx, id, q, func(line []byte) error {
				lost = time.Time{}
				var r struct{ Seq uint64 }
				if q.Follow && !q.Raw {
					if err := json.Unmarshal(line, &r); err == nil && shown[r.Seq] {
						return nil
					}
					shown[r.Seq] = true
				}
				failed = show(line)
				return failed
			})
			admin.Close()
		}
		var refused *api.Error
		switch {
		case err == nil, !q.Follow, q.Raw, failed != nil, ctx.Err() != nil, errors.As(err, &refused):
			return err
		case lost.IsZero():
			lost = time.Now()
		case time.Since(lost) > comeBack:
			return err
		}
		q.Limit = 0 // what was shown counts
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// readRecords calls yield with every record that q selects. What is no record is an
// error.
func (a *app) readRecords(ctx context.Context, id string, q api.JournalQuery, yield func(*api.Record) error) error {
	return a.readJournal(ctx, id, q, func(line []byte) error {
		r, err := parseRecord(line)
		if err != nil {
			return err
		}
		return yield(r)
	})
}

func parseRecord(line []byte) (*api.Record, error) {
	r := new(api.Record)
	if err := json.Unmarshal(line, r); err != nil {
		return nil, fmt.Errorf("a record cannot be read: %w", err)
	}
	return r, nil
}

// journalBodies opens the bodies kept beside one journal. It connects when the first
// is asked for.
type journalBodies struct {
	a     *app
	id    string
	admin *api.Client
}

// Open: see [evidence.Bodies].
func (b *journalBodies) Open(ctx context.Context, sha256 string) (io.ReadCloser, error) {
	admin, err := b.client(ctx)
	if err != nil {
		return nil, err
	}
	body, err := admin.JournalBody(ctx, b.id, sha256)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeNotFound {
		return nil, fmt.Errorf("the journal of %q does not have body %s any more: %w", b.id, sha256, fs.ErrNotExist)
	}
	return body, err
}

func (b *journalBodies) client(ctx context.Context) (*api.Client, error) {
	if b.admin != nil {
		return b.admin, nil
	}
	admin, err := b.a.connect(ctx)
	if err == nil {
		b.admin = admin
	}
	return admin, err
}

func (b *journalBodies) close() {
	if b.admin != nil {
		b.admin.Close()
	}
}
