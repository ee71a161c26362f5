package e2e

import "testing"

func corpusCases(t *testing.T) []buildCase { return nil }
