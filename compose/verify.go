package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MismatchError is a value of the override that Compose did not take over as
// it was written.
type MismatchError struct {
	Service, Network string // one of the two
	Key              string
	Want, Got        string
}

func (e *MismatchError) Error() string {
	where := fmt.Sprintf("service %q", e.Service)
	if e.Network != "" {
		where = fmt.Sprintf("network %q", e.Network)
	}
	return fmt.Sprintf("%s: %s is %q after merging, not %q; this environment and this version of Compose do not go together", where, e.Key, e.Got, e.Want)
}

// mergedModel is the part of `docker compose config --format json` that the
// override has a say in.
type mergedModel struct {
	Services map[string]struct {
		Image         string                     `json:"image"`
		User          string                     `json:"user"`
		ReadOnly      bool                       `json:"read_only"`
		CapDrop       []string                   `json:"cap_drop"`
		Entrypoint    []string                   `json:"entrypoint"`
		ContainerName string                     `json:"container_name"`
		Labels        map[string]string          `json:"labels"`
		Environment   map[string]*string         `json:"environment"`
		ExtraHosts    []string                   `json:"extra_hosts"`
		Networks      map[string]*mergedEndpoint `json:"networks"`
		Volumes       []struct {
			Type   string `json:"type"`
			Target string `json:"target"`
		} `json:"volumes"`
		Ports []struct {
			Target    uint32 `json:"target"`
			Published string `json:"published"`
			Protocol  string `json:"protocol"`
			HostIP    string `json:"host_ip"`
		} `json:"ports"`
	} `json:"services"`
	Networks map[string]struct {
		Labels  map[string]string `json:"labels"`
		Options map[string]string `json:"driver_opts"`
		IPAM    struct {
			Config []struct {
				Subnet  string `json:"subnet"`
				Range   string `json:"ip_range"`
				Gateway string `json:"gateway"`
			} `json:"config"`
		} `json:"ipam"`
	} `json:"networks"`
}

type mergedEndpoint struct {
	IPv4    string   `json:"ipv4_address"`
	IPv6    string   `json:"ipv6_address"`
	Aliases []string `json:"aliases"`
}

// VerifyOverride checks that every value which the override for in sets is in
// effect in configJSON, the output of `docker compose config --format json`
// over the environment's files and the override. How Compose merges differs
// between its versions; a trajectory is not built on hope. A value that is not
// in effect is a *[MismatchError]; all of them are joined. Pure.
func (e *Environment) VerifyOverride(configJSON []byte, in OverrideInput) error {
	o, err := e.overlay(in)
	if err != nil {
		return err
	}
	var m mergedModel
	if err := json.Unmarshal(configJSON, &m); err != nil {
		return fmt.Errorf("output of docker compose config: %w", err)
	}
	v := &verifier{merged: &m}
	for _, name := range sortedKeys(o.Services) {
		v.service(name, o.Services[name], e)
	}
	if o.Sidecar != nil {
		v.sidecar(o.Sidecar)
	}
	for _, key := range sortedKeys(o.Networks) {
		v.network(key, o.Networks[key])
	}
	return v.join()
}

type verifier struct {
	merged *mergedModel
	found  []error
}

func (v *verifier) service(name string, want *serviceOverlay, e *Environment) {
	got, ok := v.merged.Services[name]
	expect := func(key, want, got string) {
		if want != got {
			v.found = append(v.found, &MismatchError{Service: name, Key: key, Want: want, Got: got})
		}
	}
	if !ok {
		expect("presence", "present", "absent")
		return
	}
	for _, k := range sortedKeys(want.Labels) {
		expect("label "+k, want.Labels[k], unescape(got.Labels[k]))
	}
	for _, k := range sortedKeys(want.Environment) {
		value := "(unset)"
		if p := got.Environment[k]; p != nil {
			value = unescape(*p)
		}
		expect("environment "+k, want.Environment[k], value)
	}
	for _, host := range sortedKeys(want.ExtraHosts) {
		expect("extra_hosts "+host, want.ExtraHosts[host], addressesOf(got.ExtraHosts, host))
	}
	for _, target := range want.Volumes {
		kind := "(none)"
		for _, m := range got.Volumes {
			if m.Target == target {
				kind = m.Type
			}
		}
		expect("mount at "+target, "volume", kind)
	}
	if want.DropName {
		expect("container_name", "", got.ContainerName)
	}
	// A service stays on all its networks, whether the override lists them or not.
	v.endpoints(name, sortedKeys(e.Project.Services[name].Networks), want.Networks)
	if want.Ports != nil {
		var wantPorts, gotPorts []string
		for _, p := range want.Ports {
			wantPorts = append(wantPorts, fmt.Sprintf("%s::%d/%s", p.HostIP, p.Target, p.Protocol))
		}
		for _, p := range got.Ports {
			gotPorts = append(gotPorts, fmt.Sprintf("%s:%s:%d/%s", p.HostIP, p.Published, p.Target, p.Protocol))
		}
		slices.Sort(wantPorts)
		slices.Sort(gotPorts)
		expect("ports", strings.Join(slices.Compact(wantPorts), " "), strings.Join(slices.Compact(gotPorts), " "))
	}
}

// endpoints checks a service's networks.
func (v *verifier) endpoints(name string, keys []string, want map[string]endpointOverlay) {
	got := v.merged.Services[name]
	expect := func(key, want, got string) {
		if want != got {
			v.found = append(v.found, &MismatchError{Service: name, Key: key, Want: want, Got: got})
		}
	}
	for _, key := range keys {
		endpoint, ok := got.Networks[key]
		if !ok {
			expect("networks", key, strings.Join(sortedKeys(got.Networks), ", "))
			continue
		}
		if endpoint == nil {
			endpoint = &mergedEndpoint{}
		}
		w := want[key]
		if w.IPv4 != "" {
			expect("address on "+key, w.IPv4, endpoint.IPv4)
		}
		if w.IPv6 != "" {
			expect("IPv6 address on "+key, w.IPv6, endpoint.IPv6)
		}
		for _, a := range w.Aliases {
			if !slices.Contains(endpoint.Aliases, a) {
				expect("alias on "+key, a, "")
			}
		}
	}
}

// sidecar checks the service that is in no file but the override.
func (v *verifier) sidecar(want *sidecarOverlay) {
	got := v.merged.Services[want.Name]
	for _, c := range [][3]string{
		{"image", want.Image, unescape(got.Image)},
		{"user", fmt.Sprintf("%d:%d", SidecarUser, SidecarUser), got.User},
		{"read_only", "true", fmt.Sprint(got.ReadOnly)},
		{"cap_drop", "ALL", strings.Join(got.CapDrop, " ")},
		{"entrypoint", "nginx", strings.Join(got.Entrypoint, " ")},
	} {
		if c[1] != c[2] {
			v.found = append(v.found, &MismatchError{Service: want.Name, Key: c[0], Want: c[1], Got: c[2]})
		}
	}
	v.endpoints(want.Name, sortedKeys(want.Networks), want.Networks)
}

func (v *verifier) network(key string, want *networkOverlay) {
	got, ok := v.merged.Networks[key]
	expect := func(what, want, got string) {
		if want != got {
			v.found = append(v.found, &MismatchError{Network: key, Key: what, Want: want, Got: got})
		}
	}
	if !ok {
		expect("presence", "present", "absent")
		return
	}
	for _, k := range sortedKeys(want.Labels) {
		expect("label "+k, want.Labels[k], unescape(got.Labels[k]))
	}
	if want.MTU != "" {
		expect("driver_opts "+optionMTU, want.MTU, got.Options[optionMTU])
	}
	if len(want.Pools) == 0 {
		return
	}
	var wantPools, pools []string
	for _, p := range want.Pools {
		wantPools = append(wantPools, strings.Join([]string{p.Subnet, p.Range, p.Gateway}, " "))
	}
	for _, p := range got.IPAM.Config {
		pools = append(pools, strings.Join([]string{p.Subnet, p.Range, p.Gateway}, " "))
	}
	expect("ipam", strings.Join(wantPools, ", "), strings.Join(pools, ", "))
}

// unescape undoes what config does to a literal $ in its output.
func unescape(s string) string { return strings.ReplaceAll(s, "$$", "$") }

// addressesOf lists all addresses that extra_hosts gives a host: more than one
// means that the environment's own comes first.
func addressesOf(extraHosts []string, host string) string {
	var found []string
	for _, h := range extraHosts {
		name, address, ok := strings.Cut(h, "=")
		if !ok {
			name, address, _ = strings.Cut(h, ":")
		}
		if name == host {
			found = append(found, address)
		}
	}
	return strings.Join(found, ", ")
}

func (v *verifier) join() error { return errors.Join(v.found...) }
