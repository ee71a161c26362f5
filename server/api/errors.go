package api

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// The codes an [Error] can have.
const (
	CodeConflict = "conflict"  // 409: registered before with other settings
	CodeBusy     = "busy"      // 409: trajectories are attached, so the simulator does not retire
	CodeHeld     = "held"      // 409: another process is setting the trajectory up or taking it down, or one that wants the same
	CodeRetired  = "retired"   // 410: this simulator accepts no registration any more
	CodeNotFound = "not_found" // 404
	CodeInvalid  = "invalid"   // 400
	CodeInternal = "internal"  // 500
	CodeStorage  = "storage"   // 507: the state volume is full
)

// Error is an administrative call that was refused. On the wire it is
// {"error": {…}} with Status as the HTTP status.
type Error struct {
	Status  int      `json:"-"`
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Holders []string `json:"holders,omitempty"` // trajectories in the way
	Fields  []string `json:"fields,omitempty"`  // settings that differ
	Host    string   `json:"host,omitempty"`    // the upstream that they differ in
	// Exclusive is what of the caller's a holder has; nil when it is about something else.
	Exclusive *Exclusive `json:"exclusive,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error with a formatted message.
func Errorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// WriteError sends e as the response.
func WriteError(w http.ResponseWriter, e *Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(errorBody{e}) // the peer may be gone; nothing is left to tell it
}

type errorBody struct {
	Error *Error `json:"error"`
}
