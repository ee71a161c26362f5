package api

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// JournalQuery selects records. The zero value selects all that are there. A record
// is selected when it fits each condition that is set; of a list, when it fits one.
type JournalQuery struct {
	Follow  bool      // go on with records as they are written, until the context or the trajectory ends
	Raw     bool      // the journal's lines as stored, outcome lines apart
	Kinds   []string  // any of these
	Hosts   []string  // any of these, compared in lower case
	Methods []string  // any of these, as sent
	Paths   []string  // any of these globs ([PathGlob]) fits [TargetPath] of the target
	Since   time.Time // at this time or later
	Until   time.Time // before this time
	First   uint64    // sequence numbers from this one on
	Last    uint64    // sequence numbers up to this one; 0 = all
	Limit   int       // the newest so many; 0 = all
}

func (q JournalQuery) values() url.Values {
	v := url.Values{"kind": q.Kinds, "host": q.Hosts, "method": q.Methods, "path": q.Paths}
	for name, set := range map[string]bool{"follow": q.Follow, "raw": q.Raw} {
		if set {
			v.Set(name, "true")
		}
	}
	for name, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, n := range map[string]uint64{"first": q.First, "last": q.Last, "limit": uint64(max(q.Limit, 0))} {
		if n > 0 {
			v.Set(name, strconv.FormatUint(n, 10))
		}
	}
	return v
}

// ParseJournalQuery is the inverse of what [Client.Journal] sends. A condition it does
// not know is an error: leaving it out would select records nobody asked for.
func ParseJournalQuery(v url.Values) (JournalQuery, error) {
	q := JournalQuery{Kinds: v["kind"], Hosts: v["host"], Methods: v["method"], Paths: v["path"]}
	for _, glob := range q.Paths {
		if _, err := PathGlob(glob); err != nil {
			return q, fmt.Errorf("path: %q %w", glob, err)
		}
	}
	for name := range v {
		text := v.Get(name)
		var err error
		switch name {
		case "kind", "host", "method", "path":
		case "follow":
			q.Follow, err = strconv.ParseBool(text)
		case "raw":
			q.Raw, err = strconv.ParseBool(text)
		case "since":
			q.Since, err = time.Parse(time.RFC3339Nano, text)
		case "until":
			q.Until, err = time.Parse(time.RFC3339Nano, text)
		case "first":
			q.First, err = strconv.ParseUint(text, 10, 64)
		case "last":
			q.Last, err = strconv.ParseUint(text, 10, 64)
		case "limit":
			if q.Limit, err = strconv.Atoi(text); err == nil && q.Limit < 0 {
				err = fmt.Errorf("%q is not a count", text)
			}
		default:
			err = fmt.Errorf("there is no such condition")
		}
		if err != nil {
			return q, fmt.Errorf("%s: %w", name, err)
		}
	}
	return q, nil
}

// TargetPath is the path of a request target as conditions are about it: as sent, not
// decoded and not cleaned, without query, and without scheme and authority where the
// target has them. It is "" where the target has no path ("*", CONNECT's host:port).
func TargetPath(target string) string {
	for i := range len(target) {
		if target[i] == '?' || target[i] == '#' {
			target = target[:i]
			break
		}
	}
	if len(target) > 0 && target[0] == '/' {
		return target
	}
	// Absolute form: scheme "://" authority path.
	for i := 0; i+2 < len(target); i++ {
		if target[i:i+3] != "://" {
			continue
		}
		for j := i + 3; j < len(target); j++ {
			if target[j] == '/' {
				return target[j:]
			}
		}
		return "/"
	}
	return ""
}

// HostName is a host as conditions compare it: lower case, no port, no final dot.
func HostName(host string) string {
	b := []byte(host)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	end := len(b)
	for i := end - 1; i >= 0; i-- {
		if b[i] == ':' {
			if b[end-1] != ']' {
				end = i
			}
			break
		}
	}
	if end > 0 && b[end-1] == '.' {
		end--
	}
	return string(b[:end])
}
