package simulator

import (
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
}

// follow reads the engine's stream to its end, tells progress every line, and
// returns the last of them. An error in the stream is returned as such: the HTTP
// status was already sent when it happened.
func follow(r io.Reader, progress func(string)) ([]string, error) {
	t := &tail{each: progress}
	last := map[string]string{} // by layer: its status repeats with every percent
	for dec := json.NewDecoder(r); ; {
		var m message
		switch err := dec.Decode(&m); {
		case errors.Is(err, io.EOF):
			return t.all(), nil
		case err != nil:
			return t.all(), fmt.Errorf("the engine's answer ended early: %w", err)
		}
		switch {
		case m.ErrorDetail != nil && m.ErrorDetail.Message != "":
			return t.all(), errors.New(strings.TrimSpace(m.ErrorDetail.Message))
		case m.Error != "":
			return t.all(), errors.New(strings.TrimSpace(m.Error))
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
