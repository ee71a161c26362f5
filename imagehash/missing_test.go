package imagehash

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestEveryMissingSourceIsTold(t *testing.T) {
	fsys := fstest.MapFS{"Dockerfile": {Data: []byte("FROM scratch\nCOPY gone /a\nCOPY Dockerfile lost /b/\nCOPY *.none /c/\n")}}
	_, err := Read(t.Context(), fsys, Options{Dockerfile: "Dockerfile"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`Dockerfile:2: source "gone"`, `Dockerfile:3: source "lost"`, `Dockerfile:4: source "*.none"`} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("%q does not say %q once", err, want)
		}
	}
}
