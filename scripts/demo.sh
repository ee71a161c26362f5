#!/bin/sh
# Sets up, builds ctis and runs `ctis demo`: everything at once, offline. Arguments are passed on (--keep).
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh
exec bin/ctis demo "$@"
