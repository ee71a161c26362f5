package rule

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// What is here reads documents that encoding/json has found valid, and only those.

// lookup finds the value at a place. Of a name that an object has several times
// the last one counts, as in encoding/json.
func lookup(doc []byte, tokens []string) (value []byte, ok bool) {
	start := skipSpace(doc, 0)
	value = doc[start:skipValue(doc, start)]
	for _, t := range tokens {
		switch value[0] {
		case '{':
			value, ok = member(value, t)
		case '[':
			value, ok = element(value, t)
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return value, true
}

func member(object []byte, name string) (value []byte, ok bool) {
	i := skipSpace(object, 1)
	for object[i] != '}' {
		end := skipString(object, i)
		is := stringIs(object[i:end], name)
		i = skipSpace(object, skipSpace(object, end)+1) // behind the colon
		end = skipValue(object, i)
		if is {
			value, ok = object[i:end], true
		}
		if i = skipSpace(object, end); object[i] == ',' {
			i = skipSpace(object, i+1)
		}
	}
	return value, ok
}

func element(array []byte, token string) (value []byte, ok bool) {
	n, err := strconv.Atoi(token)
	if err != nil || strconv.Itoa(n) != token || n < 0 {
		return nil, false
	}
	i := skipSpace(array, 1)
	for array[i] != ']' {
		end := skipValue(array, i)
		if n == 0 {
			return array[i:end], true
		}
		n--
		if i = skipSpace(array, end); array[i] == ',' {
			i = skipSpace(array, i+1)
		}
	}
	return nil, false
}

// stringIs says whether a JSON string means text. Bytes that are no UTF-8 mean
// U+FFFD, as in encoding/json, or what they are where the rule has the same.
func stringIs(raw []byte, text string) bool {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		if string(inner) == text {
			return true
		}
		if len(inner) > len(text) || !strings.Contains(text, "\ufffd") {
			return false
		}
	}
	var s string
	return json.Unmarshal(raw, &s) == nil && s == text
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] != ' ' && b[i] != '\t' && b[i] != '\n' && b[i] != '\r' {
		i++
	}
	return i
}
