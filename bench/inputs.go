package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/linuxarena/ctis/imagehash"
)

// A context to hash: as many files of that size, in bytes.
type contextShape struct {
	name        string
	files, size int
}

var contextShapes = []contextShape{{"many", 30000, 2 << 10}, {"large", 48, 8 << 20}}

// benchInputs measures the hash of a context beside one SHA-256 per file over the
// same bytes on all processors, which is the least any such hash must do, and how
// long it takes to find the files.
func benchInputs(ctx context.Context, runs int) error {
	for _, shape := range contextShapes {
		if err := benchContext(ctx, shape, runs); err != nil {
			return err
		}
	}
	return nil
}

func benchContext(ctx context.Context, shape contextShape, runs int) (err error) {
	dir, err := os.MkdirTemp("", "ctis-bench-")
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, os.RemoveAll(dir)) }()
	paths, err := shape.write(dir)
	if err != nil {
		return err
	}
	var find, hash, bare figures
	for i := range runs + 1 {
		var inputs *imagehash.Inputs
		if err := timed(&find, func() (err error) {
			inputs, err = imagehash.Read(ctx, imagehash.Dir(dir), imagehash.Options{Dockerfile: "Dockerfile"})
			return err
		}); err != nil {
			return err
		}
		ours := func() error { return timed(&hash, func() error { _, err := inputs.Sum(ctx); return err }) }
		theirs := func() error { return timed(&bare, func() error { return sumFiles(paths) }) }
		if i%2 == 1 {
			ours, theirs = theirs, ours // neither always finds what the other left
		}
		if err := firstOf(ours(), theirs()); err != nil {
			return err
		}
	}
	find, hash, bare = find[1:], hash[1:], bare[1:] // the first brings the files into memory
	fmt.Printf("inputs %s: %d files of %d bytes\n", shape.name, shape.files, shape.size)
	fmt.Printf("       finding them        %v (goal: under 1s)\n", find)
	fmt.Printf("       hashing them        %v\n", hash)
	fmt.Printf("       one SHA-256 a file  %v\n", bare)
	fmt.Printf("       ratio               %.2f (goal: at most 1.15)\n", float64(hash.median())/float64(bare.median()))
	return nil
}

// write makes the context and lists its files.
func (s contextShape) write(dir string) (paths []string, err error) {
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM scratch\nCOPY src /\n"), 0o644); err != nil {
		return nil, err
	}
	data := make([]byte, s.size)
	for i := range s.files {
		p := filepath.Join(dir, "src", fmt.Sprintf("d%03d", i%200), fmt.Sprintf("f%d", i))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return nil, err
		}
		copy(data, p) // no two alike
		if err := os.WriteFile(p, data, 0o644); err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// sumFiles hashes each file by itself, on all processors.
func sumFiles(paths []string) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, runtime.GOMAXPROCS(0))
	for worker := range errs {
		wg.Go(func() {
			h, buf := sha256.New(), make([]byte, 256<<10)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(paths) || errs[worker] != nil {
					return
				}
				errs[worker] = func() error {
					f, err := os.Open(paths[i])
					if err != nil {
						return err
					}
					defer f.Close()
					h.Reset()
					// Without what the file could do by itself, so that the buffer is used.
					_, err = io.CopyBuffer(h, struct{ io.Reader }{f}, buf)
					h.Sum(nil)
					return err
				}()
			}
		})
	}
	wg.Wait()
	return firstOf(errs...)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
