package wire

import "strings"

// IsToken says whether s is a token of RFC 9110 §5.6.2: a method or a header
// field name.
func IsToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !letter(c) && !digit(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }
func hex(c byte) bool    { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// validHost is what may stand in a Host field: characters only, the name is
// looked up afterwards.
func validHost(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !letter(c) && !digit(c) && strings.IndexByte("!$%&'()*+,-.:;=[]_~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// plainAuthority is a host name, an IPv4 address or an IPv6 address in
// brackets, with or without a port. No user part, no escapes.
func plainAuthority(s string) bool {
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 2 {
			return false
		}
		for i := 1; i < end; i++ {
			if !hex(s[i]) && s[i] != ':' && s[i] != '.' {
				return false
			}
		}
		host, port = "", s[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
		port = strings.TrimPrefix(port, ":")
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		host, port = s[:i], s[i+1:]
		if host == "" {
			return false
		}
	} else if s == "" {
		return false
	}
	for i := 0; i < len(host); i++ {
		if c := host[i]; !letter(c) && !digit(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	for i := 0; i < len(port); i++ {
		if !digit(port[i]) {
			return false
		}
	}
	return true
}

// hasToken looks for token in a comma-separated list.
func hasToken(list, token string) bool {
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		if strings.EqualFold(strings.Trim(item, " \t"), token) {
			return true
		}
	}
	return false
}

// NormalHost gives the name that a Host field, an :authority or an SNI means:
// lower case, without port and without one trailing dot. It is "" for what can
// be no name.
func NormalHost(s string) string {
	if strings.HasPrefix(s, "[") {
		if end := strings.IndexByte(s, ']'); end > 0 {
			s = s[1:end]
		}
	} else if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.IndexByte(s, ':') == i {
		s = s[:i]
	}
	s = strings.TrimSuffix(s, ".")
	lower := true
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 || s[i] <= ' ' {
			return ""
		}
		lower = lower && (s[i] < 'A' || s[i] > 'Z')
	}
	if !lower {
		s = strings.ToLower(s)
	}
	return s
}
