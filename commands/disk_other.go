//go:build !unix

package commands

import "errors"

func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
