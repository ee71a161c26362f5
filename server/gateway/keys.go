package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/durable"
)

// keys are the API keys, durably, in a file that only this program's user can read. No
// value is ever part of an error, a log line or an answer.
type keys struct {
	path string
	set  atomic.Pointer[keySet]
}

// keySet is never changed after it is published.
type keySet struct {
	Salt   string            `json:"salt"`
	Values map[string]string `json:"values"` // by variable
}

const (
	maxKeys  = 4096
	maxKey   = 16 << 10 // bytes
	saltSize = 32       // bytes
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,254}$`)

func loadKeys(path string) (*keys, string, error) {
	k := &keys{path: path}
	var s keySet
	problem, err := load(path, "the API keys", &s)
	if err != nil {
		return nil, "", err
	}
	if len(s.Salt) != 2*saltSize {
		var salt [saltSize]byte
		if _, err := rand.Read(salt[:]); err != nil {
			return nil, "", fmt.Errorf("salt of the keys' digests: %w", err)
		}
		s = keySet{Salt: hex.EncodeToString(salt[:])}
	}
	if s.Values == nil {
		s.Values = map[string]string{}
	}
	k.set.Store(&s)
	return k, problem, nil
}

// value is the key of a variable.
func (k *keys) value(name string) (string, bool) {
	v, ok := k.set.Load().Values[name]
	return v, ok
}

// names are those of the variables whose keys are there, sorted.
func (k *keys) names() []string { return sorted(maps.Keys(k.set.Load().Values)) }

// digests say which keys are there to who has the same.
func (k *keys) digests() *api.KeyDigests {
	s := k.set.Load()
	d := &api.KeyDigests{Salt: s.Salt, Digests: map[string]string{}}
	for name, v := range s.Values {
		d.Digests[name] = api.KeyDigest(s.Salt, name, v)
	}
	return d
}

// put adds keys, and changes those that users says nobody uses. All or nothing. Its
// caller makes sure that claims do not change meanwhile.
func (k *keys) put(given api.Keys, users func(variable string) []string) (*api.KeysSet, error) {
	old := k.set.Load()
	done := &api.KeysSet{Added: []string{}, Changed: []string{}}
	var holders, taken []string
	for _, name := range sorted(maps.Keys(given)) {
		if e := checkKey(name, given[name]); e != nil {
			return nil, e
		}
		switch have, ok := old.Values[name]; {
		case !ok:
			done.Added = append(done.Added, name)
		case have == given[name]:
		default:
			if by := users(name); len(by) > 0 {
				holders, taken = append(holders, by...), append(taken, name)
			}
			done.Changed = append(done.Changed, name)
		}
	}
	if len(taken) > 0 {
		slices.Sort(holders)
		holders = slices.Compact(holders)
		e := api.Errorf(http.StatusConflict, api.CodeConflict, "the gateway has another value of %s, which is in use by %s", strings.Join(taken, ", "), strings.Join(holders, ", "))
		e.Holders, e.Fields = holders, taken
		return nil, e
	}
	if len(done.Added)+len(done.Changed) == 0 {
		return done, nil
	}
	next := &keySet{Salt: old.Salt, Values: maps.Clone(old.Values)}
	maps.Copy(next.Values, given)
	if len(next.Values) > maxKeys {
		return nil, invalid("%d keys are more than the %d that are kept", len(next.Values), maxKeys)
	}
	if err := durable.WriteSealed(k.path, fileVersion, next, 0o600); err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("the keys are not stored: %w", err)
	}
	k.set.Store(next)
	return done, nil
}

// checkKey judges what can be sent in a header. The value is not repeated.
func checkKey(name, value string) *api.Error {
	switch {
	case !variableName.MatchString(name):
		return invalid("a key has a name that no variable has")
	case value == "":
		return invalid("the key of %s is empty", name)
	case len(value) > maxKey:
		return invalid("the key of %s has more than %d bytes", name, maxKey)
	case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) || strings.TrimSpace(value) != value:
		return invalid("the key of %s cannot be sent in a header", name)
	}
	return nil
}

func invalid(format string, args ...any) *api.Error {
	return api.Errorf(http.StatusBadRequest, api.CodeInvalid, format, args...)
}
