//go:build !386 && !s390x

package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"
)

// loopbackIndex is the same in every network namespace.
const loopbackIndex = 1

// tellIngress makes the kernel keep, for each connection accepted on the socket,
// which interface it came in on. It is kept in the family of the packets, so a
// socket for both is asked for both.
func tellIngress(network, _ string, c syscall.RawConn) error {
	var err error
	ctlErr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_PKTINFO, 1)
		if err == nil && network == "tcp6" {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, syscall.IPV6_RECVPKTINFO, 1)
		}
	})
	return errors.Join(ctlErr, err)
}

// ingressOf gives the interface a connection came in on.
func ingressOf(c net.Conn, local netip.Addr) (index int, err error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0, errors.New("connection is no socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	ctlErr := raw.Control(func(fd uintptr) {
		if local.Is4() {
			index, err = packetInfo(fd, syscall.IPPROTO_IP, syscall.IP_PKTOPTIONS, syscall.IP_PKTINFO, 0)
		} else {
			index, err = packetInfo(fd, syscall.IPPROTO_IPV6, syscall.IPV6_2292PKTOPTIONS, syscall.IPV6_PKTINFO, net.IPv6len)
		}
	})
	return index, errors.Join(ctlErr, err)
}

// packetInfo reads the control message that says how the connection's packets
// came in; the interface's index is a 32-bit number at the offset.
func packetInfo(fd uintptr, level, option, kind, offset int) (int, error) {
	var b [256]byte
	n := uint32(len(b))
	_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return 0, errno
	}
	messages, err := syscall.ParseSocketControlMessage(b[:min(n, uint32(len(b)))])
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if int(m.Header.Level) == level && int(m.Header.Type) == kind && len(m.Data) >= offset+4 {
			return int(*(*uint32)(unsafe.Pointer(&m.Data[offset]))), nil
		}
	}
	return 0, errors.New("the kernel does not say which interface the connection came in on")
}

// stayOn lets a connection send and receive on one interface only: what is
// answered in one network leaves by no other, whatever routes the kernel was
// made to believe in. Kernels before 5.7 forbid it to an ordinary user; what
// comes in is judged with or without.
func stayOn(c net.Conn, index int) {
	const bindToInterface = 62 // SO_BINDTOIFINDEX
	sc, ok := c.(syscall.Conn)
	if !ok || index == loopbackIndex {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, bindToInterface, index)
		})
	}
}

// interfaceAddresses lists the addresses of every interface, all in one answer of
// the kernel's however many there are.
func interfaceAddresses() (map[int][]netip.Addr, error) {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	all := map[int][]netip.Addr{}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		index := int((*syscall.IfAddrmsg)(unsafe.Pointer(&m.Data[0])).Index)
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		if ip, ok := ownAddress(attributes); ok {
			all[index] = append(all[index], ip)
		}
	}
	return all, nil
}

// ownAddress is the interface's side: where there are two ends, that is the one
// called local, and else the only one.
func ownAddress(attributes []syscall.NetlinkRouteAttr) (own netip.Addr, ok bool) {
	for _, a := range attributes {
		switch a.Attr.Type {
		case syscall.IFA_LOCAL:
			return netip.AddrFromSlice(a.Value)
		case syscall.IFA_ADDRESS:
			own, ok = netip.AddrFromSlice(a.Value)
		}
	}
	return own, ok
}
