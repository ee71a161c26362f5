package rule

import (
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

var nameRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// CheckName says whether name can be a rule's: it must not look like a place.
func CheckName(name string) error {
	if !nameRule.MatchString(name) {
		return errors.New("is no name: it is a letter or _, then up to 63 letters, digits, dots, dashes and underscores")
	}
	return nil
}

// CheckState says whether s can be the name of a state.
func CheckState(s string) error {
	if len(s) > api.MaxRuleState {
		return fmt.Errorf("has %d bytes; %d are allowed", len(s), api.MaxRuleState)
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return errors.New("has a control character")
		}
	}
	if strings.ToValidUTF8(s, "") != s {
		return errors.New("is not UTF-8")
	}
	return nil
}

// check judges what a rule does, and its numbers. Its conditions are judged where
// they are compiled.
func check(r *api.Rule) error {
	if r.Name != "" {
		if err := CheckName(r.Name); err != nil {
			return fmt.Errorf("name %q %w", r.Name, err)
		}
	}
	for _, s := range []string{r.State, r.SetState} {
		if err := CheckState(s); err != nil {
			return fmt.Errorf("state %q %w", clip(s), err)
		}
	}
	const most = 1 << 40
	switch {
	case r.After < 0 || r.Times < 0 || r.After > most || r.Times > most:
		return fmt.Errorf("after %d and times %d are no counts", r.After, r.Times)
	case r.Delay < 0 || r.Delay > api.MaxDelay || r.Jitter < 0 || r.Jitter > api.MaxDelay:
		return fmt.Errorf("delay %s and jitter %s must be between 0 and %s", r.Delay, r.Jitter, api.MaxDelay)
	case r.Fault != "" && !slices.Contains(api.Faults, r.Fault):
		return fmt.Errorf("there is no fault %q", clip(r.Fault))
	}
	truncates := r.Fault == api.FaultTruncate
	switch {
	case r.Respond == nil && r.Fault == "" && !r.Pass:
		return errors.New("it does nothing: it needs respond, fault or pass")
	case r.Respond != nil && r.Pass:
		return errors.New("respond and pass are in one rule")
	case r.Fault != "" && !truncates && (r.Respond != nil || r.Pass):
		return fmt.Errorf("fault %q sends nothing, so respond and pass have no use beside it", r.Fault)
	case truncates && r.Respond == nil && !r.Pass:
		return fmt.Errorf("fault %q has no response to cut", r.Fault)
	case r.Edit != nil && !r.Pass:
		return errors.New("edit changes what is passed on, and the rule passes nothing")
	}
	if r.Edit != nil {
		return checkEdit(r.Edit)
	}
	return nil
}

func checkEdit(e *api.ResponseEdit) error {
	if e.Status != 0 {
		if err := checkStatus(e.Status); err != nil {
			return err
		}
	}
	if err := checkHeaders(e.Set); err != nil {
		return err
	}
	for _, name := range e.Remove {
		if err := checkHeaderName(name); err != nil {
			return err
		}
	}
	for _, pair := range e.Replace {
		if pair[0] == "" {
			return errors.New("edit replaces an empty text")
		}
	}
	return nil
}

func checkStatus(status int) error {
	if status < 200 || status > 599 {
		return fmt.Errorf("status %d is not in 200 to 599", status)
	}
	return nil
}

func checkHeaders(headers [][2]string) error {
	for _, h := range headers {
		if err := checkHeaderName(h[0]); err != nil {
			return err
		}
		if !legalValue(h[1]) {
			return fmt.Errorf("header %q has a value that cannot be sent", h[0])
		}
	}
	return nil
}

func checkHeaderName(name string) error {
	switch {
	case !token(name):
		return fmt.Errorf("%q is not a legal header name", clip(name))
	case slices.Contains(connectionHeaders, textproto.CanonicalMIMEHeaderKey(name)):
		return fmt.Errorf("header %q is about the connection and cannot be set", name)
	}
	return nil
}

// connectionHeaders are about a connection, or measure what goes over it.
var connectionHeaders = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// token says whether s is an RFC 9110 token, as methods and header names are.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// legalValue says whether v can stand on a header line.
func legalValue(v string) bool {
	for i := range len(v) {
		if v[i] < ' ' && v[i] != '\t' || v[i] == 0x7f {
			return false
		}
	}
	return v == strings.TrimSpace(v)
}

// clip keeps what a message repeats of its input short.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
