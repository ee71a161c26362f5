package api

import (
	"encoding/json"
	"strconv"
	"time"
)

// Rule is one scripted answer of a host. A rule matches a request that meets
// every condition it has; the first of a host's rules that matches decides. All
// regular expressions are RE2 and match anywhere in the text unless anchored.
// Conditions on a body see its first [MaxRuleBody] bytes.
type Rule struct {
	Name string `json:"name,omitempty"` // in records; "": its place among the host's rules

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
	// Edit goes with Pass alone.
	Delay    time.Duration `json:"delay,omitempty"`
	Jitter   time.Duration `json:"jitter,omitempty"`
	Respond  *RuleResponse `json:"respond,omitempty"`
	Fault    string        `json:"fault,omitempty"`
	Pass     bool          `json:"pass,omitempty"`
	Edit     *ResponseEdit `json:"edit,omitempty"`
	SetState string        `json:"set_state,omitempty"`
}

// RuleRef is what records call the i-th rule of a host, counted from 0: its
// name, or its place counted from 1.
func RuleRef(r *Rule, i int) string {
	if r.Name != "" {
		return r.Name
	}
	return strconv.Itoa(i + 1)
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
	// Page says that no body was given: one of status 300 and above then has the
	// page that the host's server has for it, where it has one.
	Page bool `json:"page,omitempty"`
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

// ResponseEdit is what a rule changes of the response to a request it passed on.
type ResponseEdit struct {
	Status int         `json:"status,omitempty"` // 0: as it is
	Set    [][2]string `json:"set,omitempty"`    // in order; takes the place of all fields of the name
	Remove []string    `json:"remove,omitempty"` // in canonical form
	// Replace are texts of the body and what is put in their place, in order. The
	// response is held until it is whole, up to [MaxEditedBody] bytes; a longer
	// one, and one with a Content-Encoding, is passed on as it is.
	Replace [][2]string `json:"replace,omitempty"`
}

// RuleEffect is what a request changed in what the rules of its host remember.
// The journal keeps it in the request's record, so that what rules remember is at
// any time exactly what the records say.
type RuleEffect struct {
	Host     string `json:"host"`
	Revision int    `json:"revision"`        // of the host's rules
	Counted  []int  `json:"counted"`         // rules whose conditions were met, by their place counted from 1
	State    string `json:"state,omitempty"` // what the host's state became
	Step     uint64 `json:"step,omitempty"`  // which change of the state that was, counted from 1
}

// RuleSet replaces the rules of a host.
type RuleSet struct {
	Rules []Rule `json:"rules"`
}

// HostRules are the rules of a host in force, and what they remember.
type HostRules struct {
	Host     string       `json:"host"`
	Revision int          `json:"revision"` // how often they were replaced since the trajectory was registered
	State    string       `json:"state"`
	Rules    []RuleStatus `json:"rules"`
}

// RuleStatus is one rule in force.
type RuleStatus struct {
	Ref   string `json:"ref"`   // what records call it
	Met   int64  `json:"met"`   // requests that met its conditions and were counted
	Fired int64  `json:"fired"` // of those, the ones it took
	Rule  Rule   `json:"rule"`
}

// RulesList are the hosts of a trajectory that have rules, or had some.
type RulesList struct {
	Hosts []HostRules `json:"hosts"`
}

// InitialState is the state every host of a trajectory starts in.
const InitialState = "start"

// The faults a rule can have.
const (
	FaultReset    = "reset"    // the connection is reset before any byte of a response
	FaultEmpty    = "empty"    // it is closed in order, likewise
	FaultTruncate = "truncate" // half of the response's body, less than its length says, then the connection is closed
	FaultTimeout  = "timeout"  // nothing is sent until the client gives up
)

// Faults lists the faults in the order they are shown.
var Faults = []string{FaultReset, FaultEmpty, FaultTruncate, FaultTimeout}

// TemplateFuncs are the functions that templates have beside Go's own.
var TemplateFuncs = []string{"json", "base64", "uuid", "now", "counter", "hash", "random"}

// Bounds of rules.
const (
	MaxDelay      = time.Hour // a rule may hold a request back, its jitter apart
	MaxRules      = 1000      // of one host
	MaxRuleBodies = 4 << 20   // bytes of all bodies of one host's rules
	MaxRuleBody   = 1 << 20   // bytes of a request's body that rules look at
	MaxEditedBody = 1 << 20   // bytes of a response that is held to be edited
	MaxRuleState  = 128       // bytes of the name of a state
)
