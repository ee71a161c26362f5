#!/bin/sh
# Loads the HAR of an export into mitmproxy and compares how many exchanges each has. It
# needs a mitmdump that reads HAR (10.1 or later) on PATH, and python3.
#
#   ctis export ID DIR --format har && scripts/har-mitmproxy.sh DIR/journal.har
set -eu
har=${1:?"usage: scripts/har-mitmproxy.sh FILE.har"}
command -v mitmdump >/dev/null || { echo "har-mitmproxy: mitmdump is not on PATH; install mitmproxy 10.1 or later" >&2; exit 2; }
version=$(mitmdump --version | sed -n 's/^Mitmproxy: \([0-9]*\.[0-9]*\).*/\1/p')
case $version in
[0-9].* | 10.0) echo "har-mitmproxy: mitmproxy $version reads no HAR; install 10.1 or later" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/count.py" <<'PY'
import os
n = 0
def response(flow):
    global n
    n += 1
def done():
    with open(os.environ["COUNT"], "w") as f:
        f.write(str(n))
PY
want=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["log"]["entries"]))' "$har")
COUNT="$work/n" mitmdump -q -n -r "$har" -s "$work/count.py" ||
	{ echo "har-mitmproxy: mitmproxy $version does not read $har" >&2; exit 1; }
got=$(cat "$work/n")
[ "$got" = "$want" ] || { echo "har-mitmproxy: $got of $want exchanges were loaded" >&2; exit 1; }
echo "har-mitmproxy: all $want exchanges were loaded"
