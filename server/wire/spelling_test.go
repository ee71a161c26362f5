package wire

import (
	"fmt"
	"testing"
)

func TestOriginFormLeavesTheRestAsItIs(t *testing.T) {
	for target, want := range map[string]string{
		"/": "/", "/a://b?c": "/a://b?c", "//x": "//x", "/?": "/?",
		"http://h": "/", "http://h/": "/", "HTTP://h:80//a%2F?b?c": "//a%2F?b?c", "https://h?": "/?", "http://h?a=/b": "/?a=/b",
	} {
		if got := OriginForm(target); got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
}

func TestUnrankedFieldsStayAsABackendWroteThem(t *testing.T) {
	written := [][2]string{{"x-zeta", "1"}, {"CONTENT-TYPE", "a"}, {"X-Alpha", "2"}, {"x-ALPHA", "3"}, {"WWW-authenticate", "b"}}
	canonical := [][2]string{{"Content-Type", "a"}, {"Server", "s"}, {"Www-Authenticate", "b"}, {"X-Alpha", "2"}, {"X-Alpha", "3"}, {"X-Own", "4"}, {"X-Zeta", "1"}}
	got := DialectOf("nginx").Arrange(canonical, Turn{Minor: 1, Close: true, Spelled: SpellingOf(written)})
	want := [][2]string{{"Server", "s"}, {"Content-Type", "a"}, {"Connection", "close"}, {"X-Own", "4"}, {"x-zeta", "1"}, {"X-Alpha", "2"}, {"X-Alpha", "3"}, {"WWW-authenticate", "b"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}
