package compose

import (
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	imageref "github.com/distribution/reference"
)

// Compose reads much that no engine takes: such a model loads, and creating its
// containers fails half-way. What certainly fails is an error here; what fails on
// this machine, and may not on the engine's, or not once something is there, is a
// warning.

// refusals are about what Compose or an engine refuses when it makes containers.
func (c *checker) refusals() {
	files := map[string]bool{}
	for _, name := range c.project.ServiceNames() {
		s := c.project.Services[name]
		if s.Provider != nil || s.GetScale() < 1 {
			continue // nothing is made
		}
		c.refusedNames(name, s)
		c.refusedNetworking(name, s)
		c.refusedLimits(name, s)
		c.refusedMounts(name, s)
		c.buildable(name, s)
		for _, f := range s.Secrets {
			c.content("secret", f.Source, types.FileObjectConfig(c.project.Secrets[f.Source]), files)
		}
		for _, f := range s.Configs {
			c.content("config", f.Source, types.FileObjectConfig(c.project.Configs[f.Source]), files)
		}
	}
}

func (c *checker) inService(service string, path ...string) place {
	return c.sources.at(append([]string{"services", service}, path...)...)
}

func (c *checker) refusedNames(name string, s types.ServiceConfig) {
	if s.Image != "" {
		if _, err := imageref.ParseNormalizedNamed(s.Image); err != nil {
			tell := c.problems.errorf
			if x := c.sources.text("services", name, "image"); strings.Contains(x, "$") { // it may be another when it is brought up
				tell = c.problems.warnf
			}
			p := tell(c.inService(name, "image"), "service %q has the image %q, which is no name of an image", name, s.Image)
			p.hint("write NAME:TAG or HOST/NAME@sha256:DIGEST")
			if lower := strings.ToLower(s.Image); lower != s.Image {
				if _, err := imageref.ParseNormalizedNamed(lower); err == nil {
					p.hint("names of images are in lower case: %s", lower)
				}
			}
		}
	}
	if s.WorkingDir != "" && !absoluteInside(s.WorkingDir) {
		c.problems.errorf(c.inService(name, "working_dir"), "service %q has the working_dir %q, which is not absolute", name, s.WorkingDir).
			hint("write %s", path.Join("/", s.WorkingDir))
	}
	known := []string{"no", "always", "unless-stopped", "on-failure"}
	policy, _, counted := strings.Cut(s.Restart, ":")
	switch {
	case s.Restart == "" || s.Deploy != nil && s.Deploy.RestartPolicy != nil: // that one counts
	case !slices.Contains(known, policy):
		p := c.problems.errorf(c.inService(name, "restart"), "service %q has the restart policy %q, which no engine has", name, s.Restart)
		p.hint("write no, always, unless-stopped, on-failure or on-failure:TIMES")
		p.didYouMean(policy, known)
	case counted && policy != "on-failure":
		c.problems.errorf(c.inService(name, "restart"), "service %q has the restart policy %q: only on-failure counts its tries", name, s.Restart).
			hint("write %s, or on-failure:TIMES", policy)
	}
	for attr, list := range map[string][]string{"cap_add": s.CapAdd, "cap_drop": s.CapDrop} {
		for _, v := range list {
			upper := strings.TrimPrefix(strings.ToUpper(v), "CAP_")
			if !slices.Contains(capabilities, upper) { // kernels get new ones
				c.problems.warnf(c.written().same(name, attr, v), "service %q has %q in %s, which is no capability that is known here", name, v, attr).
					didYouMean(upper, capabilities)
			}
		}
	}
}

// capabilities are those of Linux 6, and what stands for all.
var capabilities = strings.Fields(`ALL AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN
	DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE
	MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN
	SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM`)

// absoluteInside says whether a path is absolute in a container. One of Windows is
// for an engine of Windows to judge.
func absoluteInside(p string) bool { return path.IsAbs(p) || strings.ContainsAny(p, `:\`) }

func (c *checker) refusedNetworking(name string, s types.ServiceConfig) {
	for _, v := range s.DNS {
		if _, err := netip.ParseAddr(v); err != nil {
			c.problems.errorf(c.written().same(name, "dns", v), "service %q has the dns %q, which is no address", name, v).
				hint("write the address of a name server")
		}
	}
	if s.MacAddress != "" {
		if _, err := net.ParseMAC(s.MacAddress); err != nil {
			c.problems.errorf(c.inService(name, "mac_address"), "service %q has the mac_address %q, which is none", name, s.MacAddress).
				hint("write it like 02:42:ac:11:00:02")
		}
	}
	of, shared := strings.CutPrefix(s.NetworkMode, types.ServicePrefix)
	if !shared {
		if of, shared = strings.CutPrefix(s.NetworkMode, types.ContainerPrefix); !shared {
			return
		}
	}
	for _, own := range []struct {
		attr string
		set  bool
	}{
		{"ports", len(s.Ports) > 0}, {"expose", len(s.Expose) > 0}, {"hostname", s.Hostname != ""},
		{"dns", len(s.DNS) > 0}, {"extra_hosts", len(s.ExtraHosts) > 0}, {"mac_address", s.MacAddress != ""}, {"links", len(s.Links) > 0},
	} {
		if own.set {
			c.problems.errorf(c.inService(name, own.attr), "service %q has %s, and the network of %q: no engine takes both", name, own.attr, of).
				hint("write %s at %q, whose network it is", own.attr, of)
		}
	}
}

// leastMemory is what every engine demands for a container, in bytes; newer ones
// demand half as much again.
const leastMemory = 4 << 20

func (c *checker) refusedLimits(name string, s types.ServiceConfig) {
	at, limit := c.inService(name, "mem_limit"), s.MemLimit
	if s.Deploy != nil && s.Deploy.Resources.Limits != nil && s.Deploy.Resources.Limits.MemoryBytes > 0 {
		at, limit = c.inService(name, "deploy", "resources", "limits", "memory"), s.Deploy.Resources.Limits.MemoryBytes
	}
	if limit > 0 && limit < leastMemory {
		c.problems.errorf(at, "service %q may have %d bytes of memory, less than any engine starts a container with", name, limit).
			hint("write 6m at least")
	}
	switch kind, _, of := strings.Cut(s.Ipc, ":"); {
	case of && (kind == "service" || kind == "container"):
	case !slices.Contains([]string{"", "none", "private", "shareable", "host"}, s.Ipc):
		c.problems.errorf(c.inService(name, "ipc"), "service %q has ipc: %s, which no engine knows", name, s.Ipc).
			hint("write none, private, shareable, host or service:NAME")
	}
}

func (c *checker) refusedMounts(name string, s types.ServiceConfig) {
	for _, v := range s.Volumes {
		if v.Target != "" && !absoluteInside(v.Target) {
			c.problems.errorf(c.written().volume(name, v), "service %q mounts something at %q, which is not absolute", name, v.Target).
				hint("write %s", path.Join("/", v.Target))
		}
		if v.Type == types.VolumeTypeBind && v.Bind != nil && !bool(v.Bind.CreateHostPath) && absent(v.Source) {
			c.problems.warnf(c.written().volume(name, v), "service %q mounts %s of the host, which does not exist here and is not to be made", name, c.relative(v.Source)).
				hint("without it on the engine's host, ctis up fails")
		}
	}
}

// buildable warns of a service that is built from what does not exist. Nobody
// misses it where the image is there already.
func (c *checker) buildable(name string, s types.ServiceConfig) {
	if s.Build == nil || !filepath.IsAbs(s.Build.Context) { // of another kind, or another machine
		return
	}
	at := c.inService(name, "build", "context")
	if !c.sources.has("services", name, "build", "context") {
		at = c.inService(name, "build")
	}
	if absent(s.Build.Context) {
		c.problems.warnf(at, "service %q is built from %s, which does not exist", name, c.relative(s.Build.Context)).
			hint("unless its image is on the engine already, ctis up fails")
	}
}

// content looks for what a secret or a config that is used is made of, once.
func (c *checker) content(kind, name string, o types.FileObjectConfig, told map[string]bool) {
	if told[kind+name] || bool(o.External) {
		return
	}
	told[kind+name] = true
	switch {
	case o.File != "" && absent(o.File):
		c.problems.warnf(c.sources.at(kind+"s", name, "file"), "%s %q is the file %s, which does not exist", kind, name, c.relative(o.File)).
			hint("without it where the engine finds it, ctis up fails")
	case o.Environment != "":
		// The value of one that is declared in an included file is its content already.
		if _, set := c.vars[o.Environment]; !set && o.Content == "" {
			c.problems.warnf(c.sources.at(kind+"s", name, "environment"), "%s %q is the variable %q, which is not set", kind, name, o.Environment).
				hint("without it, ctis up fails: export it, or put it into .env beside the Compose file")
		}
	}
}

func absent(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}
