//go:build !linux

package server

import "syscall"

// hasLeft is told on Linux only, where the simulator runs.
func hasLeft(syscall.RawConn) bool { return false }
