//go:build unix

package commands

import "golang.org/x/sys/unix"

// freeSpace is how much an unprivileged user could write below dir, in bytes.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
