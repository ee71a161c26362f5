package simulator

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// OpenFiles is how many files the simulator may have open; 0 means that it cannot be
// told. Hosts that refuse it the limit it asks for leave it with the engine's own,
// which is read from the process: host is the root of the engine's machine, nil
// where that is another one.
func OpenFiles(ctx context.Context, eng Engine, instance string, host fs.FS) (int64, error) {
	name := ContainerName(instance)
	c, err := eng.ContainerInspect(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("look at simulator %q: %w", name, err)
	}
	if c.HostConfig != nil {
		for _, l := range c.HostConfig.Ulimits {
			if l.Name == "nofile" {
				return l.Soft, nil
			}
		}
	}
	if host == nil || c.ContainerJSONBase == nil || c.State == nil || c.State.Pid == 0 {
		return 0, nil
	}
	text, err := fs.ReadFile(host, fmt.Sprintf("proc/%d/limits", c.State.Pid))
	if err != nil {
		return 0, nil // another user's, or another machine's after all
	}
	return openFilesLimit(string(text)), nil
}

// openFilesLimit reads the soft limit from a process's limits, as the kernel shows
// them; 0 if it is not there, or none.
func openFilesLimit(limits string) int64 {
	for _, line := range strings.Split(limits, "\n") {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				n, err := strconv.ParseInt(fields[0], 10, 64)
				if err == nil {
					return n
				}
			}
		}
	}
	return 0
}
