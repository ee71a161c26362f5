package compose

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// finding is what compose-go has stopped at, in the words of this package.
type finding struct {
	path          []string // in the model; as much as is known
	message, hint string
}

// wording translates one kind of message. In path, message and hint, $1 and so on
// stand for what the groups of pattern have matched, and $S for the service that
// was asked about.
type wording struct {
	pattern             *regexp.Regexp
	path, message, hint string
}

func translation(pattern, path, message, hint string) wording {
	return wording{regexp.MustCompile(pattern), path, message, hint}
}

// rules are about all that compose-go v2 says of a model that has the right
// shape, in the order in which they are tried. Its texts are not part of its
// interface: one that has changed is shown as it is, at the place that it names.
var rules = []wording{
	translation(`^(\S+)\.([^.\s]+) false schema$`, "$1.$2", "unknown attribute \"$2\" in $1", ""),
	translation(`^(\S+) additional propert(?:y|ies) '([^']+)'.* not allowed$`, "$1.$2", "unknown attribute \"$2\" in $1", ""),
	translation(`^dependency cycle detected: (\S+) (->.*)$`, "services.$1.depends_on", "services wait for each other in a circle: $1 $2", "remove one of the dependencies"),
	translation(`mutualy? exclusive dockerfile and dockerfile_inline`, "services.$S.build.dockerfile_inline", "service $Q has both a dockerfile and a dockerfile_inline", "keep one of them"),
	translation(`declares unknown service "([^"]+)" as additional contexts (\S+)`, "services.$S.build.additional_contexts.$2", "service $Q builds with the service \"$1\", which is not declared", ""),
	translation(`declares non-buildable service "([^"]+)" as additional contexts (\S+)`, "services.$S.build.additional_contexts.$2", "service $Q builds with the service \"$1\", which is not built itself", ""),
	translation(`build.platforms MUST include service.platform "([^"]+)"`, "services.$S.build.platforms", "service $Q runs on the platform \"$1\", for which it is not built", "add it to build.platforms"),
	translation(`mutually exclusive .network_mode. and .networks.`, "services.$S.network_mode", "service $Q has both network_mode and networks", "keep one of them"),
	translation(`healthcheck.test must start either by`, "services.$S.healthcheck.test", "service $Q has a healthcheck.test that begins with none of \"CMD\", \"CMD-SHELL\" and \"NONE\"", "write test: [CMD, program, argument]"),
	translation(`cannot depend on job "([^"]+)"`, "services.$S.depends_on.$1", "service $Q depends on the job \"$1\"", "a service can depend on services only"),
	translation(`refers to undefined build secret (\S+)$`, "services.$S.build.secrets.$1", "service $Q builds with the secret \"$1\", which is not declared", "declare it at the top of a Compose file"),
	translation(`refers to undefined (config|secret|model|volume|network) (\S+)$`, "services.$S.$1s.$2", "service $Q uses the $1 \"$2\", which is not declared", "declare it at the top of a Compose file"),
	translation(`^services\.([^:]+): can't set distinct values on '([^']+)' and '([^']+)'`, "services.$1.$2", "service \"$1\" sets both $2 and $3, to different values", "keep one of them"),
	translation(`^services\.(.+)\.(scale|deploy\.replicas): must be greater than or equal to 0`, "services.$1.$2", "service \"$1\" has a negative number of replicas", ""),
	translation(`can't set container_name and (\S+) as container name must be unique`, "services.$1.container_name", "service \"$1\" has a container_name and more than one replica, which cannot share it", "remove container_name"),
	translation(`^services\.(.+)\.develop\.watch: target is required`, "services.$1.develop.watch", "service \"$1\" has a develop.watch without a target, which only rebuilding needs not", ""),
	translation(`^services\.([^.]+)\.(.+): target (\S+) already mounted as (\S+)$`, "services.$1.$2", "service \"$1\" mounts two things at \"$3\"", "the other one is $4"),
	translation(`declared both as a service and a job`, "services.$S", "service $Q is declared as a job too", "give one of them another name"),
	translation(`secret "([^"]+)" must declare either .file. or .environment.`, "secrets.$1", "secret \"$1\" says neither file nor environment", "say where it comes from"),
	translation(`^cannot extend service "([^"]+)" in .*: service "([^"]+)" not found in (.*)$`, "services.$1.extends.service", "service \"$1\" extends \"$2\", which $3 does not have", ""),
	translation(`^cannot extend service "([^"]+)" in .*: service "([^"]+)" not found$`, "services.$1.extends.service", "service \"$1\" extends \"$2\", which is not declared", ""),
	translation(`^cannot extend service "([^"]+)" in (.*): (?:no services section|services must be a mapping)`, "services.$1.extends", "service \"$1\" extends one of $2, which has no services", ""),
	translation(`^extends\.(.+)\.service is required`, "services.$1.extends", "service \"$1\" extends a file without saying which service of it", "write extends: {file: …, service: …}"),
	translation(`^(networks|volumes|secrets|configs)\.([^:]+): conflicting parameters "external" and "([^"]+)" specified`, "$1.$2.$3", "$1.$2 is external, so its $3 is not for this file to say", "remove $3, or external"),
	translation(`^(\w+)\.([^:]+): name and external\.name conflict`, "$1.$2.external", "$1.$2 has a name and an external.name", "keep name"),
	translation(`^([^:\s]+): (\S+) attributes are mutually exclusive`, "$1", "$1 has more than one of $2", "keep one of them"),
	translation(`^([^:\s]+): one of (\S+) must be set`, "$1", "$1 has none of $2", "set one of them"),
	translation(`^([^:\s]+): value can't be blank`, "$1", "$1 is empty", "write a value, or remove it"),
	translation(`^([^:\s]+): "count" and "device_ids" attributes are exclusive`, "$1", "$1 has both count and device_ids", "keep one of them"),
	translation(`^([^:\s]+): invalid ip address: (\S*)$`, "$1", "$1 has \"$2\", which is no address", ""),
	translation(`^cannot override (\S+)$`, "$1", "$1 has another form in one file than in another, so they cannot be merged", "write it the same way in both, or replace it with !override"),
	translation(`^(\S+): cannot merge logging`, "$1", "$1 has another form in one file than in another, so they cannot be merged", "write it the same way in both"),
	translation(`^service (volume|device) (\S+) is missing a mount target`, "$2", "$2 has no target", "say where in the container it goes"),
	translation(`^service ports (\S+) is missing a target port`, "$1", "$1 has no target", "say which port of the container it is"),
	translation(`^environment path attribute (\S+) is missing`, "$1", "$1 has no target", ""),
	translation(`invalid mount config for type "bind": field Source must not be empty`, "services.$S.volumes", "service $Q has a bind mount without a source", "a variable that is not set makes an empty source"),
	translation(`^environment variable (.*?) +is declared with a trailing space`, "services.$S.environment", "service $Q has the variable \"$1\" with a space behind its name", "remove the space"),
	translation(`^invalid additional host, missing IP: (.*)$`, "services.$S.extra_hosts.$1", "service $Q has the extra host \"$1\" without an address", "write $1:ADDRESS"),
	translation(`^bad host name '(.*)'$`, "services.$S.extra_hosts", "service $Q has the extra host \"$1\", which is no name", ""),
	translation(`^invalid pull_policy "([^"]*)"`, "services.$S.pull_policy", "service $Q has the pull_policy \"$1\"", "write always, missing, never or build"),
	translation(`invalid duration "([^"]*)"`, "services.$S", "service $Q has the duration \"$1\", which is none", "write 30s or 1m30s"),
	translation(`missing unit in duration "([^"]*)"`, "services.$S", "service $Q has the duration \"$1\" without a unit", "write $1s or $1m"),
	translation(`^(?:invalid hostPort|Invalid hostPort|invalid host port): ?(.*)$`, "services.$S.ports", "service $Q has the host port \"$1\", which is none", "a port is a number up to 65535"),
	translation(`^(?:invalid containerPort|Invalid containerPort|invalid container port): ?(.*)$`, "services.$S.ports", "service $Q has the port \"$1\", which is none", "a port is a number up to 65535"),
	translation(`^[Ii]nvalid proto: ?(.*)$`, "services.$S.ports", "service $Q has a port with the protocol \"$1\"", "write tcp, udp or sctp"),
	translation(`^service "([^"]+)" not found for network_mode`, "services.$S.network_mode", "service $Q has the network of \"$1\", which is not declared", ""),
	translation(`^invalid spec: (.*): empty section between colons$`, "services.$S.volumes", "service $Q has the volume \"$1\", in which something is empty", "a variable that is not set leaves a part empty"),
	translation(`^non-string key (?:at|in) ?(.*): (.*)$`, "$1", "the key $2 is no text", "put it in quotes"),
	translation(`^(?:services\.([^:]+): )?container name "([^"]+)" is already in use by service`, "services.$1.container_name", "two services have the container_name \"$2\"", ""),
	translation(`^Circular reference: (\S+) in (\S+) (extends .*)$`, "services.$1.extends", "services extend each other in a circle: $1 $3", "remove one of the extends"),
	translation(`^invalid size: '(.*)'$`, "services.$S", "service $Q has the size \"$1\", which is none", "write 64m or 1g"),
	translation(`^invalid value "([^"]*)", the only value allowed is 'all' or a number`, "services.$S", "service $Q has the count \"$1\"", "write all or a number"),
	translation(`^invalid command line string`, "services.$S", "service $Q has a command line with a quote that is not closed", "write it as a list: [program, argument]"),
	translation(`^top-level object must be a mapping`, "", "a Compose file must be a mapping at its top", ""),
	translation(`^empty compose file$`, "", "this Compose file is empty", ""),
}

// goTypes is how Go names the shapes of values, and how people do.
var goTypes = strings.NewReplacer(
	"map[string]interface {}", "a mapping", "map[string]any", "a mapping", "[]interface {}", "a list", "[]any", "a list",
	"invalid type ", "is ", "unexpected type ", "is ", "unsupported type ", "is ", "<nil>", "nothing",
)

var (
	pathInText    = regexp.MustCompile(`\b(?:services|networks|volumes|secrets|configs|jobs|models)\.[^\s:]+`)
	decoding      = regexp.MustCompile(`^decoding failed due to the following error\(s\): '([^']+)' (.*)$`)
	yamlInText    = regexp.MustCompile(`^failed to parse (\S+): .* at L(\d+)\.C(\d+): (.*?)(?:; try decoding.*)?$`)
	serviceInText = regexp.MustCompile(`^service "?([\w.-]+)"?`)
	// What stands before the cause in compose-go's own words, or after it.
	around = regexp.MustCompile(`^(?:validating \S+: |services\.[\w.-]+(?:\.[\w-]+)*(?:\.\[\d*\])?: |failed to parse \S+: |error decoding '[^']*': )+`)
)

const decodingFailed = "decoding failed due to the following error(s):"

// parts are the errors that compose-go gives as one text.
func parts(err error) []error {
	list, several := strings.CutPrefix(err.Error(), decodingFailed)
	if !several {
		return []error{err}
	}
	var all []error
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, errors.New(decodingFailed+" "+line))
		}
	}
	return all
}

// translate puts compose-go's error about a model into plain words. service is
// the one that was asked about, or "".
func translate(err error, service string) finding {
	text := strings.TrimSuffix(strings.Join(strings.Fields(err.Error()), " "), ": invalid compose project")
	path := pathOf(text)
	if m := decoding.FindStringSubmatch(text); m != nil {
		path, text = splitPath(m[1]), m[2]
	}
	f := finding{path: path}
	if m := serviceInText.FindStringSubmatch(text); m != nil {
		service = m[1]
	}
	if service == "" && len(f.path) > 1 && f.path[0] == "services" {
		service = f.path[1]
	}
	if len(f.path) == 0 && service != "" {
		f.path = []string{"services", service}
	}
	for _, shorter := range []string{text, around.ReplaceAllString(text, "")} {
		for _, r := range rules {
			m := r.pattern.FindStringSubmatchIndex(shorter)
			if m == nil {
				continue
			}
			fill := func(template string) string {
				template = strings.NewReplacer("$S", escape(service), "$Q", fmt.Sprintf("%q", escape(service))).Replace(template)
				return string(r.pattern.ExpandString(nil, braces.ReplaceAllString(template, "$${$1}"), shorter, m))
			}
			if strings.Contains(r.path, "$S") && service == "" {
				r.path = ""
			}
			if p := splitPath(fill(r.path)); len(p) > len(f.path) || len(f.path) > 0 && p[0] != f.path[0] {
				f.path = p
			}
			f.message, f.hint = strings.NewReplacer(".[", "[", "|", ", ").Replace(fill(r.message)), fill(r.hint)
			return f
		}
	}
	if len(f.path) > 0 {
		text = strings.Join(f.path, ".") + ": " + around.ReplaceAllString(text, "")
	}
	f.message = goTypes.Replace(text)
	return f
}

var braces = regexp.MustCompile(`\$(\d)`)

// pathOf finds a path of the model in compose-go's words.
func pathOf(text string) []string { return splitPath(pathInText.FindString(text)) }

func splitPath(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(strings.Trim(strings.NewReplacer(".[", ".", "[", ".", "]", "").Replace(path), "."), ".")
}

// longestMessage is how much of a message is shown, in bytes: it can quote a
// whole file.
const longestMessage = 400

// report adds what compose-go has stopped at to the problems.
func (d *diagnosis) report(err error, service string) {
	var missing *fs.PathError
	switch {
	case d.circle(err), d.unreadable(err):
	case errors.As(err, &missing) && remote(missing.Path) != "":
		d.problems.errorf(d.mention(missing.Path), "%q is on another machine, and an environment is read from this one", remote(missing.Path)).
			hint("put a copy beside the environment and name its path")
	case errors.As(err, &missing):
		d.problems.errorf(d.mention(missing.Path), "%q: %s", d.model.shown(missing.Path), reason(err))
	default:
		d.add(translate(err, service))
	}
}

// remotePath finds what Compose itself would fetch (git repositories and OCI
// artifacts) in a path that was made of it.
var remotePath = regexp.MustCompile(`(?:^|/)((?:https?|git|ssh|oci):/.*|[\w.-]+@[\w.-]+:.*)$`)

// remote is what a path that does not exist was made of, if that is no local file.
func remote(path string) string {
	m := remotePath.FindStringSubmatch(path)
	if m == nil {
		return ""
	}
	scheme, rest, ok := strings.Cut(m[1], ":/")
	if !ok {
		return m[1]
	}
	return scheme + "://" + strings.TrimPrefix(rest, "/")
}

func (d *diagnosis) add(f finding) { d.addAt(d.within(f), f) }

func (d *diagnosis) addAt(at place, f finding) {
	// compose-go names a file now by its full path, now from the project's directory.
	f.message = strings.ReplaceAll(f.message, d.model.dir+string(filepath.Separator), "")
	if len(f.message) > longestMessage {
		f.message = strings.ToValidUTF8(f.message[:longestMessage], "") + " …"
	}
	d.problems.errorf(at, "%s", f.message).Hint = f.hint
}

// place is where a finding is, as far as the files have its path.
func (d *diagnosis) place(f finding) place {
	for n := len(f.path); n > 1; n-- {
		if d.sources.has(f.path[:n]...) {
			return d.sources.at(f.path[:n]...)
		}
	}
	return d.sources.at()
}

// within is the place of a finding, down to the value that its message quotes.
func (d *diagnosis) within(f finding) place {
	at := d.place(f)
	for _, x := range d.sources {
		if value := x.value(f.path...); value != nil && len(f.path) >= 3 {
			at = d.quotedIn(x, value, f, at)
		}
	}
	return at
}

// quotedIn is where the value that a message quotes stands below n, or otherwise.
func (d *diagnosis) quotedIn(x *yamlIndex, n *yaml.Node, f finding, otherwise place) place {
	vars := x.seenWith(d.vars)[0]
	part := &yamlIndex{file: x.file, roots: []*yaml.Node{resolved(n)}}
	part.scalars(func(_ []string, n *yaml.Node) {
		text, err := bounded()(n.Value, func(k string) (string, bool) { v, ok := vars[k]; return v, ok })
		for _, m := range quotedInText.FindAllStringSubmatch(f.message, -1) {
			if err == nil && m[1] != "" && m[1] != f.path[1] && strings.Contains(text, m[1]) {
				otherwise = x.place(n)
			}
		}
	})
	return otherwise
}

var quotedInText = regexp.MustCompile(`"([^"]*)"`)

// unreadable reports YAML that has a form no Compose file can have.
func (d *diagnosis) unreadable(err error) bool {
	m := yamlInText.FindStringSubmatch(strings.Join(strings.Fields(err.Error()), " "))
	if m == nil {
		return false
	}
	line, _ := strconv.Atoi(m[2]) // digits
	column, _ := strconv.Atoi(m[3])
	d.problems.errorf(place{File: d.model.shown(m[1]), Line: line, Column: column}, "not valid in a Compose file: %s", goTypes.Replace(m[4]))
	return true
}

var circleInText = regexp.MustCompile(`include cycle detected:\s+(\S.*)`)

// circle reports files that include each other, where one is named again.
func (d *diagnosis) circle(err error) bool {
	m := circleInText.FindStringSubmatch(strings.Join(strings.Fields(err.Error()), " "))
	if m == nil {
		return false
	}
	files := strings.Split(m[1], " include ")
	var names []string
	for _, f := range files {
		names = append(names, d.model.shown(f))
	}
	at := d.mention(files[len(files)-1])
	if len(files) > 1 {
		from := files[len(files)-2]
		for _, x := range d.sources {
			if x.path != from {
				continue
			}
			at = mentionIn(x, files[len(files)-1], at)
		}
	}
	d.problems.errorf(at, "files include each other in a circle: %s", strings.Join(names, " → ")).hint("remove this include")
	return true
}
