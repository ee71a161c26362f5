//go:build !linux

package backend

import "net"

// silent cannot tell here, so no connection is used twice.
func silent(*net.TCPConn) bool { return false }
