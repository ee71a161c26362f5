package compose

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// sidecarOverlay is the sidecar as the override declares it: a service that is in no
// file of the environment.
type sidecarOverlay struct {
	Name     string
	Image    string
	IPv6     bool // some network of the project has it
	Labels   map[string]string
	Networks map[string]endpointOverlay
}

// The sidecar's log is the way its requests take to the journal. It is bounded, since
// agents fill it; what is written off unread is told in the journal. The engine's driver
// "local" keeps bytes as they are; "json-file" replaces what is not UTF-8.
var sidecarLog = [][2]string{{"max-size", "10m"}, {"max-file", "5"}, {"compress", "true"}}

// The bounds of the sidecar. Eight thousand connections with full buffers stay below.
const (
	sidecarMemory = "1g"
	sidecarPids   = 64
)

// sidecar decides what the override says of the sidecar; nil where there is none.
func (e *Environment) sidecar(in OverrideInput) (*sidecarOverlay, error) {
	s := e.Sidecar(in.ID)
	if s == nil {
		return nil, nil
	}
	if in.NginxImage == "" {
		return nil, fmt.Errorf("no image is named for the sidecar of the exposed services")
	}
	o := &sidecarOverlay{
		Name: s.Service, Image: in.NginxImage,
		Labels:   e.labels(in),
		Networks: map[string]endpointOverlay{},
	}
	o.Labels[LabelSidecar] = "exposed"
	for _, key := range s.Networks {
		n := endpointOverlay{IPv4: addrText(in.Networks[key].Services[s.Service]), IPv6: addrText(in.Networks[key].Services6[s.Service])}
		if key == e.Network {
			n.Aliases = s.Hostnames()
		}
		o.Networks[key] = n
	}
	o.IPv6 = slices.ContainsFunc(e.NetworkFacts(), func(f NetworkFact) bool { return f.IPv6 && slices.Contains(s.Networks, f.Key) })
	return o, nil
}

// node is the service. It has what nginx needs and no more: no capability, no user
// that owns anything, nothing it can write but a small /tmp.
func (s *sidecarOverlay) node() *yaml.Node {
	n := mapNode()
	put(n, "image", textNode(s.Image))
	put(n, "entrypoint", textsList("nginx"))
	put(n, "command", textsList("-e", "stderr", "-c", SidecarDir+"/nginx.conf"))
	user := strconv.Itoa(SidecarUser)
	put(n, "user", textNode(user+":"+user))
	put(n, "read_only", plainNode("!!bool", "true"))
	put(n, "cap_drop", textsList("ALL"))
	put(n, "security_opt", textsList("no-new-privileges:true"))
	put(n, "sysctls", textsNode(s.sysctls()))
	put(n, "tmpfs", textsList("/tmp:mode=1777,size=16m,noexec,nosuid,nodev"))
	volume := mapNode()
	put(volume, "type", textNode("volume"))
	put(volume, "target", textNode(SidecarDir))
	put(n, "volumes", &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{volume}})
	logging := mapNode()
	put(logging, "driver", textNode("local"))
	options := mapNode()
	for _, kv := range sidecarLog {
		put(options, kv[0], textNode(kv[1]))
	}
	put(logging, "options", options)
	put(n, "logging", logging)
	put(n, "mem_limit", textNode(sidecarMemory))
	put(n, "pids_limit", plainNode("!!int", strconv.Itoa(sidecarPids)))
	// With it the engine's resolver answers for names without a dot by itself: one of
	// a target that is not there is not asked for elsewhere.
	put(n, "dns_opt", textsList("ndots:1"))
	put(n, "restart", textNode("unless-stopped"))
	put(n, "stop_signal", textNode("SIGQUIT")) // requests in work come to an end, and into the log
	put(n, "healthcheck", healthcheckOff())
	put(n, "labels", textsNode(s.Labels))
	networks := mapNode()
	for _, key := range sortedKeys(s.Networks) {
		put(networks, key, s.Networks[key].node())
	}
	put(n, "networks", networks)
	return n
}

// sysctls keep the sidecar from being a way between the networks it is on.
func (s *sidecarOverlay) sysctls() map[string]string {
	m := map[string]string{
		"net.ipv4.ip_unprivileged_port_start": "0", // 80 and 443 without a capability
		"net.ipv4.ip_forward":                 "0",
		"net.ipv4.conf.all.rp_filter":         "1",
		"net.ipv4.conf.default.rp_filter":     "1",
		"net.ipv4.conf.all.arp_ignore":        "1",
		"net.ipv4.conf.all.arp_announce":      "2",
		"net.ipv4.conf.all.send_redirects":    "0",
	}
	if s.IPv6 { // elsewhere the kernel may know no such setting
		m["net.ipv6.conf.all.forwarding"] = "0"
	}
	return m
}

func healthcheckOff() *yaml.Node {
	n := mapNode()
	put(n, "disable", plainNode("!!bool", "true"))
	return n
}

func textsList(texts ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, t := range texts {
		n.Content = append(n.Content, textNode(t))
	}
	return n
}

func plainNode(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}
