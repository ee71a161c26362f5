//go:build !unix

package assets

// nonblocking is of no use where there are no named pipes among files.
const nonblocking = 0
