package server

import (
	"sync/atomic"
	"time"

	"github.com/linuxarena/ctis/server/wire"
)

// dates gives the value of the Date field, which is the same for all responses
// of a second.
type dates struct{ last atomic.Pointer[date] }

type date struct {
	second int64
	text   string
}

func (d *dates) at(t time.Time) string {
	second := t.Unix()
	last := d.last.Load()
	if last == nil || last.second != second {
		last = &date{second, t.UTC().Format(wire.DateFormat)}
		d.last.Store(last)
	}
	return last.text
}
