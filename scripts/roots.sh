#!/bin/sh
# Renews server/gateway/roots/mozilla.der: the roots that Mozilla trusts for servers, as the Go project publishes them in
# golang.org/x/crypto/x509roots/fallback. Roots that are trusted under a condition are left out.
#
#   scripts/roots.sh [VERSION]   default: latest
set -eu
out="$(cd "$(dirname "$0")/.." && pwd)/server/gateway/roots/mozilla.der"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >main.go <<'GO'
package main

import (
	"log"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	var all []byte
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			all = append(all, r.Certificate...)
		}
	}
	if err := os.WriteFile(os.Args[1], all, 0o644); err != nil {
		log.Fatal(err)
	}
}
GO
go mod init roots >/dev/null 2>&1
go get "golang.org/x/crypto/x509roots/fallback@${1:-latest}" 2>&1 | sed 's/^/roots: /' >&2
go run . "$out"
sha256sum "$out"
