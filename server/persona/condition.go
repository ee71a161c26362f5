package persona

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// condition is what a request that changes a key wants of the content the key
// has, nil when that is nothing. It is asked where the change is made, so that of
// two clients that saw the same content one changes it.
type condition func(*entry) bool

var errCondition = errors.New("the precondition does not hold")

// check asks the condition; e is nil when the key holds nothing.
func (c condition) check(e *entry) error {
	if c == nil || c(e) {
		return nil
	}
	return errCondition
}

// condition reads the preconditions of a request that changes something, in the
// order of RFC 9110 §13.2.2. If-Modified-Since is for GET and HEAD alone.
func (r *Request) condition() condition {
	h := r.HTTP.Header
	match, none := strings.Join(h.Values("If-Match"), ", "), strings.Join(h.Values("If-None-Match"), ", ")
	before, err := http.ParseTime(h.Get("If-Unmodified-Since"))
	unmodified := err == nil && match == "" // it is ignored beside If-Match, and when it is no date
	if match == "" && none == "" && !unmodified {
		return nil
	}
	return func(e *entry) bool {
		switch {
		case match != "" && (e == nil || !hasTag(match, e.digestTag(), false)):
			return false
		case unmodified && e != nil && e.Modified.Truncate(time.Second).After(before):
			return false
		}
		return none == "" || e == nil || !hasTag(none, e.digestTag(), true)
	}
}

// hasTag says whether a list of entity tags holds tag, a strong one, or is "*". A
// weak one in the list matches in a weak comparison only (RFC 9110 §8.8.3.2).
func hasTag(list, tag string, weak bool) bool {
	for list = strings.Trim(list, " \t"); list != ""; {
		if list[0] == '*' || list[0] == ',' || list[0] == ' ' || list[0] == '\t' {
			if list[0] == '*' {
				return true
			}
			list = list[1:]
			continue
		}
		rest, isWeak := strings.CutPrefix(list, "W/")
		if rest == "" || rest[0] != '"' {
			return false // no list of tags from here on
		}
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 {
			return false
		}
		if rest[:end+2] == tag && (weak || !isWeak) {
			return true
		}
		list = rest[end+2:]
	}
	return false
}

// partial says whether the body is only a part of the content: a Content-Range in
// a request that is to replace all of it (RFC 9110 §14.5).
func (r *Request) partial() bool { return r.HTTP.Header.Get("Content-Range") != "" }
