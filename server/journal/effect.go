package journal

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/linuxarena/ctis/server/api"
)

// effectOf finds what a record's request changed in what the rules of its persona
// remember, nil for nothing, without decoding the rest of the line.
func effectOf(line []byte) (persona string, e *api.RuleEffect, err error) {
	at := bytes.Index(line, fieldEffect)
	if at < 0 {
		return "", nil, nil
	}
	before := line[:at]
	name := bytes.LastIndex(before, fieldPersona)
	if name < 0 {
		return "", nil, errors.New("it names no persona")
	}
	// Between the two only endpoint and rule stand, so this persona is the record's.
	host, _, ok := bytes.Cut(before[name+len(fieldPersona):], []byte(`"`))
	if !ok {
		return "", nil, errors.New("it names no persona")
	}
	object := line[at+bytes.IndexByte(line[at:], '{'):]
	e = new(api.RuleEffect)
	if err := json.NewDecoder(bytes.NewReader(object)).Decode(e); err != nil {
		return "", nil, err
	}
	return string(host), e, nil
}
