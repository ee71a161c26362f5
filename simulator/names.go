// Package simulator keeps the one shared container per engine and instance: its
// image, its life from creation to replacement, and the way to its
// administrative interface. Everything goes through the engine's API, so a
// remote engine is no different from a local one.
//
// The container is kept by looking, deciding and acting: [Observe] takes a
// snapshot, [Decide] says what to do about it without touching anything, and
// [Ensure] does that until the simulator answers. No lock is involved: which of
// several processes creates the container is settled by its name being unique,
// and whether it may be replaced by the simulator itself, in one atomic step.
package simulator

import (
	"fmt"
	"regexp"
)

// The names and labels below are an interface: other tools may rely on them to
// find what ctis keeps on an engine (SPEC §6). Nothing ctis shares between
// trajectories carries a label of a Compose project.
const (
	// LabelInstance is on everything shared, with the instance's name.
	LabelInstance = "io.ctis.instance"
	// LabelRole says what a shared thing is: see the roles below.
	LabelRole = "io.ctis.role"
	// LabelHash is on images built from source and on containers made from
	// them: the hash of the source. On a container it is empty for an image
	// that was named by the user.
	LabelHash = "io.ctis.source-hash"
	// LabelBuildStage is on what the Dockerfile's other stages leave behind on
	// engines whose builder keeps that: it is needed by nobody.
	LabelBuildStage = "io.ctis.build-stage"
	// LabelProtocol is on images and containers: the version of the
	// administrative interface.
	LabelProtocol = "io.ctis.protocol"
	// LabelImage is on containers: the image's reference when it was created.
	LabelImage = "io.ctis.image"
	// LabelConfig is on containers: the version of the settings ctis gave it.
	LabelConfig = "io.ctis.config"
)

// The roles.
const (
	RoleSimulator = "simulator" // the container that faces trajectories
	RoleState     = "state"     // the volume with everything durable
	RoleLink      = "link"      // the internal network of the shared containers
	RoleGateway   = "gateway"   // the container that has keys and a way out
	RoleKeys      = "keys"      // the volume with its keys and claims
	RoleEgress    = "egress"    // the network it goes out by
)

// DefaultInstance is the instance used when none is named.
const DefaultInstance = "ctis"

var instancePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,30}$`)

// ValidateInstance checks an instance's name. It is short enough that every name
// made from it is a valid name of containers, volumes and networks.
func ValidateInstance(name string) error {
	if !instancePattern.MatchString(name) {
		return fmt.Errorf("instance %q is not valid; use 1 to 31 of a-z, 0-9, \"_\" and \"-\", starting with a letter or digit", name)
	}
	return nil
}

// ContainerName is the simulator's container.
func ContainerName(instance string) string { return instance + "-simulator" }

// VolumeName is the volume with the simulator's state.
func VolumeName(instance string) string { return instance + "-state" }

// LinkName is the internal network the simulator is always on.
func LinkName(instance string) string { return instance + "-link" }

// GatewayName is the gateway's container.
func GatewayName(instance string) string { return instance + "-gateway" }

// GatewayVolumeName is the volume with the gateway's keys and claims.
func GatewayVolumeName(instance string) string { return instance + "-gateway" }

// EgressName is the network by which the gateway goes out. It is on no other but the link.
func EgressName(instance string) string { return instance + "-egress" }

// part is one of the two shared containers.
type part struct {
	role       string // also what people are told it is
	container  string // name
	volume     string // name
	volumeRole string
}

func simulatorOf(instance string) part {
	return part{RoleSimulator, ContainerName(instance), VolumeName(instance), RoleState}
}

func gatewayOf(instance string) part {
	return part{RoleGateway, GatewayName(instance), GatewayVolumeName(instance), RoleKeys}
}

// Inside the image.
const (
	serverBinary = "/ctis-server"
	stateDir     = "/var/lib/ctis"
	runtimeDir   = "/run/ctis"
	serverUser   = 65532 // user and group: nobody's on any distribution
)
