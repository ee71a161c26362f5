package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/imagehash"
)

// BusyError says that the simulator is not the wanted one and cannot be replaced,
// because trajectories depend on it. Nothing was touched.
type BusyError struct {
	Instance string
	Attached []string // trajectories; by their networks where the simulator cannot say
	Have     string   // image the simulator runs
	Want     string   // image asked for; empty when it was to be removed
	Cause    string
}

func (e *BusyError) Error() string {
	what := "trajectories are"
	if len(e.Attached) == 1 {
		what = "trajectory is"
	}
	s := fmt.Sprintf("simulator %q is busy: %d %s attached (%s)",
		ContainerName(e.Instance), len(e.Attached), what, strings.Join(e.Attached, ", "))
	if e.Cause != "" {
		s += " and " + e.Cause
	}
	return s
}

// Hint says how to get on.
func (e *BusyError) Hint() string {
	return fmt.Sprintf("end them with `ctis down %s`, or use another instance with `--instance NAME`", strings.Join(e.Attached, " "))
}

// ForeignError says that a name of ctis is taken by something that is not its own.
type ForeignError struct {
	Kind     string // container, volume or network
	Name     string
	Instance string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %q exists and has no label %s=%s, so it is not ctis's own", e.Kind, e.Name, LabelInstance, e.Instance)
}

// Hint says how to get on.
func (e *ForeignError) Hint() string {
	return fmt.Sprintf("remove or rename that %s, or use another instance with `--instance NAME`", e.Kind)
}

// NotReadyError says that the simulator did not come to answer.
type NotReadyError struct {
	Role      string // of the container
	Container string
	State     string   // as the engine calls it
	Logs      []string // the container's last lines
	Err       error    // what was last in the way
}

func (e *NotReadyError) Error() string {
	s := fmt.Sprintf("%s %q does not answer (it is %s)", cmp.Or(e.Role, RoleSimulator), e.Container, e.State)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if len(e.Logs) > 0 {
		s += "; its last log lines:\n  " + strings.Join(e.Logs, "\n  ")
	}
	return s
}

func (e *NotReadyError) Unwrap() error { return e.Err }

// Hint says how to get on.
func (e *NotReadyError) Hint() string {
	return fmt.Sprintf("see all of it with `docker logs %s`", e.Container)
}

// AbsentError says that there is no running simulator to talk to.
type AbsentError struct {
	Role      string // of the container
	Container string
	State     string // "" if there is no container
}

func (e *AbsentError) Error() string {
	if e.State == "" {
		return fmt.Sprintf("there is no %s %q", cmp.Or(e.Role, RoleSimulator), e.Container)
	}
	return fmt.Sprintf("%s %q is not running but %s", cmp.Or(e.Role, RoleSimulator), e.Container, e.State)
}

// Hint says how to get on.
func (e *AbsentError) Hint() string { return "`ctis up` starts it" }

// ImageError says that an image could not be built or pulled.
type ImageError struct {
	Op    string // "build", "pull" or "push"
	Ref   string
	Lines []string // the last the builder or engine said
	Err   error
}

func (e *ImageError) Error() string {
	s := fmt.Sprintf("%s of image %q failed: %v", e.Op, e.Ref, e.Err)
	if len(e.Lines) > 0 {
		s += "; its last lines:\n  " + strings.Join(e.Lines, "\n  ")
	}
	return s
}

func (e *ImageError) Unwrap() error { return e.Err }

// Hint says how to get on.
func (e *ImageError) Hint() string {
	if e.Op == "push" {
		return "check the name and that you may write there; `docker login` keeps the credentials that are used"
	}
	said := strings.ToLower(e.Err.Error() + "\n" + strings.Join(e.Lines, "\n"))
	for _, c := range buildCauses {
		if slices.ContainsFunc(c.said, func(s string) bool { return strings.Contains(said, s) }) {
			return c.hint
		}
	}
	if e.Op == "pull" {
		return "check the name and that you may pull it; `docker login` keeps the credentials that are used"
	}
	return "correct the source, or name a built image with `--image REF`"
}

// Refused says whether a registry answered, and would not give the image.
func (e *ImageError) Refused() bool {
	said := strings.ToLower(e.Err.Error())
	return e.Op == "pull" && slices.ContainsFunc(saidByRegistries, func(s string) bool { return strings.Contains(said, s) })
}

// saidByRegistries is in what engines say where a registry refuses.
var saidByRegistries = []string{"pull access denied", "manifest unknown", "unauthorized", "authentication required", "no basic auth credentials", "repository does not exist"}

// buildCauses are causes of a failed build or pull that are not in its source. Neither engine
// nor builder tells them apart by anything but words.
var buildCauses = []struct {
	said []string
	hint string
}{
	{[]string{"no space left on device", "disk quota exceeded"}, "make room where the engine keeps its images and in the directory for temporary files; `ctis gc` removes superseded images"},
	{[]string{"dial tcp", "no such host", "i/o timeout", "tls handshake", "connection refused", "server misbehaving", "client.timeout exceeded", "proxyconnect", "toomanyrequests"},
		"the engine or the build asks for something over the network and does not get it; try again when that answers, load the images with `docker load`, or name a built one with `--image REF` (the image of ctis itself needs none where there is a Go toolchain)"},
	{saidByRegistries,
		"check the name of the image and that you may pull it; `docker login` keeps the credentials that are used"},
}

// NeedsBuildKitError says that a Dockerfile cannot be built here: it has what only
// BuildKit does. Nothing was built.
type NeedsBuildKitError struct {
	Dockerfile string
	Needs      []imagehash.Need
}

func (e *NeedsBuildKitError) Error() string {
	var lines []string
	for _, n := range e.Needs {
		if n.Line == 0 {
			lines = append(lines, "\n  "+n.What)
			continue
		}
		lines = append(lines, fmt.Sprintf("\n  %s:%d: %s", e.Dockerfile, n.Line, n.What))
	}
	return "the Dockerfile needs BuildKit, and the docker command here has no buildx plugin:" + strings.Join(lines, "")
}

// Hint says how to get on.
func (e *NeedsBuildKitError) Hint() string {
	return "install Docker's package docker-buildx-plugin, or write these lines in another way"
}
