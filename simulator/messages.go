package simulator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// message is one line of what the engine streams while it builds or pulls.
type message struct {
	Stream      string `json:"stream"` // a builder's output
	Status      string `json:"status"` // of the layer ID, when pulling
	ID          string `json:"id"`
	Error       string `json:"error"`
	ErrorDetail *struct {
		Message string `json:"message"`
	} `json:"errorDetail"`
	Aux struct {
		ID     string `json:"ID"`     // of the image that was built
		Digest string `json:"Digest"` // of the manifest that was pushed
	} `json:"aux"`
}

// outcome is what the engine's stream came to.
type outcome struct {
	lines  []string // the last of them
	id     string   // of the image that was built
	digest string   // of the manifest that was pushed
}

// follow reads the engine's stream to its end and tells progress every line. An
// error in the stream is returned as such, with the lines before it: the HTTP
// status was already sent when it happened.
func follow(r io.Reader, progress func(string)) (outcome, error) {
	var o outcome
	t := &tail{each: progress}
	end := func(err error) (outcome, error) { o.lines = t.all(); return o, err }
	last := map[string]string{} // by layer: its status repeats with every percent
	for dec := json.NewDecoder(r); ; {
		var m message
		switch err := dec.Decode(&m); {
		case errors.Is(err, io.EOF):
			return end(nil)
		case err != nil:
			return end(fmt.Errorf("the engine's answer ended early: %w", err))
		}
		o.id, o.digest = cmp.Or(m.Aux.ID, o.id), cmp.Or(m.Aux.Digest, o.digest)
		switch {
		case m.ErrorDetail != nil && m.ErrorDetail.Message != "":
			return end(errors.New(strings.TrimSpace(m.ErrorDetail.Message)))
		case m.Error != "":
			return end(errors.New(strings.TrimSpace(m.Error)))
		case m.Stream != "":
			_, _ = t.Write([]byte(m.Stream)) // never fails
		case m.Status != "" && last[m.ID] != m.Status:
			last[m.ID] = m.Status
			line := m.Status
			if m.ID != "" {
				line = m.ID + ": " + m.Status
			}
			t.add(line)
		}
	}
}
