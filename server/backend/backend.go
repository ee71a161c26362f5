// Package backend speaks HTTP/1.1 with the program behind a persona: one request,
// one connection, one response.
//
// It is no general client. It connects to one address from one address, on one
// interface, and never resolves a name; it writes the request it is given byte for
// byte; it reads the response more strictly than most clients do; and it leaves
// every decision about the two to the caller. A connection carries one exchange and
// is closed: nothing of one request can be taken for another's, none is lost to a
// connection that had gone stale, and whom each is spoken with is checked each time.
package backend

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Route is where a backend is and how it is reached.
type Route struct {
	Local     netip.Addr     // the simulator's own address in the network
	Interface int            // index of the interface that has it; 0: not known
	Peer      netip.AddrPort // the backend's address there
}

// Patience bounds how long a backend is waited for.
type Patience struct {
	Connect time.Duration // until it accepts
	Answer  time.Duration // from the last byte it took of a request to the end of its response's head
	Silence time.Duration // between two pieces of a response's body
}

// Failure is why there is no response, or no more of it.
type Failure struct {
	Status int // what a proxy answers: 502, or 504 where a backend that is there took too long
	Reason string
}

func (f *Failure) Error() string { return f.Reason }

func bad(reason string) *Failure { return &Failure{http.StatusBadGateway, reason} }

// failed tells in a journal's words why an operation on a connection went wrong.
// during says what was being done.
func failed(err error, during string) *Failure {
	var already *Failure
	switch {
	case errors.As(err, &already):
		return already
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), isTimeout(err):
		return &Failure{http.StatusGatewayTimeout, "timed out " + during}
	case errors.Is(err, syscall.ECONNREFUSED):
		return bad("refused the connection")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return bad("is not there: nothing has its address")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return bad("cannot be called: the simulator's own address in its network is not there")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return bad("reset the connection " + during)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return bad("closed the connection " + during)
	}
	return bad("failed " + during + ": " + err.Error())
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
