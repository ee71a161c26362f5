package api

import (
	"regexp"
	"strings"
	"testing"
)

func TestCheckRegex(t *testing.T) {
	for s, want := range map[string]string{
		"":                                       "",
		"^/a/[0-9]+$":                            "",
		"x{1000}":                                "",
		"(?i)schlüssel":                          "",
		"(":                                      "missing closing )",
		"(?=x)":                                  "invalid or unsupported Perl syntax",
		"x{1001}":                                "invalid repeat count",
		"(x{100}){11}":                           "invalid repeat count",
		strings.Repeat("x{1000}", 30):            "too large",
		"(" + strings.Repeat("x", 900) + "){30}": "too large",
		strings.Repeat("x", MaxRegex):            "",
		strings.Repeat("x", MaxRegex+1):          "4097 bytes",
	} {
		err := CheckRegex(s)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", s, err, want)
		}
		if err == nil {
			regexp.MustCompile(s)
		}
	}
}
