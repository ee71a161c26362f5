package backend

import "syscall"

// Socket options that package syscall does not name.
const (
	bindToInterface   = 62 // SO_BINDTOIFINDEX
	bindAddressNoPort = 24 // IP_BIND_ADDRESS_NO_PORT
)

// onInterface keeps a connection on one interface, whatever routes the kernel was
// made to believe in: who answers is at the end of that cable. Kernels before 5.7
// forbid it to an ordinary user; there the addresses at both ends have to do.
func onInterface(index int) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if index > 0 {
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, bindToInterface, index)
			}
			// The port is chosen when the peer is known, so that ports do not run out
			// over all backends together. Without it they are fewer.
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindAddressNoPort, 1)
		})
	}
}
