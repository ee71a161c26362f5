package trust

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// place is somewhere files can be written: the container's root, or a volume of
// its own.
type place struct {
	root string // where the archive is unpacked
	err  error  // why nothing can be written there
}

// places knows which paths of a container lie on what. Writing goes through
// mounts: into a bind mount it would change this machine's files, into a shared
// volume another service's, and into a tmpfs it would be gone at the start.
type places struct{ all []place } // deepest first; the last is the root

// anonymous is what the engine calls a volume nobody named.
var anonymous = regexp.MustCompile(`^[0-9a-f]{64}$`)

const labelProject = "com.docker.compose.project"

func newPlaces(ctx context.Context, eng Engine, f *files, c container.InspectResponse) (*places, error) {
	root := place{root: "/"}
	p := &places{}
	var project string
	if c.Config != nil {
		project = c.Config.Labels[labelProject]
	}
	add := func(destination, kind string, why string) error {
		real, _, err := f.resolve(ctx, destination)
		if err != nil {
			return err
		}
		at := place{root: real}
		if why != "" {
			at.err = &MountError{Destination: destination, Type: kind, Why: why}
		}
		p.all = append(p.all, at)
		return nil
	}
	for _, m := range c.Mounts {
		why := ""
		switch {
		case m.Type == mount.TypeTmpfs:
			why = "which is empty when the container starts"
		case m.Type != mount.TypeVolume:
			why = "which belongs to the host"
		case !m.RW:
			why = "which is read-only"
		case !anonymous.MatchString(m.Name):
			v, err := eng.VolumeInspect(ctx, m.Name)
			if err != nil {
				return nil, err
			}
			if project == "" || v.Labels[labelProject] != project {
				why = "which other projects use as well"
			}
		}
		if err := add(m.Destination, string(m.Type), why); err != nil {
			return nil, err
		}
	}
	if c.HostConfig != nil {
		if c.HostConfig.ReadonlyRootfs {
			root.err = &ReadOnlyError{}
		}
		for destination := range c.HostConfig.Tmpfs {
			if err := add(destination, "tmpfs", "which is empty when the container starts"); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(p.all, func(a, b place) int { return len(b.root) - len(a.root) })
	p.all = append(p.all, root)
	return p, nil
}

// mounts tells whether there is anything besides the root.
func (p *places) mounts() bool { return len(p.all) > 1 }

// find returns the place a real path lies in.
func (p *places) find(real string) (string, error) {
	for _, at := range p.all {
		if at.root != "/" && real != at.root && !strings.HasPrefix(real, at.root+"/") {
			continue
		}
		switch e := at.err.(type) {
		case *MountError:
			return "", &MountError{Path: real, Destination: e.Destination, Type: e.Type, Why: e.Why}
		case *ReadOnlyError:
			return "", &ReadOnlyError{NeedsVolume: path.Dir(real) == BundleDir}
		}
		if at.root == real {
			// A volume is a directory; a file that is a mount of its own cannot be replaced.
			return "", &MountError{Path: real, Destination: real, Type: "volume", Why: "which is no file"}
		}
		return at.root, nil
	}
	return "/", nil
}
