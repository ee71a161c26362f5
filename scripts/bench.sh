#!/bin/sh
# Measures ctis against other programs on the same work. Arguments are passed on: hash, serve, flood, stream, up; -n RUNS.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh
exec go run ./bench "$@"
