//go:build unix

package assets

import "syscall"

// nonblocking keeps the opening of what became a pipe meanwhile from waiting for
// somebody to write into it.
const nonblocking = syscall.O_NONBLOCK
