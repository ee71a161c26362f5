//go:build !unix

package simulator

import "io/fs"

// holdDir gives nil: on such a system nobody can tell whether a directory is in use,
// and none is swept.
func holdDir(string) func() { return nil }

func mine(fs.FileInfo) bool { return false }
