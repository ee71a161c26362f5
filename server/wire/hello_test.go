package wire

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
)

// clientHello is what crypto/tls sends for a name.
func clientHello(t testing.TB, name string, alpn ...string) []byte {
	t.Helper()
	c, s := net.Pipe()
	defer s.Close()
	go func() {
		_ = tls.Client(c, &tls.Config{ServerName: name, NextProtos: alpn, InsecureSkipVerify: true}).Handshake()
		_ = c.Close()
	}()
	buf := make([]byte, 16<<10)
	n, err := s.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// withSNI makes a minimal ClientHello with an SNI no client library would send.
func withSNI(name string) []byte {
	u16 := func(n int) []byte { return []byte{byte(n >> 8), byte(n)} }
	entry := append(append([]byte{0}, u16(len(name))...), name...)
	list := append(u16(len(entry)), entry...)
	ext := append(append(u16(extensionSNI), u16(len(list))...), list...)
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0)             // session id
	body = append(body, 0, 2, 0x13, 1) // one suite
	body = append(body, 1, 0)          // no compression
	body = append(append(body, u16(len(ext))...), ext...)
	msg := append([]byte{helloClient, 0}, append(u16(len(body)), body...)...)
	return append(append([]byte{recordHandshake, 3, 1}, u16(len(msg))...), msg...)
}

func TestHelloGivesTheNameAsSent(t *testing.T) {
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		name  string
		raw   []byte
		sni   string
		names bool
	}{
		{"library", clientHello(t, "files.example.com", "h2"), "files.example.com", true},
		{"none", clientHello(t, ""), "", false},
		{"upper case", withSNI("FILES.Example.com"), "FILES.Example.com", true},
		{"trailing dot", withSNI("files.example.com."), "files.example.com.", true},
		{"punycode", withSNI("xn--bcher-kva.example"), "xn--bcher-kva.example", true},
		{"unicode", withSNI("bücher.example"), "bücher.example", true},
		{"ipv4", withSNI("192.0.2.1"), "192.0.2.1", false},
		{"ipv6", withSNI("2001:db8::1"), "2001:db8::1", false},
		{"empty", withSNI(""), "", false},
		{"300 bytes", withSNI(long), long, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, done, refusal := ParseHello(c.raw)
			if !done || refusal != nil || h.SNI != c.sni || h.NamesHost() != c.names {
				t.Errorf("hello %+v, done %v, refusal %v", h, done, refusal)
			}
			for i := range c.raw {
				if _, done, refusal := ParseHello(c.raw[:i]); done || refusal != nil {
					t.Fatalf("after %d of %d bytes: done %v, refusal %v", i, len(c.raw), done, refusal)
				}
			}
		})
	}
}

func TestHelloMayBeSpreadOverRecords(t *testing.T) {
	raw := withSNI("files.example.com")
	msg := raw[recordHeader:]
	var split []byte
	for len(msg) > 0 {
		n := min(7, len(msg))
		split = append(append(split, recordHandshake, 3, 1, 0, byte(n)), msg[:n]...)
		msg = msg[n:]
	}
	h, done, refusal := ParseHello(split)
	if !done || refusal != nil || h.SNI != "files.example.com" {
		t.Errorf("hello %+v, done %v, refusal %v", h, done, refusal)
	}
}

func TestHelloThatIsNoneIsRefused(t *testing.T) {
	damaged := withSNI("files.example.com")
	damaged[len(damaged)-len("files.example.com")-1] = 200 // the name's length
	for name, raw := range map[string][]byte{
		"http":            []byte("GET / HTTP/1.1\r\n"),
		"alert":           {21, 3, 3, 0, 2, 2, 50},
		"other version":   {recordHandshake, 9, 9, 0, 1, 1},
		"empty record":    {recordHandshake, 3, 1, 0, 0},
		"server hello":    {recordHandshake, 3, 1, 0, 4, 2, 0, 0, 0},
		"endless message": {recordHandshake, 3, 1, 0, 4, helloClient, 255, 255, 255},
		"damaged name":    damaged,
	} {
		if _, done, refusal := ParseHello(raw); !done || refusal == nil {
			t.Errorf("%s: done %v, refusal %v", name, done, refusal)
		}
	}
}

func FuzzHelloNeverPanics(f *testing.F) {
	f.Add(withSNI("a.example"))
	f.Add(clientHello(f, "files.example.com", "h2", "http/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, done, refusal := ParseHello(b)
		if refusal == nil && done && len(h.SNI) > len(b) {
			t.Fatal("a name longer than its message")
		}
	})
}
