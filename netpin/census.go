package netpin

import (
	"context"
	"fmt"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

// Census says whose the engine's networks are. It is what somebody needs to know
// who has no room for another.
type Census struct {
	Networks int // all of them
	Running  int // of trajectories with a running container
	Stopped  int // of trajectories without one
	Leftover int // of other Compose projects, none of whose containers exists any more

	Trajectories []string // ids of those without a running container, sorted
	Projects     []string // names of those without a container, sorted
}

// Count takes a census of the engine's networks.
func Count(ctx context.Context, eng Engine) (Census, error) {
	networks, err := eng.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return Census{}, fmt.Errorf("list the engine's networks: %w", err)
	}
	containers, err := eng.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return Census{}, fmt.Errorf("list the engine's containers: %w", err)
	}
	return census(networks, containers), nil
}

func census(networks []network.Summary, containers []container.Summary) Census {
	exists, runs := map[string]bool{}, map[string]bool{}
	for _, c := range containers {
		project := c.Labels[labelProject]
		exists[project] = true
		if c.State == container.StateRunning || c.State == container.StateRestarting || c.State == container.StatePaused {
			runs[project] = true
		}
	}
	all := Census{Networks: len(networks)}
	for _, n := range networks {
		id, project := n.Labels[LabelTrajectory], n.Labels[labelProject]
		switch {
		case id != "" && runs[id]:
			all.Running++
		case id != "":
			all.Stopped++
			all.Trajectories = append(all.Trajectories, id)
		case project != "" && !exists[project]:
			all.Leftover++
			all.Projects = append(all.Projects, project)
		}
	}
	slices.Sort(all.Trajectories)
	slices.Sort(all.Projects)
	all.Trajectories, all.Projects = slices.Compact(all.Trajectories), slices.Compact(all.Projects)
	return all
}
