#!/bin/sh
# Builds bin/ctis.
set -eu
cd "$(dirname "$0")/.."
mkdir -p bin
CGO_ENABLED=0 go build -trimpath -o bin/ctis .
