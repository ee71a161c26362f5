package simulator

import (
	"maps"
	"strings"

	"github.com/docker/docker/api/types/container"
)

const ipv6 = "net.ipv6."

// sysctls are the simulator's network settings. They are those of interfaces
// attached later too; what was attached before a restart is there before them, so
// the server does not rely on them alone (it looks where connections come in).
func sysctls() map[string]string {
	all := map[string]string{
		// 80 and 443 without a capability.
		"net.ipv4.ip_unprivileged_port_start": "0",
		// No way from one trajectory's network into another through here, and
		// no packet that came in on the wrong one.
		"net.ipv4.ip_forward":             "0",
		"net.ipv4.conf.all.rp_filter":     "1",
		"net.ipv4.conf.default.rp_filter": "1",
		// An address is answered for on its own network only.
		"net.ipv4.conf.all.arp_ignore":   "1",
		"net.ipv4.conf.all.arp_announce": "2",
	}
	// Nobody on a network tells which way to go or which address to have. The
	// kernel puts conf.all.accept_redirects back to 1 when forwarding is switched
	// off, and runtimes make settings in any order, so where that leaves redirects
	// accepted they may only name a gateway that is one already.
	all["net.ipv4.conf.default.accept_redirects"] = "0"
	for _, which := range []string{"all", "default"} {
		all["net.ipv4.conf."+which+".send_redirects"] = "0"
		all["net.ipv4.conf."+which+".shared_media"] = "0"
		all["net.ipv4.conf."+which+".secure_redirects"] = "1"
		for _, name := range []string{"accept_ra", "accept_redirects", "autoconf"} {
			all[ipv6+"conf."+which+"."+name] = "0"
		}
	}
	return all
}

// dropMissing takes out the settings of IPv6 where the engine's kernel has none,
// and with it nothing to settle: runtimes then name the file they did not find.
func dropMissing(host *container.HostConfig, err error) bool {
	text := err.Error()
	if !strings.Contains(text, "sys/net/ipv6/") || !strings.Contains(strings.ToLower(text), "no such file") {
		return false
	}
	before := len(host.Sysctls)
	maps.DeleteFunc(host.Sysctls, func(name, _ string) bool { return strings.HasPrefix(name, ipv6) })
	return len(host.Sysctls) < before
}
