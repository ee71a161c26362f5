//go:build !linux

package main

// keepMemoryPrivate has nothing to do where no gateway runs.
func keepMemoryPrivate() {}
