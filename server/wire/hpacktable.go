package wire

import "sync"

// staticTable is that of HPACK (RFC 7541 appendix A): its first entry has the
// index 1.
var staticTable = [...][2]string{
	{":authority", ""}, {":method", "GET"}, {":method", "POST"}, {":path", "/"}, {":path", "/index.html"},
	{":scheme", "http"}, {":scheme", "https"}, {":status", "200"}, {":status", "204"}, {":status", "206"},
	{":status", "304"}, {":status", "400"}, {":status", "404"}, {":status", "500"}, {"accept-charset", ""},
	{"accept-encoding", "gzip, deflate"}, {"accept-language", ""}, {"accept-ranges", ""}, {"accept", ""},
	{"access-control-allow-origin", ""}, {"age", ""}, {"allow", ""}, {"authorization", ""}, {"cache-control", ""},
	{"content-disposition", ""}, {"content-encoding", ""}, {"content-language", ""}, {"content-length", ""},
	{"content-location", ""}, {"content-range", ""}, {"content-type", ""}, {"cookie", ""}, {"date", ""}, {"etag", ""},
	{"expect", ""}, {"expires", ""}, {"from", ""}, {"host", ""}, {"if-match", ""}, {"if-modified-since", ""},
	{"if-none-match", ""}, {"if-range", ""}, {"if-unmodified-since", ""}, {"last-modified", ""}, {"link", ""},
	{"location", ""}, {"max-forwards", ""}, {"proxy-authenticate", ""}, {"proxy-authorization", ""}, {"range", ""},
	{"referer", ""}, {"refresh", ""}, {"retry-after", ""}, {"server", ""}, {"set-cookie", ""},
	{"strict-transport-security", ""}, {"transfer-encoding", ""}, {"user-agent", ""}, {"vary", ""}, {"via", ""},
	{"www-authenticate", ""},
}

// huffmanLengths are the bits of the code of each byte (RFC 7541 appendix B).
// The codes themselves follow from them: those of one length are consecutive
// numbers in the order of the bytes, and each length goes on where the shorter
// one ended. EOS, which no string may contain, is the last one.
var huffmanLengths = [257]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
	28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
	5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
	6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
	24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
	21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
	26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
	30,
}

// codes is the Huffman code in both directions.
type codes struct {
	code [257]uint32
	// tree has the two ways on from each node; a negative one is the end, at
	// the symbol -1-n. The root is 0, to which no way leads.
	tree [257][2]int16
}

const eos = 256

var huffman = sync.OnceValue(func() *codes {
	c := new(codes)
	next, nodes := uint32(0), int16(1)
	for length := uint8(1); length <= 30; length++ {
		next <<= 1
		for symbol, n := range huffmanLengths {
			if n != length {
				continue
			}
			c.code[symbol] = next
			at := int16(0)
			for bit := int(length) - 1; bit > 0; bit-- {
				way := &c.tree[at][next>>bit&1]
				if *way == 0 {
					*way = nodes
					nodes++
				}
				at = *way
			}
			c.tree[at][next&1] = int16(-1 - symbol)
			next++
		}
	}
	return c
})

// appendHuffmanDecoded decodes s. It is false for what is no encoding: EOS in
// it, or padding that is not the beginning of EOS (RFC 7541 §5.2).
func appendHuffmanDecoded(dst, s []byte) ([]byte, bool) {
	tree := &huffman().tree
	at, bits, ones := int16(0), 0, true
	for _, b := range s {
		for i := 7; i >= 0; i-- {
			bit := b >> i & 1
			bits++
			ones = ones && bit == 1
			if at = tree[at][bit]; at >= 0 {
				continue
			}
			if at == -1-eos {
				return dst, false
			}
			dst = append(dst, byte(-1-at))
			at, bits, ones = 0, 0, true
		}
	}
	return dst, bits < 8 && ones
}

func huffmanSize(s string) int {
	bits := 0
	for i := range len(s) {
		bits += int(huffmanLengths[s[i]])
	}
	return (bits + 7) / 8
}

func appendHuffman(dst []byte, s string) []byte {
	code := &huffman().code
	word, bits := uint64(0), 0
	for i := range len(s) {
		n := int(huffmanLengths[s[i]])
		word, bits = word<<n|uint64(code[s[i]]), bits+n
		for ; bits >= 8; bits -= 8 {
			dst = append(dst, byte(word>>(bits-8)))
		}
	}
	if bits > 0 {
		dst = append(dst, byte(word<<(8-bits))|byte(0xff>>bits))
	}
	return dst
}
