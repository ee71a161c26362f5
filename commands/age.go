package commands

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseAge reads how old something may be: a duration as Go writes them, or a whole
// number of days or weeks.
func parseAge(flag, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	for _, unit := range []struct {
		suffix string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour}} {
		if number, ok := strings.CutSuffix(s, unit.suffix); ok && err != nil {
			if n, e := strconv.ParseUint(number, 10, 16); e == nil {
				d, err = time.Duration(n)*unit.length, nil
			}
		}
	}
	if err != nil || d < 0 {
		return 0, &usageError{msg: fmt.Sprintf("--%s %q is no age", flag, s), hint: "write 30m, 12h, 7d or 2w"}
	}
	return d, nil
}
