package main

import "syscall"

const setDumpable = 4 // PR_SET_DUMPABLE

// keepMemoryPrivate keeps other processes of this user, and core files, from the memory
// of this one, which has keys in it. Where the kernel does not do it the container's
// walls have to.
func keepMemoryPrivate() {
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, setDumpable, 0, 0)
}
