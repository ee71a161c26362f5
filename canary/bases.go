package canary

// The decoders here take runs of an alphabet's characters, wherever they stand and
// whatever they began as, at every alignment.

const (
	minRun64 = 11 // characters, of eight bytes
	minRun32 = 13
	minRun16 = 16
)

// digits maps characters to values; -1 ends a run, -2 is skipped within one.
type digits [256]int8

const skip = -2

func alphabet(skipped string, sets ...string) *digits {
	var d digits
	for i := range d {
		d[i] = -1
	}
	for i := range len(skipped) {
		d[skipped[i]] = skip
	}
	for _, set := range sets {
		for i := range len(set) {
			d[set[i]] = int8(i)
		}
	}
	return &d
}

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowers = "abcdefghijklmnopqrstuvwxyz"
)

var (
	digits64 = alphabet("\r\n", upper+lowers+"0123456789+/", upper+lowers+"0123456789-_")
	digits32 = alphabet("\r\n", upper+"234567", lowers+"234567")
	digits16 = alphabet(" :,-\r\n\t\\x", "0123456789abcdef", "0123456789ABCDEF")
)

// runs calls f with the values of each run of at least least characters.
func (d *digits) runs(b []byte, least int, f func(values []int8)) {
	var values []int8
	for i := 0; i <= len(b); i++ {
		v := int8(-1)
		if i < len(b) {
			v = d[b[i]]
		}
		switch {
		case v >= 0:
			values = append(values, v)
		case v == skip:
		default:
			if len(values) >= least {
				f(values)
			}
			values = values[:0]
		}
	}
}

// pack joins values of bits each to bytes.
func pack(dst []byte, values []int8, bits uint) []byte {
	var acc uint32
	var have uint
	for _, v := range values {
		acc = acc<<bits | uint32(v)
		if have += bits; have >= 8 {
			have -= 8
			dst = append(dst, byte(acc>>have))
		}
	}
	return dst
}

// based searches every run at every alignment, and all runs together as one: pieces
// that were encoded one by one.
func (s *search) based(b []byte, chain []string, depth int, name string, d *digits, bits uint, least, alignments int) {
	var together []byte
	pieces := 0
	hits := len(s.result.Hits)
	d.runs(b, 2, func(values []int8) {
		if len(b) <= short {
			together = pack(together, values, bits) // each for itself: what padding was for is dropped
			pieces++
		}
		if len(values) < least || len(s.result.Hits) > hits {
			return
		}
		for off := 0; off < alignments && off < len(values); off++ {
			s.derived(pack(nil, values[off:], bits), chain, name, depth)
			if len(s.result.Hits) > hits {
				return
			}
		}
	})
	if pieces > 1 && len(together) >= MinSecret && len(s.result.Hits) == hits {
		s.derived(together, chain, name+" in pieces", depth)
	}
}

func (s *search) base64(b []byte, chain []string, depth int) {
	s.based(b, chain, depth, "base64", digits64, 6, minRun64, 4)
}

func (s *search) hex(b []byte, chain []string, depth int) {
	s.based(b, chain, depth, "hex", digits16, 4, minRun16, 2)
	s.based(b, chain, depth, "hex", digitsHexWord, 4, minRun16, 2)
}

// digitsHexWord has hex digits without any separator, for text in which words follow.
var digitsHexWord = alphabet("", "0123456789abcdef", "0123456789ABCDEF")

func (s *search) base32(b []byte, chain []string, depth int) {
	s.based(b, chain, depth, "base32", digits32, 5, minRun32, 8)
}

// decimal takes lists of numbers for bytes: [72, 101, 108].
func (s *search) decimal(b []byte, chain []string, depth int) {
	var out []byte
	flush := func() {
		if len(out) >= MinSecret {
			s.derived(out, chain, "decimal", depth)
		}
		out = nil
	}
	for i := 0; i < len(b); {
		if b[i] < '0' || b[i] > '9' {
			if c := b[i]; c != ' ' && c != ',' && c != '\n' && c != '\r' && c != '\t' && c != ';' {
				flush()
			}
			i++
			continue
		}
		n, from := 0, i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			n = min(n*10+int(b[i]-'0'), 1000)
			i++
		}
		if n > 255 || i-from > 3 {
			flush()
			continue
		}
		out = append(out, byte(n))
	}
	flush()
}
