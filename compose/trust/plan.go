package trust

import (
	"archive/tar"
	"context"
	"errors"
	"path"
	"time"
)

// systemBundles are the files in which systems keep all roots, most common
// first. Several can be one file under different names.
var systemBundles = [...]string{
	debianBundle,                       // Debian, Alpine, Arch, distroless
	"/etc/pki/tls/certs/ca-bundle.crt", // Red Hat
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Red Hat, where the one above leads
	"/etc/pki/tls/cert.pem",                             // Red Hat, before 10: OpenSSL's default there
	"/etc/ca-certificates/extracted/tls-ca-bundle.pem",  // Arch, where the first leads
	"/etc/ssl/ca-bundle.pem",                            // SUSE
	"/etc/ssl/cert.pem",                                 // Alpine, BSD; OpenSSL's own default
}

const (
	debianBundle  = "/etc/ssl/certs/ca-certificates.crt"
	debianAnchors = "/usr/local/share/ca-certificates" // read by update-ca-certificates; names end in .crt
)

// anchorDirs are where other systems' tools look for added roots when they make
// the bundles anew.
var anchorDirs = [...]string{
	"/etc/pki/ca-trust/source/anchors",          // Red Hat
	"/etc/pki/trust/anchors",                    // SUSE
	"/etc/ca-certificates/trust-source/anchors", // Arch
}

// planner finds out what one container needs and collects the writes.
type planner struct {
	ca     *authority
	files  *files
	places *places
	env    bundleEnv
	report *Report
	seen   map[string]bool              // real paths of bundles that were dealt with
	found  map[string]map[string]string // what [planner.programs] found, by program
	writes []*batch
	roots  [][]byte // bundles as they were
	mtime  time.Time
	sealed []string // directories on a read-only root that were to be written into
	failed error    // of the engine, met where only yes or no is returned
}

func (p *planner) plan(ctx context.Context) error {
	p.mtime = p.ca.from
	for _, b := range systemBundles {
		if err := p.bundle(ctx, b, ""); err != nil {
			return err
		}
	}
	// An image without any bundle is treated as Debian's: that is where programs
	// look first, and what a package installed later goes on from.
	bare := len(p.seen) == 0
	for _, b := range p.env.paths() {
		if err := p.bundle(ctx, b, p.env.set[b]); err != nil {
			return err
		}
	}
	bundles, err := p.pythonBundles(ctx)
	if err != nil {
		return err
	}
	for _, b := range bundles {
		if err := p.program(ctx, b, func() error { return p.bundle(ctx, b, "") }); err != nil {
			return err
		}
	}
	combined, roots := p.ca.combined(p.roots)
	if bare {
		real, _, err := p.files.resolve(ctx, debianBundle)
		if err == nil {
			p.put("system bundle", write{path: real, data: combined, header: p.file()}, &p.report.Bundles)
		} else if err = p.refuse("system bundle", err); err != nil {
			return err
		}
	}
	anchor := ""
	if bare || p.seen[debianBundle] {
		anchor = path.Join(debianAnchors, p.ca.name+".crt")
		if at, ok := p.target(ctx, debianAnchors); !ok || !p.put("certificate for update-ca-certificates",
			write{path: path.Join(at, p.ca.name+".crt"), data: p.ca.pem, header: p.file()}, nil) {
			anchor = ""
		}
	} else if err := p.anchors(ctx); err != nil {
		return err
	}
	for _, dir := range hashedDirs {
		if err := p.hashed(ctx, dir, anchor, bare && dir == hashedDirs[0]); err != nil {
			return err
		}
	}
	stores, err := p.javaStores(ctx)
	if err != nil {
		return err
	}
	for _, s := range stores {
		if err := p.program(ctx, s, func() error { return p.keystore(ctx, s) }); err != nil {
			return err
		}
	}
	if at, ok := p.target(ctx, BundleDir); ok && p.put("bundle "+Bundle,
		write{path: path.Join(at, path.Base(Bundle)), data: combined, header: p.file()}, nil) {
		p.report.Bundle, p.report.Roots = Bundle, roots
	}
	return p.failed
}

// target is the real path of a directory outside the trees, for writing. Only
// mounts make it matter: without them the engine follows links by itself, inside
// the container's root, and asking would cost a call for every step.
func (p *planner) target(ctx context.Context, dir string) (string, bool) {
	if !p.places.mounts() {
		return dir, true
	}
	real, _, err := p.files.resolve(ctx, dir)
	if err != nil {
		p.failed = errors.Join(p.failed, p.refuse(dir, err))
		return "", false
	}
	return real, true
}

// bundle adds the CA to one file of roots, unless it is missing, has the CA, or
// was dealt with under another name.
func (p *planner) bundle(ctx context.Context, name, variable string) error {
	what := name
	if variable != "" {
		what = variable + "=" + name
	}
	real, e, err := p.files.resolve(ctx, name)
	if err != nil {
		return p.refuse(what, err)
	}
	if e == nil || p.seen[real] {
		return nil
	}
	if e, err = p.files.read(ctx, real); err != nil {
		return p.refuse(what, err)
	}
	p.seen[real] = true
	p.roots = append(p.roots, e.data)
	if e.header.ModTime.After(p.mtime) {
		p.mtime = e.header.ModTime
	}
	if p.ca.holds(e.data) {
		p.report.Bundles = append(p.report.Bundles, real)
		return nil
	}
	p.put(what, write{path: real, data: p.ca.appended(e.data), header: e.header}, &p.report.Bundles)
	return nil
}

// program deals with a file that a program brought, if it is there.
func (p *planner) program(ctx context.Context, name string, with func() error) error {
	there, err := p.files.there(ctx, name)
	if err != nil {
		return p.refuse(name, err)
	}
	if !there {
		return nil
	}
	return with()
}

// keystore adds the CA to one of Java's, as bundle does to a file of PEM.
func (p *planner) keystore(ctx context.Context, name string) error {
	real, e, err := p.files.resolve(ctx, name)
	if err != nil {
		return p.refuse(name, err)
	}
	if e == nil || p.seen[real] {
		return nil
	}
	p.seen[real] = true
	if e, err = p.files.read(ctx, real); err != nil {
		return p.refuse(name, err)
	}
	store, err := parseKeystore(e.data)
	if err != nil {
		return p.refuse(name, &FileError{Path: real, Why: err.Error()})
	}
	if store.holds(p.ca.der) {
		p.report.Keystores = append(p.report.Keystores, real)
		return nil
	}
	data, err := store.with(p.ca.der, p.ca.alias(), p.mtime)
	if err != nil {
		return err
	}
	p.put(name, write{path: real, data: data, header: e.header}, &p.report.Keystores)
	return nil
}

// anchors keeps the CA when the system's tool makes the bundles anew.
func (p *planner) anchors(ctx context.Context) error {
	for _, dir := range anchorDirs {
		real, e, err := p.files.resolve(ctx, dir)
		if err != nil {
			return p.refuse(dir, err)
		}
		if e != nil && e.isDir() {
			p.put("certificate in "+dir, write{path: path.Join(real, p.ca.name+".pem"), data: p.ca.pem, header: p.file()}, nil)
			return nil
		}
	}
	return nil
}

// put queues a write, or reports why it cannot be done.
func (p *planner) put(what string, w write, done *[]string) bool {
	root, err := p.places.find(w.path)
	if err != nil {
		if sealed := new(*ReadOnlyError); errors.As(err, sealed) {
			p.sealed = append(p.sealed, path.Dir(w.path))
		}
		p.report.skip(what, err)
		return false
	}
	i := 0
	for i < len(p.writes) && p.writes[i].root != root {
		i++
	}
	if i == len(p.writes) {
		p.writes = append(p.writes, &batch{root: root})
	}
	p.writes[i].writes = append(p.writes[i].writes, w)
	if done != nil {
		*done = append(*done, w.path)
	}
	return true
}

func (p *planner) batches() []*batch { return p.writes }

// refuse records a file that is not as it should be and passes on everything
// else, which is the engine's failure.
func (p *planner) refuse(what string, err error) error {
	if onlyEngine(err) != nil {
		return err
	}
	p.report.skip(what, err)
	return nil
}

// onlyEngine drops errors that are about the container's own files.
func onlyEngine(err error) error {
	var file *FileError
	if errors.As(err, &file) {
		return nil
	}
	return err
}

// file is the header of a new file, link that of a new symbolic link: root's,
// readable by all, as old as the image's own bundle.
func (p *planner) file() tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, ModTime: p.mtime}
}

func (p *planner) link(to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Mode: 0o777, ModTime: p.mtime, Linkname: to}
}
