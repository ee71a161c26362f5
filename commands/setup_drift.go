package commands

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/linuxarena/ctis/netpin"
)

// Labels with which Compose remembers what it made something from.
const (
	labelConfigHash  = "com.docker.compose.config-hash"
	labelConfigFiles = "com.docker.compose.project.config_files"
)

// drifted says that docker compose saw one environment when it created the
// containers and another one when it started them.
func drifted(format string, args ...any) error {
	return &hintedError{
		err:  fmt.Errorf(format+" while ctis up was at work", args...),
		hint: "let nothing change the environment's files until ctis up has ended, then run it again",
	}
}

// unchanged makes sure that the environment's files still are what was checked.
func (s *setup) unchanged() error {
	changed := s.env.Changed()
	if len(changed) == 0 {
		return nil
	}
	for i, f := range changed {
		changed[i] = fmt.Sprintf("%q", f)
	}
	return drifted("%s changed", strings.Join(changed, ", "))
}

// noDrift makes sure that Compose started the containers that were prepared, on
// the networks that were prepared, and made no others: a new container would lack
// the trust that was put into the old, and on a new network is no simulator.
func (s *setup) noDrift(ctx context.Context, created netpin.Project) error {
	now, err := netpin.FindMembers(ctx, s.app.engine, s.id)
	if err != nil {
		return err
	}
	return cmp.Or(s.unchanged(), drift(created, now))
}

// drift compares a project as it was created with what runs. Pure.
func drift(created, now netpin.Project) error {
	known := map[string]bool{}
	for _, c := range created.Containers {
		known[c.ID] = true
	}
	for _, c := range now.Containers {
		if known[c.ID] {
			continue
		}
		for _, old := range created.Containers {
			if old.Name == c.Name {
				return drifted("docker compose made container %q anew (%.12s, config hash %s; it was %.12s, %s)",
					c.Name, c.ID, hashOf(c.Labels), old.ID, hashOf(old.Labels))
			}
		}
		return drifted("docker compose made a further container %q (%.12s, config hash %s)", c.Name, c.ID, hashOf(c.Labels))
	}
	networks := map[string]netpin.Network{}
	for _, n := range created.Networks {
		networks[n.Name] = n
	}
	for _, n := range now.Networks {
		if old, ok := networks[n.Name]; ok && old.ID != n.ID {
			return drifted("docker compose made network %q anew (%.12s, config hash %s; it was %.12s, %s)",
				n.Name, n.ID, hashOf(n.Labels), old.ID, hashOf(old.Labels))
		}
	}
	return nil
}

func hashOf(labels map[string]string) string {
	return cmp.Or(fmt.Sprintf("%.12s", labels[labelConfigHash]), "unknown")
}
