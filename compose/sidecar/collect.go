package sidecar

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/linuxarena/ctis/server/api"
)

// Journal is where the requests go.
type Journal interface {
	ExposedCursor(ctx context.Context, id string) (*api.ExposedCursor, error)
	RecordExposed(ctx context.Context, id string, b *api.ExposedBatch) (*api.ExposedCursor, error)
}

const (
	// maxLine bounds a line of the log, in bytes. nginx lets no more than 64 KiB of a
	// request line or a field through, and writes no byte as more than six.
	maxLine = 1 << 20
	// A batch is sent at so many requests or, about, bytes.
	batchRequests = 1000
	batchBytes    = 4 << 20
	// slack is how much earlier than the last request's end the log is read from, for
	// the engine's clock and nginx' are read at different moments.
	slack = 2 * time.Second
	// tries is how often another process may be faster.
	tries = 8
)

// Collect puts what a sidecar logged since it was last read into the journal of a
// trajectory, in its order, each request once however many do that at a time. final
// says that the container was stopped and logs no more. It returns how many requests
// were new. The trajectory has to be registered.
func Collect(ctx context.Context, eng Engine, journal Journal, trajectory, containerID string, final bool) (int, error) {
	for try := 0; ; try++ {
		n, err := collect(ctx, eng, journal, trajectory, containerID, final)
		var refused *api.Error
		if errors.As(err, &refused) && refused.Status == http.StatusConflict && try < tries {
			continue // what the other did is skipped
		}
		return n, err
	}
}

func collect(ctx context.Context, eng Engine, journal Journal, trajectory, containerID string, final bool) (int, error) {
	at, err := journal.ExposedCursor(ctx, trajectory)
	if err != nil {
		return 0, err
	}
	c := &collector{ctx: ctx, journal: journal, trajectory: trajectory, container: containerID, at: *at}
	if at.Container != containerID || at.RequestID == "" {
		err = c.read(eng, time.Time{}, false)
	} else {
		// The last request is looked for near its time first, then, should a clock have
		// been set, in the whole log. If it is not there at all, others after it may have
		// gone with it.
		for _, since := range []time.Time{at.Ended.Add(-slack), {}} {
			if err = c.read(eng, since, true); err != nil || c.found {
				break
			}
		}
		if err == nil && !c.found {
			c.lost = true
			err = c.read(eng, time.Time{}, false)
		}
	}
	// What is lost is told together with what follows it, so that it is told once.
	if err == nil && (len(c.pending) > 0 || final && !c.at.Final) {
		err = c.send(final)
	}
	return c.sent, err
}

// Watch signals on logged, which has room for one, whenever a sidecar logs something. It
// returns when the log has ended, which is nil, or cannot be read any more.
func Watch(ctx context.Context, eng Engine, containerID string, logged chan<- struct{}) error {
	logs, err := eng.ContainerLogs(ctx, containerID, container.LogsOptions{ShowStdout: true, Follow: true, Tail: "0"})
	if err != nil {
		return fmt.Errorf("follow the sidecar's log: %w", err)
	}
	defer logs.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := logs.Read(buf) // what it says is read by Collect
		if n > 0 {
			select {
			case logged <- struct{}{}:
			default: // one that is still to be seen will do
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("follow the sidecar's log: %w", err)
		}
	}
}

// collector is one reading of a log.
type collector struct {
	ctx                   context.Context
	journal               Journal
	trajectory, container string
	at                    api.ExposedCursor
	found                 bool // the last request that is in the journal
	lost                  bool
	mangled               bool // something that is no request came since the last one
	pending               []api.ExposedRequest
	bytes, sent           int
}

// read reads the log from a time on. With search what is in the journal is skipped.
func (c *collector) read(eng Engine, since time.Time, search bool) error {
	o := container.LogsOptions{ShowStdout: true}
	if !since.IsZero() {
		o.Since = fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond())
	}
	logs, err := eng.ContainerLogs(c.ctx, c.container, o)
	if err != nil {
		return fmt.Errorf("read the sidecar's log: %w", err)
	}
	defer logs.Close()
	lines, demux := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(demux, io.Discard, logs)
		demux.CloseWithError(err)
	}()
	defer lines.Close() // ends the copying
	last := c.at.RequestID
	c.found = !search
	return eachLine(lines, func(line []byte, ended bool) error {
		requests, err := parseLine(line)
		for _, q := range requests {
			if c.found {
				c.pending, c.lost, c.mangled = append(c.pending, q), c.lost || c.mangled, false
			}
			c.found = c.found || q.ID == last
		}
		// A last line is still being written. Any other was a request, or somebody else
		// writes there.
		if err != nil && c.found && (ended || !errors.Is(err, io.ErrUnexpectedEOF)) {
			c.mangled = true
		}
		c.bytes += len(line)
		if len(c.pending) >= batchRequests || len(c.pending) > 0 && c.bytes >= batchBytes {
			return c.send(false)
		}
		return nil
	})
}

func (c *collector) send(final bool) error {
	at, err := c.journal.RecordExposed(c.ctx, c.trajectory, &api.ExposedBatch{
		Container: c.container, After: c.at, Lost: c.lost, Final: final, Requests: c.pending,
	})
	if err != nil {
		return err
	}
	c.sent += len(c.pending)
	c.at, c.lost, c.pending, c.bytes = *at, false, nil, 0
	return nil
}

// eachLine calls f with each line, without its newline, and whether it had one; of one
// that is too long with its beginning.
func eachLine(r io.Reader, f func(line []byte, ended bool) error) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			line = bytes.Clone(line) // the buffer is used again
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the sidecar's log: %w", err)
		}
		if ended := err == nil; ended || len(line) > 0 {
			if err := f(bytes.TrimSuffix(line, []byte("\n")), ended); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}
