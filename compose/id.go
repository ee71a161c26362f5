package compose

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"
)

// maxID is how long a trajectory id can be: it becomes a DNS label.
const maxID = 63

var validID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// InvalidIDError is a trajectory id that cannot be a Compose project name.
type InvalidIDError struct {
	ID         string
	Suggestion string // the nearest id that can
}

func (e *InvalidIDError) Error() string {
	return fmt.Sprintf("trajectory id %q is not valid: it must start with a lower-case letter or digit and consist of at most %d lower-case letters, digits, hyphens and underscores",
		e.ID, maxID)
}

// Hint says what to do about it.
func (e *InvalidIDError) Hint() string { return fmt.Sprintf("use %q", e.Suggestion) }

// ValidateID checks that id can be a trajectory's id (SPEC §14). The error is
// an *[InvalidIDError].
func ValidateID(id string) error {
	if validID.MatchString(id) {
		return nil
	}
	return &InvalidIDError{ID: id, Suggestion: SuggestID(id)}
}

// SuggestID returns the valid id nearest to s; a valid one is its own.
func SuggestID(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"): // a run of others becomes one hyphen
			b.WriteByte('-')
		}
	}
	id := strings.TrimLeft(b.String(), "_-")
	if id != strings.ToLower(s) {
		id = strings.TrimRight(id, "-")
	}
	if len(id) > maxID {
		id = strings.TrimRight(id[:maxID], "_-")
	}
	if id == "" {
		return "trajectory"
	}
	return id
}

// NewID makes an id for a trajectory nobody named: the environment's name, so
// that people recognise it, and enough chance that two never meet.
func NewID(envName string) string {
	suffix := strings.ToLower(rand.Text()[:10])
	name := SuggestID(envName)
	if room := maxID - 1 - len(suffix); len(name) > room {
		name = strings.TrimRight(name[:room], "_-")
	}
	return name + "-" + suffix
}
