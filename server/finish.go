package server

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
)

// An outcome that the journal cannot take now, on a full disk, is not lost: it is
// written when the disk has room again. Only the end of the process, or more of
// them than are kept, makes it unknown. So it is told that there were requests that
// could not be recorded, whether or not another one comes.

const (
	finishAgain = time.Second
	maxOwed     = 1 << 14 // outcomes
)

// owed is what is still to be written.
type owed struct {
	mu      sync.Mutex
	list    []owedOutcome
	missed  map[*journal.Journal]struct{} // that have requests without a record
	running bool
}

type owedOutcome struct {
	journal *journal.Journal
	outcome *api.Outcome
}

// finish writes the outcome of a record, now or later.
func (s *Server) finish(j *journal.Journal, o *api.Outcome) {
	err := j.Finish(o.Seq, o)
	s.noteStorage(err)
	if !errors.Is(err, journal.ErrStorage) {
		return
	}
	s.owed.mu.Lock()
	defer s.owed.mu.Unlock()
	if len(s.owed.list) >= maxOwed {
		return
	}
	s.owed.list = append(s.owed.list, owedOutcome{j, slim(o)})
	s.owe()
}

// missed counts a request that has no record and was not acknowledged.
func (s *Server) missed(j *journal.Journal) {
	j.Missed()
	s.owed.mu.Lock()
	defer s.owed.mu.Unlock()
	if s.owed.missed == nil {
		s.owed.missed = map[*journal.Journal]struct{}{}
	}
	s.owed.missed[j] = struct{}{}
	s.owe()
}

// owe sees to it that what is owed is paid. Its lock is held.
func (s *Server) owe() {
	if !s.owed.running {
		s.owed.running = true
		s.delayed.run(s.payOff)
	}
}

// slim is o without the bytes of what was answered, for which there is no disk now: of
// as many outcomes as are kept, they would be all the memory there is.
func slim(o *api.Outcome) *api.Outcome {
	c := *o
	if p := c.Response; p != nil && p.Body.Content != "" {
		bare := *p
		bare.Body = unkept(p.Body)
		c.Response = &bare
	}
	if t := c.Tunnel; t != nil && t.Received.Content != "" {
		bare := *t
		bare.Received = unkept(t.Received)
		c.Tunnel = &bare
	}
	return &c
}

func unkept(b api.Received) api.Received {
	return api.Received{Size: b.Size, SHA256: b.SHA256, Encoding: api.EncodingNone, Truncated: true}
}

// payOff tries until everything is written, or the server stops: then once more.
func (s *Server) payOff() {
	for goOn := true; goOn; {
		goOn = s.sleep(finishAgain)
		s.owed.mu.Lock()
		list, missed := s.owed.list, s.owed.missed
		s.owed.list, s.owed.missed = nil, nil
		s.owed.mu.Unlock()
		var left []owedOutcome
		maps.DeleteFunc(missed, func(j *journal.Journal, _ struct{}) bool {
			if j.Closed() {
				return true // what it had to tell it told at its end
			}
			err := j.TellMissed()
			s.noteStorage(err)
			return !errors.Is(err, journal.ErrStorage)
		})
		for _, d := range list {
			err := d.journal.Finish(d.outcome.Seq, d.outcome)
			if d.journal.Closed() {
				continue // set aside meanwhile, for a new trajectory of the id
			}
			s.noteStorage(err)
			if errors.Is(err, journal.ErrStorage) {
				left = append(left, d)
			}
		}
		s.owed.mu.Lock()
		s.owed.list = append(left, s.owed.list...)
		if s.owed.missed == nil {
			s.owed.missed = missed
		} else {
			maps.Copy(s.owed.missed, missed)
		}
		if len(s.owed.list) == 0 && len(s.owed.missed) == 0 {
			s.owed.running = false
			goOn = false
		}
		s.owed.mu.Unlock()
	}
}
