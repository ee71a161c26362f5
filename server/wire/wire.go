// Package wire knows how HTTP and TLS look as bytes, and does no I/O: it reads
// the name a ClientHello asks for, checks an HTTP/1 request head more strictly
// than net/http does, follows a body to its last byte, decodes and judges HTTP/2
// requests, and puts response heads into the form the imitated server would
// give them.
//
// It stands between connection and net/http because net/http answers what it
// cannot parse by itself, in words and an order of header fields that are its
// own, and before any handler could have recorded the attempt.
package wire

// Limits of one HTTP/1 request head, in bytes. Line and block are those of
// nginx (large_client_header_buffers 4 8k); MaxHead is how much of a head that
// breaks them is still collected, so that it can be recorded.
const (
	MaxLine  = 8 << 10
	MaxBlock = 32 << 10
	MaxHead  = 64 << 10
)

// StatusHeaderTooLarge is nginx's own number for a request with too large a
// header: the page is titled after it, the status line says 400.
const StatusHeaderTooLarge = 494

// StatusPlainToTLS is nginx's own number for plain HTTP on a TLS port: the page
// says so, the status line says 400.
const StatusPlainToTLS = 497

// WireStatus is the status a client sees for status: nginx's own numbers become
// 400.
func WireStatus(status int) int {
	if status == StatusHeaderTooLarge || status == StatusPlainToTLS {
		return 400
	}
	return status
}
