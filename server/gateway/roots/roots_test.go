package roots

import (
	"slices"
	"testing"
	"time"
)

func TestRootsAreTheWellKnownOnes(t *testing.T) {
	list, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 80 {
		t.Errorf("only %d roots", len(list))
	}
	var names []string
	for _, c := range list {
		names = append(names, c.Subject.CommonName)
		if !c.IsCA {
			t.Errorf("%s is no authority", c.Subject)
		}
		if c.NotAfter.Before(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s has expired when the list was made; scripts/roots.sh renews it", c.Subject)
		}
	}
	// Those that the built-in providers' certificates lead to, and one that is
	// trusted for older certificates only.
	for name, want := range map[string]bool{"ISRG Root X1": true, "GTS Root R1": true, "GTS Root R4": true, "Amazon Root CA 1": true, "DigiCert Global Root G2": true, "Izenpe.com": false} {
		if slices.Contains(names, name) != want {
			t.Errorf("%q is in the list: %v, want %v", name, !want, want)
		}
	}
}

func TestFurtherAuthoritiesMustBeSome(t *testing.T) {
	if _, err := Pool("no certificate"); err == nil {
		t.Error("text was taken for an authority")
	}
	if _, err := Pool(""); err != nil {
		t.Error(err)
	}
}
