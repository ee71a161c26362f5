package trust

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// inspectTime bounds how long one container is looked at: what runs in it may have
// made its files such that reading them takes for ever.
const inspectTime = 60 * time.Second

// Store is one place where programs of a container look for authorities.
type Store struct {
	Kind      StoreKind `json:"kind"`
	Path      string    `json:"path"`
	Variables []string  `json:"variables"` // that name it; sorted
	Holds     bool      `json:"holds"`     // the simulator's CA is in it
	Roots     int       `json:"roots"`     // others that are in it and can be seen
	Missing   int       `json:"missing"`   // of the system's that are not, where it stands for those
	Problem   string    `json:"problem"`   // why it cannot be read; "" if it can
}

// StoreKind is what a store is.
type StoreKind string

// The kinds of stores.
const (
	KindBundle    StoreKind = "bundle"    // certificates in PEM, one after another
	KindDirectory StoreKind = "directory" // of certificates, by hashes of their subjects
	KindKeystore  StoreKind = "keystore"  // Java's
)

// OK tells whether a program that goes by the store trusts the simulator, and what
// the system trusts otherwise.
func (s Store) OK() bool { return s.Holds && s.Missing == 0 && s.Problem == "" }

// Inspection is what a container trusts.
type Inspection struct {
	Service   string   `json:"service"`
	Container string   `json:"container"`
	Stores    []Store  `json:"stores"`
	Unset     []string `json:"unset"`   // variables of [Env] that the container does not have
	Ignores   []string `json:"ignores"` // programs that heed no such variable, and why
	Problem   string   `json:"problem"` // why it could not be looked at to the end
}

// OK tells whether all that was found is as it should be. Programs that ignore
// variables are no fault of the stores.
func (i Inspection) OK() bool {
	return i.Problem == "" && len(i.Unset) == 0 && len(i.Stores) > 0 && !slices.ContainsFunc(i.Stores, func(s Store) bool { return !s.OK() })
}

// Inspect looks from outside at what containers trust, whatever state they are in.
// It runs nothing in them and changes nothing. What a container made unreadable is
// its Problem, not an error.
func Inspect(ctx context.Context, eng Engine, o Options) ([]Inspection, error) {
	ca, err := parseAuthority(o.CA)
	if err != nil {
		return nil, err
	}
	all := make([]Inspection, 0, len(o.Containers))
	for _, c := range o.Containers {
		in := Inspection{Service: c.Service, Container: c.ID, Stores: []Store{}, Unset: []string{}, Ignores: []string{}}
		limited, cancel := context.WithTimeout(ctx, inspectTime)
		err := inspect(limited, eng, ca, c.ID, &in)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			in.Problem = err.Error()
		}
		all = append(all, in)
	}
	return all, nil
}

func inspect(ctx context.Context, eng Engine, ca *authority, id string, in *Inspection) error {
	info, err := eng.ContainerInspect(ctx, id)
	if err != nil {
		return err
	}
	v := &viewer{planner: &planner{ca: ca, files: newFiles(eng, id), report: &Report{}, seen: map[string]bool{}}, in: in, roots: map[[32]byte]bool{}}
	// What the container's programs get is all that counts; what the image sets is
	// among it, or hidden.
	v.env = bundleEnv{vars: map[string]string{}, set: map[string]string{}}
	v.env.ofContainer(info)
	return v.view(ctx)
}

// viewer looks at the stores a planner finds.
type viewer struct {
	*planner
	in    *Inspection
	roots map[[32]byte]bool // of the system's bundles
}

func (v *viewer) view(ctx context.Context) error {
	for _, b := range systemBundles {
		if err := v.bundle(ctx, b, true); err != nil {
			return err
		}
	}
	named := map[string][]string{}
	for name, want := range Env() {
		switch value, set := v.env.vars[name]; {
		case !set:
			v.in.Unset = append(v.in.Unset, name)
		case want == Bundle && value != "":
			named[value] = append(named[value], name)
		}
	}
	slices.Sort(v.in.Unset)
	for _, p := range slices.Sorted(maps.Keys(named)) {
		slices.Sort(named[p])
		if err := v.named(ctx, p, named[p]); err != nil {
			return err
		}
	}
	bundles, err := v.pythonBundles(ctx)
	if err != nil {
		return err
	}
	for _, b := range bundles {
		if err := v.ifThere(ctx, b, func() error { return v.bundle(ctx, b, false) }); err != nil {
			return err
		}
	}
	stores, err := v.javaStores(ctx)
	if err != nil {
		return err
	}
	for _, s := range stores {
		if err := v.ifThere(ctx, s, func() error { return v.keystore(ctx, s) }); err != nil {
			return err
		}
	}
	for _, dir := range hashedDirs {
		if err := v.directory(ctx, dir); err != nil {
			return err
		}
	}
	return v.deaf(ctx)
}

// add notes a store once, under its real path. The engine's failures end the look.
func (v *viewer) add(s Store, err error) error {
	if err != nil {
		if onlyEngine(err) != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		s.Problem = err.Error()
	}
	if s.Variables == nil {
		s.Variables = []string{}
	}
	v.in.Stores = append(v.in.Stores, s)
	return nil
}

func (v *viewer) ifThere(ctx context.Context, name string, look func() error) error {
	there, err := v.files.there(ctx, name)
	if err != nil || !there {
		return onlyEngine(err)
	}
	return look()
}

// first reads the file that a store's path leads to, which then is its path; nil
// where there is none, or it has been read under another name.
func (v *viewer) first(ctx context.Context, s *Store) (*entry, error) {
	real, e, err := v.files.resolve(ctx, s.Path)
	if err != nil || e == nil || v.seen[real] {
		return nil, err
	}
	v.seen[real] = true
	s.Path = real
	return v.files.read(ctx, real)
}

// bundle looks at one file of certificates that need not be there.
func (v *viewer) bundle(ctx context.Context, name string, system bool) error {
	s := Store{Kind: KindBundle, Path: name}
	content, err := v.first(ctx, &s)
	if err != nil {
		return v.add(s, err)
	}
	if content == nil {
		return nil
	}
	s.Holds, s.Roots = v.count(content.data, func(sum [32]byte) {
		if system {
			v.roots[sum] = true
		}
	})
	return v.add(s, nil)
}

// named looks at a file that variables lead to. It stands for the system's, so it
// should hold all that those hold; it may be one of them.
func (v *viewer) named(ctx context.Context, name string, variables []string) error {
	s := Store{Kind: KindBundle, Path: name, Variables: variables}
	real, e, err := v.files.resolve(ctx, path.Clean("/"+name))
	if err == nil && e != nil && v.seen[real] {
		for i := range v.in.Stores {
			if v.in.Stores[i].Path == real {
				v.in.Stores[i].Variables = append(v.in.Stores[i].Variables, variables...)
				return nil
			}
		}
	}
	if err == nil && e == nil {
		err = &FileError{Path: name, Why: "does not exist"}
	}
	if err == nil {
		v.seen[real] = true
		e, err = v.files.read(ctx, real)
	}
	if err != nil {
		return v.add(s, err)
	}
	has := map[[32]byte]bool{}
	s.Holds, s.Roots = v.count(e.data, func(sum [32]byte) { has[sum] = true })
	for sum := range v.roots {
		if !has[sum] && !onlyAdd(variables) {
			s.Missing++
		}
	}
	return v.add(s, nil)
}

// onlyAdd tells whether all who read a file keep their own roots besides.
func onlyAdd(variables []string) bool {
	return !slices.ContainsFunc(variables, func(name string) bool { return name != "NODE_EXTRA_CA_CERTS" && name != "DENO_CERT" })
}

// count says whether PEM text holds the CA, and how many others.
func (v *viewer) count(text []byte, each func([32]byte)) (holds bool, roots int) {
	seen := map[[32]byte]bool{}
	own := sha256.Sum256(v.ca.der)
	for _, der := range certificates(text) {
		switch sum := sha256.Sum256(der); {
		case sum == own:
			holds = true
		case !seen[sum]:
			seen[sum] = true
			roots++
			each(sum)
		}
	}
	return holds, roots
}

func (v *viewer) keystore(ctx context.Context, name string) error {
	s := Store{Kind: KindKeystore, Path: name}
	content, err := v.first(ctx, &s)
	if err != nil {
		return v.add(s, err)
	}
	if content == nil {
		return nil
	}
	store, err := parseKeystore(content.data)
	if err != nil {
		return v.add(s, &FileError{Path: s.Path, Why: err.Error()})
	}
	s.Holds, s.Roots = store.holds(v.ca.der), store.roots()
	if s.Holds {
		s.Roots--
	}
	return v.add(s, nil)
}

// directory looks at one that OpenSSL goes through by hash.
func (v *viewer) directory(ctx context.Context, name string) error {
	real, e, err := v.files.resolve(ctx, name)
	if err != nil {
		return v.add(Store{Kind: KindDirectory, Path: name}, err)
	}
	if e == nil || !e.isDir() || v.seen[real] {
		return nil
	}
	v.seen[real] = true
	s := Store{Kind: KindDirectory, Path: real}
	for entry := range v.files.entries {
		base := path.Base(entry)
		if path.Dir(entry) != real || !slotName.MatchString(base) {
			continue
		}
		if strings.HasPrefix(base, v.ca.hash) || strings.HasPrefix(base, v.ca.old) {
			has, _, err := v.look(ctx, entry)
			if err != nil {
				return v.add(s, err)
			}
			if s.Holds = s.Holds || has; has {
				continue
			}
		}
		s.Roots++
	}
	return v.add(s, nil)
}
