//go:build !linux

package compose

import "syscall"

// childAttr lets a Ctrl-C on the terminal reach ctis alone, which then ends
// Compose in its own way.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func onOneThread(f func() error) error { return f() }
