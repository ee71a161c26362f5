package compose

import (
	"runtime"
	"syscall"
)

// childAttr lets a Ctrl-C on the terminal reach ctis alone, which then ends
// Compose in its own way, and ends Compose where ctis itself is killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// onOneThread runs f, which starts a child and waits for it. The kernel sends
// the child its signal when the thread that started it ends, and Go ends threads
// as it likes, so this one belongs to f until f is done.
func onOneThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- f()
	}()
	return <-done
}
