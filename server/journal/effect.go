package journal

import (
	"bytes"
	"encoding/json"

	"github.com/linuxarena/ctis/server/api"
)

// effectOf finds what a record's request changed in what rules remember, nil for
// nothing, without decoding the rest of the line.
func effectOf(line []byte) (*api.RuleEffect, error) {
	at := bytes.Index(line, fieldEffect)
	if at < 0 {
		return nil, nil
	}
	object := line[at+bytes.IndexByte(line[at:], '{'):]
	e := new(api.RuleEffect)
	if err := json.NewDecoder(bytes.NewReader(object)).Decode(e); err != nil {
		return nil, err
	}
	return e, nil
}
