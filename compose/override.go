package compose

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// Override generates the Compose file that goes last on Compose's command line
// (SPEC §7). It also returns notes for people: what it leaves alone although ctis
// would set it. What it changes, [Load] has warned of. Pure.
func (e *Environment) Override(in OverrideInput) (file []byte, notes []string, err error) {
	o, err := e.overlay(in)
	if err != nil {
		return nil, nil, err
	}
	body, err := yaml.Marshal(o.document())
	if err != nil {
		return nil, nil, fmt.Errorf("override of %q: %w", in.ID, err)
	}
	head := "# Generated for trajectory " + in.ID + ". Merged over the environment's own files, which stay as they are.\n"
	return append([]byte(head), body...), o.Notes, nil
}

// The document is built from nodes, because a few values need tags that
// Compose gives a meaning (!override, !reset) and no Go value has.

func (o *overlay) document() *yaml.Node {
	services, networks := mapNode(), mapNode()
	for _, name := range sortedKeys(o.Services) {
		put(services, name, o.Services[name].node())
	}
	if o.Sidecar != nil {
		put(services, o.Sidecar.Name, o.Sidecar.node())
	}
	for _, key := range sortedKeys(o.Networks) {
		put(networks, key, o.Networks[key].node())
	}
	doc := mapNode()
	put(doc, "services", services)
	if len(networks.Content) > 0 {
		put(doc, "networks", networks)
	}
	return doc
}

func (s *serviceOverlay) node() *yaml.Node {
	n := mapNode()
	put(n, "labels", textsNode(s.Labels))
	if len(s.Environment) > 0 {
		put(n, "environment", textsNode(s.Environment))
	}
	if len(s.ExtraHosts) > 0 {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, host := range sortedKeys(s.ExtraHosts) {
			list.Content = append(list.Content, textNode(host+"="+s.ExtraHosts[host]))
		}
		put(n, "extra_hosts", list)
	}
	if s.DropName {
		put(n, "container_name", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!reset", Value: "null"})
	}
	if s.Networks != nil {
		networks := mapNode()
		for _, key := range sortedKeys(s.Networks) {
			put(networks, key, s.Networks[key].node())
		}
		put(n, "networks", networks)
	}
	if len(s.Ports) > 0 {
		put(n, "ports", s.portsNode())
	}
	if len(s.Volumes) > 0 {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, target := range s.Volumes {
			volume := mapNode()
			put(volume, "type", textNode("volume"))
			put(volume, "target", textNode(target))
			list.Content = append(list.Content, volume)
		}
		put(n, "volumes", list)
	}
	return n
}

// portsNode replaces the service's ports: lists are appended to each other
// when merged, so the fixed ports would stay beside the ephemeral ones.
func (s *serviceOverlay) portsNode() *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!override"}
	for _, p := range s.Ports {
		port := mapNode()
		put(port, "target", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatUint(uint64(p.Target), 10)})
		for _, kv := range [][2]string{
			{"protocol", p.Protocol}, {"host_ip", p.HostIP}, {"mode", p.Mode}, {"name", p.Name}, {"app_protocol", p.AppProtocol},
		} {
			if kv[1] != "" {
				put(port, kv[0], textNode(kv[1]))
			}
		}
		list.Content = append(list.Content, port)
	}
	return list
}

func (p endpointOverlay) node() *yaml.Node {
	n := mapNode()
	if p.IPv4 != "" {
		put(n, "ipv4_address", textNode(p.IPv4))
	}
	if p.IPv6 != "" {
		put(n, "ipv6_address", textNode(p.IPv6))
	}
	if len(p.Aliases) > 0 {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, a := range p.Aliases {
			list.Content = append(list.Content, textNode(a))
		}
		put(n, "aliases", list)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

func (w *networkOverlay) node() *yaml.Node {
	n := mapNode()
	put(n, "labels", textsNode(w.Labels))
	if w.MTU != "" {
		put(n, "driver_opts", textsNode(map[string]string{optionMTU: w.MTU}))
	}
	if len(w.Pools) == 0 {
		return n
	}
	config := &yaml.Node{Kind: yaml.SequenceNode}
	for _, p := range w.Pools {
		pool := mapNode()
		for _, kv := range [][2]string{{"subnet", p.Subnet}, {"ip_range", p.Range}, {"gateway", p.Gateway}} {
			if kv[1] != "" {
				put(pool, kv[0], textNode(kv[1]))
			}
		}
		config.Content = append(config.Content, pool)
	}
	ipam := mapNode()
	put(ipam, "config", config)
	put(n, "ipam", ipam)
	return n
}

func mapNode() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

func textsNode(m map[string]string) *yaml.Node {
	n := mapNode()
	for _, key := range sortedKeys(m) {
		put(n, key, textNode(m[key]))
	}
	return n
}

// textNode is quoted always: a value that looks like a number, a date or a
// boolean has to stay the text it is.
func textNode(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: escape(s), Style: yaml.DoubleQuotedStyle}
}

func put(m *yaml.Node, key string, value *yaml.Node) {
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}
