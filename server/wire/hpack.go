package wire

import "errors"

// hpackTable is the most the dynamic table of a Decoder may take up, counted as
// HPACK does: the default, which no SETTINGS of ours change.
const hpackTable = 4096

// Decoder decodes the header blocks of one direction of an HTTP/2 connection
// (RFC 7541). What it keeps from one block to the next is bounded by the table's
// size, whatever is sent.
type Decoder struct {
	dynamic [][2]string // the newest last
	size    int
	max     int
}

// NewDecoder makes a decoder for a new connection.
func NewDecoder() *Decoder { return &Decoder{max: hpackTable} }

var (
	errHpackShort   = errors.New("header block ends within a field")
	errHpackNumber  = errors.New("number in a header block is too large")
	errHpackIndex   = errors.New("header block refers to no entry of the table")
	errHpackString  = errors.New("string in a header block is no huffman encoding")
	errHpackResized = errors.New("header block changes the table's size where or how it may not")
)

// Decode decodes a whole block. Of names and values it gives the first keep
// bytes only, cut says that there were more: an entry of the table can be named
// with one byte and be as long as the table. With an error it gives what came
// before, and the connection cannot go on.
func (d *Decoder) Decode(block []byte, keep int) (fields [][2]string, cut bool, err error) {
	begun := false
	for len(block) > 0 {
		var f [2]string
		b := block[0]
		switch {
		case b&0xe0 == 0x20:
			var n int
			if n, block, err = hpackInt(block, 5); err == nil && (begun || n > hpackTable) {
				err = errHpackResized
			}
			if err != nil {
				return fields, cut, err
			}
			d.max = n
			d.evict()
			continue
		case b&0x80 != 0:
			var n int
			if n, block, err = hpackInt(block, 7); err == nil {
				f, err = d.entry(n)
			}
		case b&0x40 != 0:
			if f, block, err = d.literal(block, 6); err == nil {
				d.add(f)
			}
		default:
			f, block, err = d.literal(block, 4)
		}
		if err != nil {
			return fields, cut, err
		}
		begun = true
		switch size := len(f[0]) + len(f[1]); {
		case cut:
		case size <= keep:
			keep -= size + len(": ") // so that fields without a byte are bounded too
			fields = append(fields, f)
		default:
			cut = true
			if len(f[0]) <= keep {
				fields = append(fields, [2]string{f[0], f[1][:keep-len(f[0])]})
			}
		}
	}
	return fields, cut, nil
}

func (d *Decoder) literal(b []byte, prefix int) (f [2]string, rest []byte, err error) {
	n, b, err := hpackInt(b, prefix)
	if err != nil {
		return f, b, err
	}
	if n == 0 {
		f[0], b, err = hpackString(b)
	} else {
		f, err = d.entry(n)
	}
	if err == nil {
		f[1], b, err = hpackString(b)
	}
	return f, b, err
}

// entry looks an index up in both tables.
func (d *Decoder) entry(n int) ([2]string, error) {
	switch {
	case n == 0 || n > len(staticTable)+len(d.dynamic):
		return [2]string{}, errHpackIndex
	case n <= len(staticTable):
		return staticTable[n-1], nil
	}
	return d.dynamic[len(d.dynamic)-(n-len(staticTable))], nil
}

func (d *Decoder) add(f [2]string) {
	d.dynamic = append(d.dynamic, f)
	d.size += entrySize(f)
	d.evict()
}

// evict drops the oldest entries until the table is within its size.
func (d *Decoder) evict() {
	n := 0
	for ; d.size > d.max; n++ {
		d.size -= entrySize(d.dynamic[n])
	}
	if n == 0 {
		return
	}
	left := copy(d.dynamic, d.dynamic[n:])
	clear(d.dynamic[left:]) // so that their strings are let go
	d.dynamic = d.dynamic[:left]
}

// entrySize is what HPACK counts for an entry (RFC 7541 §4.1).
func entrySize(f [2]string) int { return len(f[0]) + len(f[1]) + 32 }

// hpackInt reads a number that begins in the low bits of the first byte.
func hpackInt(b []byte, prefix int) (n int, rest []byte, err error) {
	if len(b) == 0 {
		return 0, b, errHpackShort
	}
	limit := 1<<prefix - 1
	if n = int(b[0]) & limit; n < limit {
		return n, b[1:], nil
	}
	for i, shift := 1, 0; i < len(b); i, shift = i+1, shift+7 {
		if shift > 21 {
			return 0, b, errHpackNumber
		}
		n += int(b[i]&0x7f) << shift
		if b[i] < 0x80 {
			return n, b[i+1:], nil
		}
	}
	return 0, b, errHpackShort
}

func hpackString(b []byte) (s string, rest []byte, err error) {
	n, rest, err := hpackInt(b, 7)
	switch {
	case err != nil:
		return "", rest, err
	case n > len(rest):
		return "", rest, errHpackShort
	case b[0] < 0x80:
		return string(rest[:n]), rest[n:], nil
	}
	var few [256]byte
	plain, ok := appendHuffmanDecoded(few[:0], rest[:n])
	if !ok {
		return "", rest, errHpackString
	}
	return string(plain), rest[n:], nil
}

// staticNames are the indices of names in the static table.
var staticNames = func() map[string]int {
	m := make(map[string]int, len(staticTable))
	for i := len(staticTable) - 1; i >= 0; i-- {
		m[staticTable[i][0]] = i + 1
	}
	return m
}()

// AppendField encodes a field so that no table changes: for a reader that may
// not get all blocks of a connection.
func AppendField(dst []byte, name, value string) []byte {
	if i := staticNames[name]; i > 0 {
		dst = appendHpackInt(dst, 0x00, 4, i)
	} else {
		dst = appendHpackInt(append(dst, 0x00), 0x00, 7, len(name))
		dst = append(dst, name...)
	}
	dst = appendHpackInt(dst, 0x00, 7, len(value))
	return append(dst, value...)
}

// AppendResponseField encodes a field as nginx does: what it knows by name goes
// into the reader's table, which is never referred to, and strings are Huffman
// encoded where that is shorter.
func AppendResponseField(dst []byte, name, value string) []byte {
	i := staticNames[name]
	if name == ":status" {
		for k := i; k <= len(staticTable) && staticTable[k-1][0] == name; k++ {
			if staticTable[k-1][1] == value {
				return append(dst, 0x80|byte(k))
			}
		}
	}
	switch name {
	case ":status", "server", "date", "content-type", "content-length", "last-modified", "location", "vary":
		dst = appendHpackInt(dst, 0x40, 6, i)
	default:
		dst = appendHpackString(append(dst, 0x00), name)
	}
	return appendHpackString(dst, value)
}

// AppendTableUpdate says that the table has no room any more, at the beginning
// of a block (RFC 7541 §4.2).
func AppendTableUpdate(dst []byte) []byte { return append(dst, 0x20) }

func appendHpackString(dst []byte, s string) []byte {
	if n := huffmanSize(s); n < len(s) {
		return appendHuffman(appendHpackInt(dst, 0x80, 7, n), s)
	}
	return append(appendHpackInt(dst, 0x00, 7, len(s)), s...)
}

func appendHpackInt(dst []byte, first byte, prefix, n int) []byte {
	limit := 1<<prefix - 1
	if n < limit {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(limit))
	for n -= limit; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}
