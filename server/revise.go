package server

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// What rules change of a response that they passed the request on for. The head is
// revised where it is sent. A body is only revised whole: until then the response is
// held, and what would have streamed arrives at once.

// room is how many bytes of a body are held before it is sent as it comes.
func (x *exchange) room() int {
	if x.holdsAll() {
		return api.MaxEditedBody
	}
	return holdLimit
}

// holdsAll says whether the body is to be revised. A part of one is not, nor is what
// is encoded.
func (x *exchange) holdsAll() bool {
	return x.edit != nil && len(x.edit.Replace) > 0 && x.state == holding && x.status != http.StatusPartialContent &&
		x.header.Get("Content-Encoding") == "" && x.message.method != http.MethodHead
}

// revise makes the changes to a response that is held whole.
func (x *exchange) revise() {
	if x.holdsAll() {
		body := x.held
		for _, pair := range x.edit.Replace {
			if grown := len(body) + bytes.Count(body, []byte(pair[0]))*(len(pair[1])-len(pair[0])); grown > 2*api.MaxEditedBody {
				x.note = "the body is not edited further: it would become too long"
				break
			}
			body = bytes.ReplaceAll(body, []byte(pair[0]), []byte(pair[1]))
		}
		if !bytes.Equal(body, x.held) {
			x.held, x.size = body, int64(len(body))
			for _, name := range []string{"Etag", "Content-Md5", "Content-Digest", "Repr-Digest", "Digest", "Accept-Ranges"} {
				x.header.Del(name) // they are about the body it was
			}
			x.header.Set("Content-Length", strconv.Itoa(len(body)))
		}
	} else {
		x.noteUnedited()
	}
	x.reviseHead()
}

// noteUnedited records that a body passes as it is that should have been revised.
func (x *exchange) noteUnedited() {
	if x.edit != nil && len(x.edit.Replace) > 0 && x.note == "" && x.message.method != http.MethodHead {
		x.note = "the body is not edited: it is too long, encoded, or a part"
	}
}

// reviseHead makes the changes to the header, once.
func (x *exchange) reviseHead() {
	e := x.edit
	if e == nil {
		return
	}
	if x.state == streaming {
		x.noteUnedited()
	}
	x.edit = nil
	for _, name := range e.Remove {
		x.header.Del(name)
	}
	first := map[string]bool{}
	for _, f := range e.Set {
		if name := strings.ToLower(f[0]); !first[name] {
			first[name] = true
			x.header.Del(f[0])
		}
		x.header.Add(f[0], f[1])
	}
}

// cutAtFirst is a place that is not known yet: behind the first bytes there are.
const cutAtFirst = -1

// beginCut settles where a response that is streamed is cut: at half of its length
// where that is known, else behind what was held of it or, where its header came
// alone, behind what comes first.
func (x *exchange) beginCut(held int) {
	if !x.cut {
		return
	}
	if x.cutAt = int64(held); held == 0 {
		x.cutAt = cutAtFirst
	}
	if n, err := strconv.ParseInt(x.header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		x.cutAt = n / 2
	}
}

// cutShort ends a streamed response where it is cut.
func (x *exchange) cutShort() error {
	x.note = x.cutNote
	_ = x.control().Flush() // the client may be gone
	return errCut
}
