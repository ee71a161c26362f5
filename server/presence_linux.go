package server

import (
	"encoding/binary"
	"syscall"
)

// established is TCP_ESTABLISHED of the kernel.
const established = 1

// hasLeft says whether the other end of a connection has closed it, in one
// direction or both, or is gone. It sees so behind bytes that nobody has read.
func hasLeft(c syscall.RawConn) (left bool) {
	err := c.Control(func(fd uintptr) {
		// The first byte of the kernel's tcp_info is the state of the connection.
		info, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
		state := binary.NativeEndian.AppendUint32(nil, uint32(info))[0]
		left = err == nil && state != established
	})
	return left || err != nil // it is closed at this end
}
