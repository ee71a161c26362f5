package trust

import (
	"archive/tar"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/containerd/errdefs"
)

// xattrCapability is how the engine's archives carry a file's capabilities.
const xattrCapability = "SCHILY.xattr.security.capability"

// deaf looks for programs to whom no variable says what to trust: the kernel marks
// a program that was started with more rights than its starter's, and OpenSSL, Node
// and the C library then heed none. What they trust has to be in files.
func (v *viewer) deaf(ctx context.Context) error {
	for _, name := range []string{"node", "python3", "curl", "java"} {
		found, err := v.programs(ctx, name)
		if err != nil {
			return err
		}
		for _, dir := range slices.Sorted(maps.Keys(found)) {
			why, err := v.privileged(ctx, found[dir])
			if err != nil {
				return err
			}
			if why == "" {
				continue
			}
			text := fmt.Sprintf("%s is %s and heeds no variable", path.Join(dir, name), why)
			if name == "node" {
				text += "; without NODE_EXTRA_CA_CERTS it trusts what it was built with"
			}
			v.in.Ignores = append(v.in.Ignores, text)
		}
	}
	return nil
}

// privileged says what gives a program more rights than its starter has; "" if
// nothing does. Of the file no more than its header is read.
func (v *viewer) privileged(ctx context.Context, p string) (string, error) {
	stream, s, err := v.files.eng.CopyFromContainer(ctx, v.files.id, p)
	if errdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer stream.Close() // cuts the rest off
	switch {
	case s.Mode&os.ModeSetuid != 0:
		return "setuid", nil
	case s.Mode&os.ModeSetgid != 0:
		return "setgid", nil
	}
	h, err := tar.NewReader(stream).Next()
	if err != nil {
		return "", nil // what is no file runs nothing
	}
	if h.PAXRecords[xattrCapability] != "" {
		return "given capabilities (setcap)", nil
	}
	return "", nil
}
