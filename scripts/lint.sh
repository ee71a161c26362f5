#!/bin/sh
# gofmt, vet and staticcheck; the import rules are ordinary tests.
set -eu
cd "$(dirname "$0")/.."
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	printf 'lint: not formatted (gofmt -w would mend it):\n%s\n' "$unformatted" >&2
	exit 1
fi
go vet ./...
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
echo "lint: clean"
