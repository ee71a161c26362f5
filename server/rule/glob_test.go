package rule

import (
	"strings"
	"testing"
	"time"
)

// TestGlobsTakeLittleTimeForWhatClientsMakeUp: a path as long as a head may be, made
// for patterns that nearly match everywhere.
func TestGlobsTakeLittleTimeForWhatClientsMakeUp(t *testing.T) {
	long := "/" + strings.Repeat("a", 64<<10)
	for _, pattern := range []string{
		"/*a*a*a*a*a*b", "/**a**a**a**a**b", "/**a*a*a*a*b", "**" + strings.Repeat("a", 4000) + "b", "/*" + strings.Repeat("a", 4000) + "*b", "/" + strings.Repeat("*a", 1000) + "b", "/" + strings.Repeat("**a", 1000) + "b",
	} {
		g, err := compileGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if g.match(long) {
			t.Errorf("%.20s matches", pattern)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%.20s takes %s", pattern, took)
		} else {
			t.Logf("%.20s takes %s", pattern, took)
		}
	}
}
