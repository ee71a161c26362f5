// Package api is the single bridge between ctis on the host and ctis-server in
// the image: the wire types of the administrative interface and of the journal,
// and a client for them. Both ends import it, so it depends on the standard
// library alone and holds no behaviour beyond encoding.
//
// The administrative interface is HTTP/1.1 with JSON bodies over a unix socket
// that only exists inside the simulator's container. Its routes are listed in
// package admin.
package api

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Protocol is the version of the administrative interface. The image carries it
// as the label io.ctis.protocol, and a simulator that speaks another one is
// replaced like one with another image.
const Protocol = 4

// Unattributed is the name under which the journal keeps what belongs to no
// trajectory: connections whose two ends match no registered network. It is no
// valid trajectory id, so it can collide with none.
const Unattributed = "_unattributed"

// ArchivedID names the journal of an earlier trajectory that had the same id: the
// n-th one, counted from 1. It is no valid trajectory id either.
func ArchivedID(id string, n int) string { return id + "~" + strconv.Itoa(n) }

// SplitArchived takes such a name apart; n is 0 for the present journal of id,
// and for what only looks like an archived one.
func SplitArchived(name string) (id string, n int) {
	id, number, ok := strings.Cut(name, "~")
	if !ok {
		return name, 0
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || ArchivedID(id, n) != name {
		return name, 0
	}
	return id, n
}

// The endpoints a persona can have built in.
const (
	EndpointWebhook = "webhook"
	EndpointData    = "data"
	EndpointAssets  = "assets"
	EndpointPublic  = "public"
)

// BuiltinEndpoints lists the built-in endpoints in the order they are shown.
var BuiltinEndpoints = []string{EndpointWebhook, EndpointData, EndpointAssets, EndpointPublic}

// DefaultServerHeader is what a persona without a server_header of its own says
// in its Server header.
const DefaultServerHeader = "nginx"

// Registration is everything the simulator has to know to serve a trajectory.
type Registration struct {
	Trajectory  string `json:"trajectory"`  // = Compose project name
	Environment string `json:"environment"` // directory name, for people only
	// Settings is the SHA-256, in hex, of the environment as it was resolved.
	// Registering a trajectory again with another value is a conflict.
	Settings string    `json:"settings"`
	Networks []Network `json:"networks"`
	Personas []Persona `json:"personas"` // in the order of ctis.toml; the first answers clients without SNI
	// Upstreams are the real hosts that the gateway is asked for.
	Upstreams []Upstream `json:"upstreams,omitempty"`
	// Exclusive is what no other trajectory can have until this one is unregistered.
	Exclusive []Exclusive `json:"exclusive,omitempty"`
	// Exposed are the hostnames that the trajectory's own sidecar answers for.
	Exposed []Exposed `json:"exposed,omitempty"`
}

// Network is one network on which the simulator serves the trajectory.
type Network struct {
	Name      string         `json:"name"`      // Compose key, without project prefix
	ID        string         `json:"id"`        // the engine's network id
	Subnets   []netip.Prefix `json:"subnets"`   // peers must be inside one of them
	Addresses []netip.Addr   `json:"addresses"` // the simulator's own addresses there
	Gateways  []netip.Addr   `json:"gateways"`  // the engine's host there: nobody in the trajectory
	Peers     []Peer         `json:"peers"`     // known services; may be completed later
}

// Peer says which service has an address, so that records can name it.
type Peer struct {
	Service string     `json:"service"`
	Address netip.Addr `json:"address"`
	// Container is the id of the container that has it, where that is known. With
	// it the host finds out later that another one stands in its place.
	Container string `json:"container,omitempty"`
	// Unprepared says that the container was made behind ctis' back, so that it
	// lacks what ctis puts into one.
	Unprepared bool `json:"unprepared,omitempty"`
}

// Persona is a public hostname the simulator plays for one trajectory.
type Persona struct {
	Host         string   `json:"host"` // lower-case ASCII, no trailing dot
	ServerHeader string   `json:"server_header"`
	Endpoints    []string `json:"endpoints"`
	// Backend answers for the root and all endpoints; nil: the simulator does.
	Backend *Backend `json:"backend,omitempty"`
	// Rules come before the endpoints and the backend, in their order.
	Rules []Rule `json:"rules,omitempty"`
	// RulesRevision is how often they were replaced since; 0 in a new registration.
	RulesRevision int `json:"rules_revision,omitempty"`
}

// Backend is the program of the trajectory's own that owns a persona's logic.
type Backend struct {
	Service string `json:"service"` // Compose service
	Port    uint16 `json:"port"`
	Pin     Pin    `json:"pin"`
}

// Pin is the one container that is a backend, on one network, at one address. The
// host sets it, from what the engine says of the trajectory's own containers.
type Pin struct {
	Container string     `json:"container"` // the engine's container id
	Network   string     `json:"network"`   // the engine's network id: one of the registration's
	Address   netip.Addr `json:"address"`   // invalid: not known yet, the backend is answered for with 502
}

// Pins are those of a trajectory's backends, by service.
type Pins map[string]Pin

// Registered answers a registration.
type Registered struct {
	Unchanged bool `json:"unchanged"` // the same settings were registered before
}

// Unregistered answers the removal of a trajectory.
type Unregistered struct {
	Known    bool   `json:"known"`    // false: there was nothing to remove
	Requests uint64 `json:"requests"` // records in its journal, also when it was not registered
}

// Peers completes what is known about the services on a trajectory's networks.
// Keys are network names as in [Network.Name].
type Peers map[string][]Peer

// Networks replace those of a trajectory that have the same names.
type Networks []Network

// Status is the simulator's own account of itself.
type Status struct {
	Protocol int       `json:"protocol"`
	Started  time.Time `json:"started"`
	Retired  bool      `json:"retired"` // accepts no registration any more
	// Identity is the fingerprint of its key for the link with the gateway.
	Identity     string             `json:"identity"`
	Trajectories []TrajectoryStatus `json:"trajectories"`
	Unattributed uint64             `json:"unattributed"` // records that belong to no trajectory
	Problems     []string           `json:"problems"`     // damaged state set aside at start, full disk, …
}

// TrajectoryStatus describes one registered trajectory.
type TrajectoryStatus struct {
	Trajectory  string     `json:"trajectory"`
	Environment string     `json:"environment"`
	Settings    string     `json:"settings"`
	Networks    []Network  `json:"networks"`
	Personas    []string   `json:"personas"`
	Pins        Pins       `json:"pins,omitempty"` // of its backends
	Exposed     []Exposed  `json:"exposed,omitempty"`
	Upstreams   []Upstream `json:"upstreams"`
	// ReplacedRules are the personas whose rules are not those of the registration.
	ReplacedRules []string      `json:"replaced_rules,omitempty"`
	Since         time.Time     `json:"since"`
	Journal       JournalStatus `json:"journal"`
}

// Hosts are the names the simulator answers to for the trajectory.
func (t TrajectoryStatus) Hosts() []string {
	hosts := append([]string{}, t.Personas...)
	for _, u := range t.Upstreams {
		hosts = append(hosts, u.Host)
	}
	return hosts
}

// JournalStatus says how complete a trajectory's journal is.
type JournalStatus struct {
	Records   uint64 `json:"records"`   // = the last sequence number
	Bytes     int64  `json:"bytes"`     // on disk, bodies included
	Truncated uint64 `json:"truncated"` // records whose body was not kept whole
	Dropped   uint64 `json:"dropped"`   // requests that have no record of their own (see kind gap)
}
