package backend

import (
	"net"
	"syscall"
)

// silent looks into the socket without taking anything out or waiting.
func silent(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN //nolint:errorlint // a bare number
		return true
	})
	return err == nil && quiet
}
