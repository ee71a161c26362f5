package admin

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// journal: 200 JSON lines, application/jsonl; the query is that of
// [api.ParseJournalQuery]. 404 when there is no such journal. A followed
// journal ends with the request, the trajectory or the simulator; that of a
// trajectory that is not registered ends at once. An error after the first line
// breaks the connection off, so that what came is not taken for all.
func (a routes) journal(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := api.ParseJournalQuery(r.URL.Query())
	if err != nil {
		return nil, api.Errorf(http.StatusBadRequest, api.CodeInvalid, "journal query: %v", err)
	}
	id := r.PathValue("id")
	j, ok := a.s.Journal(id)
	if !ok {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "there is no journal of trajectory %q", id)
	}
	w.Header().Set("Content-Type", "application/jsonl")
	out := &lines{w: bufio.NewWriterSize(w, 64<<10), out: http.NewResponseController(w)}
	if q.Follow {
		if err := out.flush(); err != nil {
			return nil, nil //nolint:nilerr // the reader is gone
		}
	}
	began := q.Follow
	err = j.Read(r.Context(), q, func(line []byte) error {
		began = true
		if _, err := out.w.Write(line); err != nil {
			return err
		}
		if err := out.w.WriteByte('\n'); err != nil || !q.Follow {
			return err
		}
		return out.flush()
	})
	if err == nil {
		err = out.flush()
	}
	if err != nil && began {
		panic(http.ErrAbortHandler)
	}
	return nil, err
}

// body: 200 the bytes of a body kept beside a journal, application/octet-stream, by
// its SHA-256 in hex. 404 when there is no such journal or body.
func (a routes) body(w http.ResponseWriter, r *http.Request) (any, error) {
	id, sum := r.PathValue("id"), r.PathValue("sha256")
	j, ok := a.s.Journal(id)
	if !ok {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "there is no journal of trajectory %q", id)
	}
	body, size, err := j.Body(sum)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "the journal of trajectory %q has no body %q", id, sum)
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if _, err := io.Copy(w, body); err != nil {
		panic(http.ErrAbortHandler) // so that what came is not taken for all
	}
	return nil, nil
}

// journals: 200 [api.Journals].
func (a routes) journals(http.ResponseWriter, *http.Request) (any, error) {
	return orError(a.s.Journals())
}

// removeJournal: query before=TIME (RFC 3339, required); 200 {}. 404 when there is
// no such journal, 409 busy when its trajectory is registered or held or when it
// was written to at that time or later.
func (a routes) removeJournal(_ http.ResponseWriter, r *http.Request) (any, error) {
	before, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get("before"))
	if err != nil {
		return nil, api.Errorf(http.StatusBadRequest, api.CodeInvalid, "before: %v", err)
	}
	return empty{}, a.s.RemoveJournal(r.PathValue("name"), before)
}
