package trust

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// hashedDirs are where OpenSSL looks a root up by the hash of its subject.
var hashedDirs = [...]string{
	"/etc/ssl/certs",     // Debian, Alpine, Arch; SUSE, whose link it is
	"/etc/pki/tls/certs", // Red Hat
	"/etc/pki/ca-trust/extracted/pem/directory-hash", // Red Hat from 10 on
}

// maxSlots bounds how many certificates of one hash are looked through.
const maxSlots = 64

// hashed adds the CA to a directory that OpenSSL looks roots up in, as
// update-ca-certificates does: NAME.pem with the certificate, or leading to it,
// and HASH.N leading to that, with the first N that is free.
func (p *planner) hashed(ctx context.Context, dir, anchor string, create bool) error {
	real, e, err := p.files.resolve(ctx, dir)
	if err != nil {
		return p.refuse(dir, err)
	}
	if (e == nil && !create) || (e != nil && !e.isDir()) || p.seen[real] {
		return nil
	}
	p.seen[real] = true
	name, err := p.freeName(ctx, real)
	if err != nil {
		return p.refuse("certificate in "+dir, err)
	}
	w := write{path: path.Join(real, name), data: p.ca.pem, header: p.file()}
	if anchor != "" {
		w = write{path: w.path, header: p.link(anchor)}
	}
	slots := []string{p.ca.hash}
	if p.oldHashes(real) {
		slots = append(slots, p.ca.old)
	}
	written := false
	for _, hash := range slots {
		slot, err := p.freeSlot(ctx, real, hash)
		if err != nil {
			return p.refuse("certificate in "+dir, err)
		}
		if slot == "" {
			continue // it is in one
		}
		if !written && !p.put("certificate in "+dir, w, nil) {
			return nil
		}
		written = true
		p.put("certificate in "+dir, write{path: slot, header: p.link(name)}, nil)
	}
	return nil
}

// freeSlot is the first name HASH.N that nothing has, or "" where one leads to the
// CA already.
func (p *planner) freeSlot(ctx context.Context, dir, hash string) (string, error) {
	for n := range maxSlots {
		slot := path.Join(dir, fmt.Sprintf("%s.%d", hash, n))
		has, free, err := p.look(ctx, slot)
		if err != nil || has {
			return "", err
		}
		if free {
			return slot, nil
		}
	}
	return "", &FileError{Path: dir, Why: "has too many certificates of this subject"}
}

// slotName is a name that a certificate is looked up by.
var slotName = regexp.MustCompile(`^[0-9a-f]{8}\.\d+$`)

// oldHashes tells whether a directory has its certificates under the old hash of
// their subject as well, as Red Hat's tool makes it: then two hashes lead to one
// file. The names say so; the files may be far from here.
func (p *planner) oldHashes(dir string) bool {
	hashes := map[string]string{} // file → the first that leads to it
	for name, e := range p.files.entries {
		base := path.Base(name)
		if e == nil || !e.isLink() || path.Dir(name) != dir || !slotName.MatchString(base) {
			continue
		}
		to := path.Join(dir, e.header.Linkname)
		if first, ok := hashes[to]; ok && first != base[:8] {
			return true
		}
		hashes[to] = base[:8]
	}
	return false
}

// freeName picks the certificate's name in a hashed directory. Alpine's tool
// puts ca-cert- in front.
func (p *planner) freeName(ctx context.Context, dir string) (string, error) {
	prefix := ""
	for name := range p.files.entries {
		if path.Dir(name) == dir && strings.HasPrefix(path.Base(name), "ca-cert-") {
			prefix = "ca-cert-"
			break
		}
	}
	for _, name := range []string{prefix + p.ca.name + ".pem", prefix + p.ca.name + "_" + p.ca.hash + ".pem"} {
		has, free, err := p.look(ctx, path.Join(dir, name))
		if err != nil || has || free {
			return name, err
		}
	}
	return "", &FileError{Path: path.Join(dir, p.ca.name+".pem"), Why: "is another certificate"}
}

// look tells whether a path leads to the CA, or nothing at all is there.
func (p *planner) look(ctx context.Context, name string) (has, free bool, err error) {
	e, err := p.files.lstat(ctx, name)
	if err != nil || e == nil {
		return false, err == nil, err
	}
	real, e, err := p.files.resolve(ctx, name)
	if err != nil || e == nil {
		return false, false, onlyEngine(err) // a dead link, or one in circles, takes the place
	}
	e, err = p.files.read(ctx, real)
	if err != nil {
		return false, false, onlyEngine(err)
	}
	return p.ca.holds(e.data), false, nil
}
