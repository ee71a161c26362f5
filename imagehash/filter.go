package imagehash

import "fmt"

// filter is what --parents and --exclude make of a source directory.
type filter struct {
	include, exclude *matcher
}

func newFilter(include string, exclude []string) (*filter, error) {
	f := &filter{}
	var err error
	if include != "" && include != "." {
		if f.include, err = newMatcher([]string{include}); err != nil {
			return nil, fmt.Errorf("source %q is no valid pattern: %w", include, err)
		}
	}
	if len(exclude) > 0 {
		if f.exclude, err = newMatcher(exclude); err != nil {
			return nil, fmt.Errorf("--exclude has no valid pattern: %w", err)
		}
	}
	return f, nil
}

// verdict is what a filter says of a path.
type verdict int

const (
	inside  verdict = iota
	outside         // not what --parents names
	dropped         // named by --exclude
)

func (f *filter) judge(rel string) (verdict, error) {
	if f.include != nil {
		if ok, err := f.include.match(rel); err != nil || !ok {
			return outside, err
		}
	}
	if f.exclude != nil {
		if ok, err := f.exclude.match(rel); err != nil || ok {
			return dropped, err
		}
	}
	return inside, nil
}
