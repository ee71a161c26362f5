package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// The kinds of journal records (SPEC §12).
const (
	KindWebhook   = "webhook"
	KindData      = "data"
	KindAssets    = "assets"
	KindPublic    = "public"
	KindRoot      = "root"
	KindBackend   = "backend"
	KindUpstream  = "upstream"
	KindExposed   = "exposed"
	KindRule      = "rule"
	KindRulesSet  = "rules_set"
	KindNotFound  = "not_found"
	KindMalformed = "malformed"
	KindRefused   = "refused"
	KindGap       = "gap"
)

// Kinds lists every kind of record.
var Kinds = []string{
	KindWebhook, KindData, KindAssets, KindPublic, KindRoot, KindBackend, KindUpstream,
	KindExposed, KindRule, KindRulesSet, KindNotFound, KindMalformed, KindRefused, KindGap,
}

// OutcomeFollows tells whether a record of that kind without a response is followed by
// an [Outcome].
func OutcomeFollows(kind string) bool {
	switch kind {
	case KindRefused, KindMalformed, KindGap, KindRulesSet:
		return false
	}
	return true
}

// Record is one exchange as the journal keeps it: one line of JSON.
//
// Where the outcome is known when the record is written, Response is set and
// the line is complete. Where it is not (a body too large to hold, a stream),
// Response is nil and an [Outcome] line of the same sequence number follows.
type Record struct {
	Seq  uint64 `json:"seq"`  // 1, 2, 3, … per trajectory, without gaps
	Prev string `json:"prev"` // SHA-256 of the previous line without its newline, hex; 64 zeros for the first
	ID   string `json:"id"`   // ULID
	Time Time   `json:"time"` // when the request's first byte was read

	Trajectory string `json:"trajectory"`
	Kind       string `json:"kind"`
	Client     Source `json:"client"`
	TLS        *TLS   `json:"tls"` // nil on plain HTTP

	Request  *Request `json:"request"` // nil when none could be parsed
	Persona  string   `json:"persona"`
	Endpoint string   `json:"endpoint"`
	Rule     string   `json:"rule"` // that took the request, see [RuleRef]
	// RuleEffect is what the request changed in what the host's rules remember.
	RuleEffect *RuleEffect `json:"rule_effect,omitempty"`

	Response   *Response `json:"response"`
	DurationMS float64   `json:"duration_ms"` // from Time to the moment of writing
	Error      string    `json:"error"`

	// Raw holds the bytes received where they could not be parsed, bounded; and in a
	// record of kind rules_set the [RuleSet] that was put in force.
	Raw *Body `json:"raw,omitempty"`
	// Tunnel is what went over a connection after a switch of protocols.
	Tunnel *Tunnel `json:"tunnel,omitempty"`
	// Exposed is what is known of a request that a sidecar passed on.
	Exposed *ExposedFacts `json:"exposed,omitempty"`
	// Dropped says how many requests a record of kind gap stands for, where that is known.
	Dropped uint64 `json:"dropped,omitempty"`
	// OutcomeUnknown is set by readers, never stored: the simulator stopped
	// before the outcome of this exchange was written.
	OutcomeUnknown bool `json:"outcome_unknown,omitempty"`
}

// Outcome completes a record whose response was not known when it was written.
type Outcome struct {
	Seq        uint64    `json:"seq"`
	Prev       string    `json:"prev"`
	Outcome    bool      `json:"outcome"` // always true: tells the two kinds of line apart
	Response   *Response `json:"response"`
	DurationMS float64   `json:"duration_ms"`
	Error      string    `json:"error"`
	Tunnel     *Tunnel   `json:"tunnel,omitempty"`
}

// Tunnel is what went over a connection that was WebSocket's after its handshake:
// the bytes, frames as they were.
type Tunnel struct {
	Sent     Body     `json:"sent"`     // by the client
	Received Received `json:"received"` // by the client
}

// ExposedFacts are those of a request to an exposed service, as the sidecar logged it.
type ExposedFacts struct {
	Target    string `json:"target"`     // service:port behind the hostname; "" for a hostname that is not exposed
	Upstream  string `json:"upstream"`   // the address and port it was sent to; "" for none
	Received  int64  `json:"received"`   // bytes from the client, head included
	Sent      int64  `json:"sent"`       // bytes to the client, head included
	Container string `json:"container"`  // the engine's id of the sidecar
	RequestID string `json:"request_id"` // in the sidecar's log
	Ended     Time   `json:"ended"`
}

// Source is the peer of the connection, the "client" of a record.
type Source struct {
	IP      string `json:"ip"`
	Port    uint16 `json:"port"`
	Service string `json:"service"` // "" when the address belongs to no known service
}

// TLS is what the handshake settled.
type TLS struct {
	Version string `json:"version"` // "1.2", "1.3"; "" when the handshake failed
	SNI     string `json:"sni"`     // as sent
	ALPN    string `json:"alpn"`
}

// Request is what the client sent.
type Request struct {
	Method  string      `json:"method"`
	Host    string      `json:"host"`   // as sent: Host header or :authority
	Target  string      `json:"target"` // request target, byte for byte
	Proto   string      `json:"proto"`
	Headers [][2]string `json:"headers"` // order and case as received on HTTP/1
	Body    Body        `json:"body"`
	// Charset is [CharsetLatin1] where method, host, target or a header holds
	// bytes that are not UTF-8; then each byte of these strings stands in JSON
	// as the code point of the same number, so that none is lost.
	Charset string `json:"charset,omitempty"`
}

// CharsetLatin1 marks strings whose code points are the bytes that were sent.
const CharsetLatin1 = "iso-8859-1"

// The encodings of a body's content.
const (
	EncodingUTF8   = "utf-8"  // Content is the text
	EncodingBase64 = "base64" // Content is standard base64
	EncodingFile   = "file"   // the bytes are kept beside the journal, named by their SHA-256
	EncodingNone   = "none"   // not kept: see Truncated
)

// InlineBody is the size in bytes up to which a body is kept inside its record.
const InlineBody = 64 << 10

// Body describes a body. Size and SHA256 are those of the whole body, also
// where not all of it was kept.
type Body struct {
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	Encoding  string `json:"encoding"`
	Content   string `json:"content"`
	Truncated bool   `json:"truncated"`
}

// Response is what the client got back.
type Response struct {
	Status  int         `json:"status"`
	Headers [][2]string `json:"headers"`
	Body    Received    `json:"body"`
	Charset string      `json:"charset,omitempty"` // as in [Request]
}

// Received describes bytes that a client got. Size and SHA256 are always there. What
// backends and upstreams answered is kept as the [Body] of a request is, which it is
// spelled like; of anything else Encoding is "": the bytes are the simulator's own.
type Received struct {
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	Encoding  string `json:"encoding,omitempty"`
	Content   string `json:"content,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// HexSHA256 is the digest of b as records spell it.
func HexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// Time is an instant that always encodes with nine fractional digits in UTC, so
// that records sort as text.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000000000Z07:00"

// MarshalJSON encodes t in UTC with nanoseconds.
func (t Time) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// AppendJSON appends what MarshalJSON gives.
func (t Time) AppendJSON(b []byte) []byte {
	return append(t.UTC().AppendFormat(append(b, '"'), timeLayout), '"')
}

// UnmarshalJSON accepts any RFC 3339 time.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return err
	}
	t.Time = v
	return nil
}
