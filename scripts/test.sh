#!/bin/sh
# Sets up, lints and runs every test, those on the real Docker engine included. Arguments are passed on to `go test`.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh test
scripts/lint.sh
export CTIS_E2E=1
go -C e2e/sdk test -count=1 ./... # a module of its own: the client libraries of APIs
exec go test -race -count=1 -timeout 30m "$@" ./...
