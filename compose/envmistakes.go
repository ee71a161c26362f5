package compose

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"
)

// envMistake is one line of an env file that cannot be understood.
type envMistake struct {
	line    int
	message string
}

// maxEnvMistakes is how many lines of one file are told.
const maxEnvMistakes = 50

var (
	lineOfEnvFile   = regexp.MustCompile(`^line (\d+): (.*)$`)
	nameInEnvFile   = regexp.MustCompile(`[\pL_][\pL\pN_]*`)
	beginsStatement = regexp.MustCompile(`^\s*(?:#|$|(?:export\s+)?[\pL_][\pL\pN_.\-]*\s*=)`)
)

// envMistakes finds every line that Compose's parser, which stops at a first one,
// does not understand. It returns the values of all others, and the names that
// the wrong lines may have been meant to set.
func envMistakes(content string, lookup dotenv.LookupFn) (values map[string]string, wrong []envMistake, unsure []string) {
	lines := strings.SplitAfter(strings.TrimPrefix(content, "\ufeff"), "\n")
	drop := func(line int, message string) {
		wrong = append(wrong, envMistake{line, message})
		unsure = append(unsure, nameInEnvFile.FindAllString(lines[line-1], -1)...)
		lines[line-1] = "\n"
	}
	for range maxEnvMistakes {
		rest := strings.Join(lines, "")
		values, err := dotenv.ParseWithLookup(strings.NewReader(rest), lookup)
		if err == nil {
			return values, wrong, unsure
		}
		m := lineOfEnvFile.FindStringSubmatch(strings.Join(strings.Fields(err.Error()), " "))
		if m == nil { // of a value, and without its place
			found := false
			for _, a := range assignments(rest) {
				if len(wrong) >= maxEnvMistakes {
					break
				}
				if _, err := dotenv.ParseWithLookup(strings.NewReader("x="+a.text), lookup); err != nil && !a.literal && !lineOfEnvFile.MatchString(err.Error()) {
					drop(a.line, "the value of "+a.name+" has an invalid interpolation")
					found = true
				}
			}
			if !found {
				return values, append(wrong, envMistake{1, err.Error()}), unsure
			}
			continue
		}
		line, _ := strconv.Atoi(m[1])                // digits
		if strings.HasPrefix(m[2], "unterminated") { // told where the file ends
			for _, a := range assignments(rest) {
				if a.text != "" && (a.text[0] == '"' || a.text[0] == '\'') && !closed(a.text) {
					line = a.line
				}
			}
			line = min(max(line, 1), len(lines))
			after := ""
			if line < len(lines) {
				after = lines[line]
			}
			drop(line, "a quote is not closed")
			if !beginsStatement.MatchString(after) { // the text goes on, who knows how far
				for i := line; i < len(lines); i++ {
					unsure = append(unsure, nameInEnvFile.FindAllString(lines[i], -1)...)
					lines[i] = ""
				}
			}
			continue
		}
		drop(min(max(line, 1), len(lines)), m[2])
	}
	return values, wrong, unsure
}

// envFileMistakes reports the wrong lines of an env file, at their places.
func (m *model) envFileMistakes(ps *Problems, path string, vars types.Mapping) (values map[string]string, unsure []string) {
	content, err := readFile(path)
	if err != nil {
		return nil, nil // others tell that
	}
	values, wrong, unsure := envMistakes(string(content), func(k string) (string, bool) { v, ok := vars[k]; return v, ok })
	for _, w := range wrong {
		ps.errorf(place{m.shown(path), w.line, 1}, "not valid in an env file: %s", w.message).hint("each line is NAME=value")
	}
	return values, unsure
}
