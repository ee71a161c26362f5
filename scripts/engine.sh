#!/bin/sh
# Runs a command (by default the end-to-end tests) against a current Docker engine, where the machine's own is old or in
# use. The engine is built from its Go modules, once; it starts empty, ends with the command and leaves nothing.
#
#   scripts/engine.sh [COMMAND [ARGUMENT]…]
#
# COMMAND runs in this repository's directory and has the engine's address in DOCKER_HOST. It uses the machine's network;
# the engine has one of its own, so that its bridges and firewall rules never meet those of another engine. So no
# container reaches the outside, and COMMAND does not reach the ports that containers publish.
#
# CTIS_ENGINE_FLAGS are further flags of dockerd: --firewall-backend=nftables, --feature=containerd-snapshotter=false.
set -eu
cd "$(dirname "$0")/.."

moby_version=v2.0.0-beta.24
containerd_version=v2.3.7
runc_version=v1.5.3
bin="${XDG_CACHE_HOME:-$HOME/.cache}/ctis/engine/moby-$moby_version,containerd-$containerd_version,runc-$runc_version"

say() { printf 'engine: %s\n' "$*" >&2; }
die() { say "$1"; [ $# -lt 2 ] || say "hint: $2"; exit 1; }

# build PACKAGE VERSION [FLAG…] builds one program where it is missing: each in a module of its own, because each needs
# other versions of the same dependencies.
build() {
	package=$1 name=${1##*/} version=$2
	shift 2
	[ ! -x "$bin/$name" ] || return 0
	say "building $name $version from its Go module (once)"
	mkdir -p "$bin" "$dir/$name"
	(
		cd "$dir/$name" && export GOFLAGS= GOWORK=off CGO_ENABLED="$cgo" &&
			go mod init engine && go get -tool "$package@$version" &&
			go build -trimpath -o "$bin/$name.$$" "$@" "$package"
	) >"$dir/log" 2>&1 || { tail -n 20 "$dir/log" >&2; die "$name does not build"; }
	mv "$bin/$name.$$" "$bin/$name"
}

# inside [COMMAND…] is the first process of a process namespace: whatever is left of the engine, its containers and
# COMMAND dies with it. COMMAND is in it too, so that the process ids that the engine tells mean the same to both.
inside() {
	forwarding=0 # as a machine has it before its engine turns it on, which then closes the firewall for others
	case ${CTIS_ENGINE_FLAGS-} in *nftables*) forwarding=1 ;; esac # there the engine leaves it to the administrator
	# Engines, shims and iptables have sockets and locks of fixed names in /run, and /sys/class/net is that of the network
	# in which /sys was mounted, so the engine gets both anew. It is in another session because Ctrl-C is meant for
	# COMMAND, which may have to take down what it made.
	# shellcheck disable=SC2016,SC2086 # the inner shell expands the one, the other is a list of words
	PATH="$bin:$PATH" forwarding="$forwarding" setsid unshare --net --mount sh -euc '
		mount -t tmpfs tmpfs /run
		mkdir /run/cgroup
		mount --rbind /sys/fs/cgroup /run/cgroup
		mount -t sysfs sysfs /sys
		mount --move /run/cgroup /sys/fs/cgroup
		ip link set lo up
		for file in ipv4/ip_forward ipv6/conf/all/forwarding ipv6/conf/default/forwarding; do
			[ ! -e "/proc/sys/net/$file" ] || echo "$forwarding" >"/proc/sys/net/$file"
		done
		exec dockerd "$@"' sh \
		--config-file "$dir/daemon.json" --data-root "$dir/data" --exec-root /run/docker --pidfile /run/docker.pid \
		--host "unix://$dir/docker.sock" --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/${dir##*/}" \
		${CTIS_ENGINE_FLAGS-} </dev/null >"$dir/log" 2>&1 &
	engine=$!
	export DOCKER_HOST="unix://$dir/docker.sock"
	unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH DOCKER_API_VERSION
	until docker version >/dev/null 2>&1; do
		kill -0 "$engine" 2>/dev/null || { tail -n 20 "$dir/log" >&2; die "the engine does not start"; }
		sleep 1
	done
	say "$(docker version --format 'version {{.Server.Version}}, API {{.Server.APIVersion}}')"
	if [ $# = 0 ]; then
		scripts/setup.sh test
		set -- env CTIS_E2E=1 go test -count=1 -timeout 20m ./...
	fi
	"$@"
}

clean() {
	rm -rf "$dir"
	# The processes are gone, their control groups stay until somebody removes them.
	find /sys/fs/cgroup -depth -type d -path "*/${dir##*/}*" -exec rmdir {} + 2>/dev/null || :
}

if [ "${1-}" = --inside ]; then
	dir=$2
	shift 2
	trap 'kill -KILL -1; clean' EXIT # here too, in case the first of the two is killed
	inside "$@"
	exit
fi

[ "$(id -u)" = 0 ] || die "an engine needs root"
for tool in go docker docker-init unshare setsid ip iptables; do
	command -v "$tool" >/dev/null 2>&1 || die "$tool is not installed" "install Docker Engine, iproute2, iptables and util-linux from Debian's packages"
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/ctis-engine-XXXXXX")
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM

cgo=0
build github.com/moby/moby/v2/cmd/dockerd "$moby_version" -tags exclude_graphdriver_btrfs,no_btrfs \
	-ldflags "-X github.com/moby/moby/v2/dockerversion.Version=${moby_version#v}"
build github.com/moby/moby/v2/cmd/docker-proxy "$moby_version"
build github.com/containerd/containerd/v2/cmd/containerd "$containerd_version" -tags no_btrfs
build github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 "$containerd_version"
if [ ! -x "$bin/runc" ]; then
	if ! pkg-config --exists libseccomp 2>/dev/null; then
		say "installing: gcc libc6-dev libseccomp-dev pkg-config"
		(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev libseccomp-dev pkg-config) >/dev/null ||
			die "apt-get cannot install them"
	fi
	cgo=1 # part of it is C, and without seccomp the engine's default profile cannot be applied
	build github.com/opencontainers/runc "$runc_version" -tags seccomp
fi

echo '{}' >"$dir/daemon.json" # the machine's own engine may have settings
unshare --mount --pid --fork --kill-child --mount-proc scripts/engine.sh --inside "$dir" "$@"
