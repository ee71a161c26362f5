package assets

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// maxHops bounds symbolic links in one path, as the kernel does.
const maxHops = 40

// follow passes on each symbolic link that leads to a file of the tree as a file of
// its own: what is behind a name is served under it, and no link is. One that leads
// anywhere else is refused: out of the tree is what nobody meant to serve.
func (t *tree) follow(dir string, to sink) error {
	found := map[string]api.Asset{}
	for _, name := range slices.Sorted(maps.Keys(t.links)) {
		of, why := t.resolve(name, dir)
		if why != "" {
			t.refuse(name, why)
			continue
		}
		found[name] = of
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		a := t.links[name].asset
		// As a server that follows links says it: time and mode are the file's.
		a.Mode, a.Modified = found[name].Mode, found[name].Modified
		if err := t.addLink(a, found[name], to); err != nil {
			return err
		}
	}
	return nil
}

// resolve finds the file a link leads to, or says why it is none.
func (t *tree) resolve(name, dir string) (file api.Asset, why string) {
	leads := "is a link to \"" + t.links[name].target + "\", which "
	at, rest, hops := path.Dir(name), []string(nil), 0
	if at == "." {
		at = ""
	}
	// step puts a link's target in front of what is left of the path.
	step := func(target string) bool {
		if path.IsAbs(target) {
			below, inside := strings.CutPrefix(path.Clean(target)+"/", strings.TrimSuffix(dir, "/")+"/")
			if !inside {
				return false
			}
			at, target = "", below
		}
		rest = append(strings.FieldsFunc(target, func(r rune) bool { return r == '/' }), rest...)
		return true
	}
	if !step(t.links[name].target) {
		return file, leads + "is outside of the directory"
	}
	for len(rest) > 0 {
		next := rest[0]
		rest = rest[1:]
		switch {
		case next == ".":
			continue
		case next == ".." && at == "":
			return file, leads + "is outside of the directory"
		case next == "..":
			if at = path.Dir(at); at == "." {
				at = ""
			}
			continue
		}
		at = path.Join(at, next)
		if l, ok := t.links[at]; ok {
			if hops++; hops > maxHops {
				return file, leads + "leads in a circle"
			}
			if at = path.Dir(at); at == "." {
				at = ""
			}
			if !step(l.target) {
				return file, leads + "is outside of the directory"
			}
			continue
		}
		if !t.dirs[at] && len(rest) > 0 {
			return file, leads + "is not there"
		}
	}
	if t.dirs[at] {
		return file, leads + "is a directory; only links to files are followed"
	}
	file, ok := t.files[at]
	if !ok {
		return file, leads + "is not there"
	}
	return file, ""
}
