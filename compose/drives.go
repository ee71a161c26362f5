package compose

import (
	"regexp"

	"github.com/compose-spec/compose-go/v2/types"
)

// drive is how Compose takes a path for one of Windows: a letter and a colon, as in
// the short form of a volume whose name is one letter.
var drive = regexp.MustCompile(`^([A-Za-z]):[/\\]`)

// drives reports mounts that Compose reads as paths of Windows, which engines of
// other systems refuse only when the container is created.
func (c *checker) drives() {
	for _, name := range c.project.ServiceNames() {
		for _, v := range c.project.Services[name].Volumes {
			path := v.Target
			if v.Type == types.VolumeTypeBind && drive.MatchString(v.Source) {
				path = v.Source
			}
			m := drive.FindStringSubmatch(path)
			if m == nil {
				continue
			}
			p := c.problems.errorf(c.written().volume(name, v), "service %q mounts %q, which Compose reads as a path of Windows", name, path)
			if _, declared := c.project.Volumes[m[1]]; declared && path == v.Target {
				p.hint("the short form cannot name the volume %q; write {type: volume, source: %s, target: %s}", m[1], m[1], path[2:])
			} else {
				p.hint("write a path of the engine's host")
			}
		}
	}
}
