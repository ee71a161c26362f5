package api

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

// Bounds of one regular expression of a rule. Matching takes a time linear in
// the text times the expression's size, so both are kept small: what people write
// by hand has a hundredth of either.
const (
	MaxRegex     = 4 << 10 // bytes
	maxRegexSize = 20_000  // characters and operators, repetitions written out
)

// CheckRegex says what is wrong with a regular expression, if anything. It takes
// a time linear in the expression, which compiling it does not: x{1000} is seven
// bytes.
func CheckRegex(s string) error {
	if len(s) > MaxRegex {
		return fmt.Errorf("it has %d bytes, and %d are allowed", len(s), MaxRegex)
	}
	re, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if regexSize(re) > maxRegexSize {
		return fmt.Errorf("it is too large with its repetitions written out")
	}
	return nil
}

func regexSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += regexSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return size
}
