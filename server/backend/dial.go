package backend

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// dial connects along the route, and makes sure of both ends of what it got.
func dial(ctx context.Context, r Route, patience time.Duration) (*net.TCPConn, error) {
	d := net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(r.Local, 0)),
		Timeout:   patience,
		KeepAlive: 15 * time.Second,
		Control:   onInterface(r.Interface),
	}
	d.SetMultipathTCP(false) // it stays on the way it was given
	network := "tcp4"
	if r.Peer.Addr().Is6() {
		network = "tcp6"
	}
	c, err := d.DialContext(ctx, network, r.Peer.String())
	switch {
	case isTimeout(err):
		// A container that stopped a moment ago is told from one that is slow by nothing.
		return nil, bad("did not accept a connection in " + patience.String() + ": it does not run, or takes no more")
	case err != nil:
		return nil, failed(err, "before it accepted the connection")
	}
	tcp := c.(*net.TCPConn)
	local, peer := plain(tcp.LocalAddr()), plain(tcp.RemoteAddr())
	if local.Addr() != r.Local || peer != r.Peer {
		_ = tcp.Close() // nothing was said
		return nil, bad("is not who the connection was made for: " + local.String() + " to " + peer.String())
	}
	return tcp, nil
}

func plain(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
