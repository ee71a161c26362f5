package trust

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// hashedDirs are where OpenSSL looks a root up by the hash of its subject.
var hashedDirs = [...]string{"/etc/ssl/certs", "/etc/pki/tls/certs"}

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
	for n := range maxSlots {
		slot := path.Join(real, fmt.Sprintf("%s.%d", p.ca.hash, n))
		has, free, err := p.look(ctx, slot)
		if err != nil {
			return p.refuse("certificate in "+dir, err)
		}
		if has {
			return nil
		}
		if !free {
			continue
		}
		if p.put("certificate in "+dir, w, nil) {
			p.put("certificate in "+dir, write{path: slot, header: p.link(name)}, nil)
		}
		return nil
	}
	return p.refuse("certificate in "+dir, &FileError{Path: dir, Why: "has too many certificates of this subject"})
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
