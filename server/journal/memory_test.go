package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func TestTextThatJSONWouldSwellIsBase64(t *testing.T) {
	for name, c := range map[string]struct{ content, encoding string }{
		"control characters":     {strings.Repeat("\x01", 2000), api.EncodingBase64},
		"few of them":            {strings.Repeat("\x01", 1000), api.EncodingUTF8},
		"mostly text":            {strings.Repeat("some text\n\x01", 2000), api.EncodingUTF8},
		"every letter is quoted": {strings.Repeat(`"\`, 2000), api.EncodingUTF8},
		"mostly zeros":           {strings.Repeat("a\x00\x00", 2000), api.EncodingBase64},
		"not ASCII":              {strings.Repeat("é€", 2000), api.EncodingUTF8},
	} {
		encoding, content := Encode([]byte(c.content))
		kept, same := encodeKept([]byte(c.content))
		if encoding != c.encoding || kept != encoding || same != content {
			t.Errorf("%s: %s and %s", name, encoding, kept)
		}
		if n := len(appendString(nil, content)); n > 2*len(c.content)+2 && len(c.content) > 1<<10 {
			t.Errorf("%s: %d bytes take %d in a line", name, len(c.content), n)
		}
	}
	body := strings.Repeat("\x01", api.InlineBody)
	j := journalOf(t, openStore(t, Options{}), "t1")
	r := exchange("/")
	r.Request.Body = j.Keep(spool(t, j, []byte(body)))
	mustAppend(t, j, r)
	if line := stored(t, j)[0]; len(line) > 2*api.InlineBody {
		t.Errorf("the line has %d bytes", len(line))
	}
}

// Thousands of requests may end at one moment; of their lines, the long ones are
// made a few at a time, and the others do not wait for that.
func TestLongLinesAreMadeAFewAtATime(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	long := exchange("/long")
	long.Request.Body.Content = strings.Repeat("x", large)
	for range cap(s.long) {
		s.long <- struct{}{}
	}
	done := make(chan error, 1)
	go func() { done <- j.Append(long) }()
	mustAppend(t, j, exchange("/short"))
	select {
	case err := <-done:
		t.Fatalf("one more than a few: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	<-s.long
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := targets(t, stored(t, j)); got != "/short /long" {
		t.Errorf("stored: %s", got)
	}
}

func TestHugeLinesPinNoMemory(t *testing.T) {
	for range 100 {
		l := &line{buf: make([]byte, 0, pooled+1)}
		l.free()
	}
	for range 1000 {
		if l := linePool.Get().(*line); cap(l.buf) > pooled {
			t.Fatalf("a line of %d bytes is kept", cap(l.buf))
		}
	}
}
