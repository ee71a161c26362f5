package imagehash

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"
)

// Each hands over the Dockerfile and then every other input with its bytes, nil
// for links. Whatever is not exactly as it was hashed is a *[ChangedInputError],
// found at the latest after yield has read the bytes: what it made of them is
// then worthless.
func (s *Sum) Each(yield func(in Input, content io.Reader) error) error {
	for _, want := range s.All() {
		if err := s.one(want, yield); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sum) one(want Input, yield func(Input, io.Reader) error) error {
	if want.Path == s.Dockerfile.Path {
		// These are the bytes that were scanned, whatever the file says now.
		return yield(want, bytes.NewReader(s.in.dockerfile))
	}
	fi, err := fs.Lstat(s.in.fsys, want.Path)
	if err != nil {
		return changed(want.Path, err)
	}
	if want.Kind == KindLink {
		target, err := fs.ReadLink(s.in.fsys, want.Path)
		if err != nil || target != want.Target {
			return &ChangedInputError{Path: want.Path, Err: err}
		}
		return yield(want, nil)
	}
	if !fi.Mode().IsRegular() || executable(fi) != want.Exec || fi.Size() != want.Size {
		return &ChangedInputError{Path: want.Path}
	}
	f, err := openInput(s.in.fsys, want.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	// One byte more than hashed is enough to see growth.
	r := io.TeeReader(io.LimitReader(f, want.Size+1), h)
	if err := yield(want, io.LimitReader(r, want.Size)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("read build input %q: %w", want.Path, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != want.Digest {
		return &ChangedInputError{Path: want.Path}
	}
	return nil
}

// WriteTar writes a build context of exactly what was hashed, with an ignore file
// that hides the Dockerfile where the image must not get it. Owners, times and
// modes are the same on every machine. After an error the stream is unfinished on
// purpose, so that no builder takes it for whole.
//
// The classic builder takes the stream as it is. BuildKit reads ignore files in
// directories alone, so unpack it for that, and with new times: BuildKit takes a
// file for the one it got from a directory of that name before if size and time
// are the same.
func (s *Sum) WriteTar(w io.Writer) error {
	tw := tar.NewWriter(w)
	dirs := map[string]bool{".": true}
	if err := s.writeIgnore(tw, dirs); err != nil {
		return err
	}
	err := s.Each(func(in Input, content io.Reader) error {
		if err := writeDirs(tw, path.Dir(in.Path), dirs); err != nil {
			return err
		}
		hdr := &tar.Header{Name: in.Path, Mode: 0o644, Size: in.Size, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
		if in.Exec {
			hdr.Mode = 0o755
		}
		if in.Kind == KindLink {
			hdr.Typeflag, hdr.Linkname, hdr.Mode = tar.TypeSymlink, in.Target, 0o777
			return tw.WriteHeader(hdr)
		}
		if err := tw.WriteHeader(hdr); err != nil {
			return err
		}
		n, err := io.Copy(tw, content)
		if err == nil && n != in.Size {
			return &ChangedInputError{Path: in.Path}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range s.in.dirs {
		if err := writeDirs(tw, dir, dirs); err != nil {
			return err
		}
	}
	return tw.Close()
}

// writeIgnore keeps out of the image what is in the context for the builder alone.
func (s *Sum) writeIgnore(tw *tar.Writer, dirs map[string]bool) error {
	f := s.in.ignoreFile
	if f == nil {
		return nil
	}
	if err := writeDirs(tw, path.Dir(f.path), dirs); err != nil {
		return err
	}
	hdr := &tar.Header{Name: f.path, Mode: 0o644, Size: int64(len(f.data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
	if err := tw.WriteHeader(hdr); err != nil {
		return err
	}
	_, err := tw.Write(f.data)
	return err
}

func writeDirs(tw *tar.Writer, dir string, done map[string]bool) error {
	if done[dir] {
		return nil
	}
	if err := writeDirs(tw, path.Dir(dir), done); err != nil {
		return err
	}
	done[dir] = true
	return tw.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o755, Typeflag: tar.TypeDir, ModTime: time.Unix(0, 0)})
}
