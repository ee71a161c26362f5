package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/linuxarena/ctis/"

// allowed are the packages outside the standard library that the image may
// contain, with the reason.
var allowed = map[string]string{
	module + "server":          "what faces agents, and everything below it",
	module + "templates/pages": "the pages personas show are embedded in the server",
}

// forbidden are packages of the standard library that are no part of a program.
var forbidden = map[string]string{
	"testing":           "belongs in tests",
	"net/http/httptest": "its recorder does not behave like a connection",
	"net/http/pprof":    "registers handlers nobody asked for",
	"expvar":            "registers handlers nobody asked for",
	"plugin":            "loads code that no hash covers",
}

type dependency struct {
	ImportPath string
	Standard   bool
}

func TestImageContainsTheStandardLibraryAndItsOwnPackagesOnly(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard", "./cmd/ctis-server")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	used := map[string]bool{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p dependency
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if why, bad := forbidden[p.ImportPath]; bad {
			t.Errorf("%s is linked into the image: it %s", p.ImportPath, why)
		}
		if p.Standard || strings.HasPrefix(p.ImportPath, "vendor/") {
			continue
		}
		ok := false
		for prefix := range allowed {
			if p.ImportPath == prefix || strings.HasPrefix(p.ImportPath, prefix+"/") {
				ok, used[prefix] = true, true
			}
		}
		if !ok {
			t.Errorf("%s is linked into the image; the allow-list in this file has a reason for each package", p.ImportPath)
		}
	}
	for prefix := range allowed {
		if !used[prefix] {
			t.Errorf("%s is on the allow-list and not used", prefix)
		}
	}
}
