package api

import (
	"encoding/json"
	"time"
)

// Rule is one scripted answer of a host. A rule matches a request that meets
// every condition it has; the first of a host's rules that matches decides. All
// regular expressions are RE2 and match anywhere in the text unless anchored.
type Rule struct {
	Methods      []string    `json:"methods,omitempty"`       // any of these; none: every method
	Path         string      `json:"path,omitempty"`          // glob over the decoded path, see [PathGlob]
	PathRegex    string      `json:"path_regex,omitempty"`    // over the decoded path; never beside Path
	Query        []Condition `json:"query,omitempty"`         // decoded parameters; of a repeated one any value counts
	Headers      []Condition `json:"headers,omitempty"`       // fields; names in canonical form
	BodyContains string      `json:"body_contains,omitempty"` //
	BodyRegex    string      `json:"body_regex,omitempty"`    //
	BodyJSON     []JSONValue `json:"body_json,omitempty"`     // all of these; a body that is no JSON has none
	State        string      `json:"state,omitempty"`         // the host's state in this trajectory; [InitialState] at first

	// Of the requests that meet the conditions the first After are left to later
	// rules; of the others the rule takes Times (0: all).
	After int `json:"after,omitempty"`
	Times int `json:"times,omitempty"`

	// What is done: wait Delay and up to Jitter more, both in nanoseconds, then
	// respond, break the connection as Fault says, or pass the request on.
	// Respond may go with FaultTruncate, and so may Pass; otherwise only one is set.
	Delay    time.Duration `json:"delay,omitempty"`
	Jitter   time.Duration `json:"jitter,omitempty"`
	Respond  *RuleResponse `json:"respond,omitempty"`
	Fault    string        `json:"fault,omitempty"`
	Pass     bool          `json:"pass,omitempty"`
	SetState string        `json:"set_state,omitempty"`
}

// Condition is what a rule asks of a query parameter or a header field.
type Condition struct {
	Name  string `json:"name"`
	Op    string `json:"op"`
	Value string `json:"value,omitempty"` // text of OpIs, expression of OpMatches
}

// The things a [Condition] can ask.
const (
	OpIs      = "is"      // exactly this value
	OpMatches = "matches" // a value that the regular expression matches
	OpPresent = "present" // any value
	OpAbsent  = "absent"
)

// JSONValue is a value inside a JSON body.
type JSONValue struct {
	Pointer string          `json:"pointer"` // RFC 6901; "" is the whole body
	Value   json.RawMessage `json:"value"`   // compared as JSON: numbers by value, objects in any order
}

// RuleResponse is what a rule answers with.
type RuleResponse struct {
	Status  int         `json:"status"`
	Headers [][2]string `json:"headers,omitempty"` // in order; a name may come several times
	Body    []byte      `json:"body,omitempty"`
	// File is the base name of the file that the body came from. A response
	// without Content-Type gets the one of this name, else text/plain.
	File string `json:"file,omitempty"`
	// Template says that the body and the values of headers are Go templates
	// over the request, with the functions of [TemplateFuncs]. Where JSON is set
	// the body is JSON, and each string in it but the names is a template of its
	// own, whose output is encoded again.
	Template bool `json:"template,omitempty"`
	JSON     bool `json:"json,omitempty"`
}

// InitialState is the state every host of a trajectory starts in.
const InitialState = "start"

// The faults a rule can have.
const (
	FaultReset    = "reset"    // the connection is reset before any byte of a response
	FaultEmpty    = "empty"    // it is closed in order, likewise
	FaultTruncate = "truncate" // half of the response's body, then the connection is reset
	FaultTimeout  = "timeout"  // nothing is sent until the client gives up
)

// Faults lists the faults in the order they are shown.
var Faults = []string{FaultReset, FaultEmpty, FaultTruncate, FaultTimeout}

// TemplateFuncs are the functions that templates have beside Go's own.
var TemplateFuncs = []string{"json", "base64", "uuid", "now", "counter", "hash", "random"}

// MaxDelay is the longest a rule may hold a request back, its jitter apart.
const MaxDelay = time.Hour
