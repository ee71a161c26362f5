package trust

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// maxSealed bounds the volumes one service gets for its trust stores.
const maxSealed = 8

// Sealed lists, by service, the directories on a read-only root that [Install]
// would write into and cannot. With a volume at each it can: the engine fills a new
// volume with what the image has there, and takes files into it before the
// container first starts. Containers that have been started are passed over.
func Sealed(ctx context.Context, eng Engine, o Options) (map[string][]string, error) {
	ca, err := parseAuthority(o.CA)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, c := range o.Containers {
		p, err := look(ctx, eng, ca, c.ID, &Report{})
		if err != nil {
			return nil, fmt.Errorf("trust stores of service %q (container %.12s): %w", c.Service, c.ID, err)
		}
		if p != nil {
			found[c.Service] = append(found[c.Service], p.sealed...)
		}
	}
	for service, dirs := range found {
		found[service] = outermost(dirs)
		if len(found[service]) == 0 {
			delete(found, service)
		}
	}
	return found, nil
}

// outermost drops directories below others, and those too near the root for a
// volume: /etc and the like hold more than trust stores.
func outermost(dirs []string) []string {
	slices.Sort(dirs)
	var kept []string
	for _, dir := range dirs {
		if strings.Count(dir, "/") < 2 || dir == BundleDir || strings.Contains(dir, ":") || len(kept) == maxSealed {
			continue
		}
		if !slices.ContainsFunc(kept, func(k string) bool { return dir == k || strings.HasPrefix(dir, k+"/") }) {
			kept = append(kept, dir)
		}
	}
	return kept
}
