#!/bin/sh
# Installs what is missing on a Debian machine that has Go and a Docker engine: the Compose plugin (v2.24.4 or newer)
# and, for the tests, gcc (the race detector), debootstrap and buildx, the client of BuildKit, which is not installed as
# a plugin: with it, `docker build` would be another program. What is there already is left alone, so running this again
# costs nothing.
#
#   scripts/setup.sh          what `ctis` itself needs
#   scripts/setup.sh test     and what the tests need
set -eu

compose_version=v5.6.0
buildx_version=v0.38.2
cache="${XDG_CACHE_HOME:-$HOME/.cache}/ctis/tools"
plugins="${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins"

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$1"; [ $# -lt 2 ] || say "hint: $2"; exit 1; }

command -v go >/dev/null 2>&1 || die "Go is not installed" "install Go 1.26 or newer and put it on PATH"
command -v docker >/dev/null 2>&1 || die "the docker command is not installed" "install Docker Engine from Debian's packages or from Docker's own"
docker version --format '{{.Server.APIVersion}}' >/dev/null 2>&1 ||
	die "the Docker engine does not answer" "start it (systemctl start docker), or set DOCKER_HOST"

# newer_or_equal HAVE WANT: compares dotted version numbers.
newer_or_equal() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

compose_ok() {
	have=$(docker compose version --short 2>/dev/null) || return 1
	newer_or_equal "${have#v}" 2.24.4
}

# module FILE PACKAGE VERSION VARIABLE builds a program from its Go module into the cache, once.
module() {
	[ ! -x "$cache/$1-$3" ] || return 0
	say "building $1 $3 from its Go module (once, about two minutes)"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	(
		cd "$work"
		go mod init tools
		go get -tool "$2@$3"
		CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X $4=$3" -o program "$2"
	) >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "$1 does not build"; }
	mkdir -p "$cache"
	mv "$work/program" "$cache/$1-$3.$$"
	mv "$cache/$1-$3.$$" "$cache/$1-$3"
	rm -rf "$work"
}

if ! compose_ok; then
	module docker-compose github.com/docker/compose/v5/cmd "$compose_version" github.com/docker/compose/v5/internal.Version
	built="$cache/docker-compose-$compose_version"
	mkdir -p "$plugins"
	cp "$built" "$plugins/docker-compose.$$"
	mv "$plugins/docker-compose.$$" "$plugins/docker-compose"
	compose_ok || die "docker compose still does not answer with v2.24.4 or newer" "see: docker compose version"
	say "installed Docker Compose $(docker compose version --short) in $plugins"
fi

[ "${1-}" = test ] || exit 0

packages=
command -v gcc >/dev/null 2>&1 || packages="$packages gcc libc6-dev"
command -v debootstrap >/dev/null 2>&1 || [ -x /usr/sbin/debootstrap ] || packages="$packages debootstrap"
if [ -n "$packages" ]; then
	[ "$(id -u)" = 0 ] || die "the tests need:$packages" "run as root once: apt-get install$packages"
	say "installing:$packages"
	# shellcheck disable=SC2086 # a list of words
	(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages) >/dev/null ||
		die "apt-get cannot install:$packages"
fi

module docker-buildx github.com/docker/buildx/cmd/buildx "$buildx_version" github.com/docker/buildx/version.Version
