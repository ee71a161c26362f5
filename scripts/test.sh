#!/bin/sh
# Sets up, lints and runs every test, those on the real Docker engine included. Arguments are passed on to `go test`.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh test
scripts/lint.sh
export CTIS_E2E=1
exec go test -race -count=1 -timeout 30m "$@" ./...
