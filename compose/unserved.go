package compose

// unserved are the keys that are read and checked, and that this version cannot
// serve. A feature that arrives deletes its line; with the last one goes the file.
var unserved = []struct {
	key   string
	where func(c *Config) [][]string // each use of it in the file
}{
	{"rules", func(c *Config) (paths [][]string) {
		for _, u := range c.Upstreams {
			if len(u.Rules) > 0 {
				paths = append(paths, below(u.path, "rules"))
			}
		}
		return paths
	}},
}

// Unserved reports each key of the environment that this version of ctis cannot
// serve yet, at its place in the file. Such an environment is valid and must
// not be set up: a host without its rules would be another world.
func (e *Environment) Unserved() Problems {
	var ps Problems
	for _, u := range unserved {
		for _, path := range u.where(e.Config) {
			ps.errorf(e.Config.index.key(path...), "this version of ctis cannot serve %s yet", keyName(path)).
				hint("use a newer ctis, or remove it")
		}
	}
	return ps.sorted(nil)
}

func onceIf(is bool, key string) [][]string {
	if !is {
		return nil
	}
	return [][]string{{key}}
}
