package trust

import (
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Some programs bring trust stores of their own, in the directory they are
// installed in. They are found by what the container says of itself: PATH, a few
// variables and the working directory. The engine lists no directory without
// sending all that is in it, and each question costs it a mount, so that what is
// asked is little: one question for each program and directory.

// maxBins bounds the directories of programs that are asked about.
const maxBins = 12

// defaultPath is what the engine sets where an image says nothing.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// bins are the directories in which programs of the container lie. /bin is what
// /usr/bin is, or has neither Java nor Python.
func (e bundleEnv) bins() []string {
	var dirs []string
	add := func(dir string) {
		dir = path.Clean(dir)
		if path.IsAbs(dir) && path.Base(dir) == "bin" && dir != "/bin" && len(dirs) < maxBins && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if at := e.vars[name]; at != "" {
			add(path.Join(at, "bin"))
		}
	}
	searched, set := e.vars["PATH"]
	if !set {
		searched = defaultPath
	}
	for _, dir := range strings.Split(searched, ":") {
		add(dir)
	}
	if path.IsAbs(e.workdir) && path.Clean(e.workdir) != "/" {
		add(path.Join(e.workdir, ".venv/bin"))
		add(path.Join(e.workdir, "venv/bin"))
	}
	return dirs
}

// programs finds a program in those directories, each with the real path it leads
// to.
func (p *planner) programs(ctx context.Context, name string) (map[string]string, error) {
	if found, done := p.found[name]; done {
		return found, nil
	}
	found := map[string]string{}
	for _, dir := range p.env.bins() {
		if p.absent(dir) {
			continue
		}
		at := path.Join(dir, name)
		s, err := p.files.eng.ContainerStatPath(ctx, p.files.id, at)
		switch {
		case errdefs.IsNotFound(err):
		case err != nil:
			return nil, err
		default:
			found[dir] = realPath(at, s)
		}
	}
	if p.found == nil {
		p.found = map[string]map[string]string{}
	}
	p.found[name] = found
	return found, nil
}

// absent knows directories of programs that a look at another one showed to be
// missing with all that is above them.
func (p *planner) absent(dir string) bool {
	for at := dir; at != "/"; at = path.Dir(at) {
		if e, known := p.files.entries[at]; known && e == nil {
			return true
		}
	}
	return false
}

// realPath is where a path ends, as the engine says: of a link it follows every
// further one.
func realPath(p string, s container.PathStat) string {
	if s.LinkTarget != "" {
		return path.Clean("/" + s.LinkTarget)
	}
	return p
}

// javaHomes are the directories of Java runtimes, as far as they can be known.
func (p *planner) javaHomes(ctx context.Context) ([]string, error) {
	var homes []string
	add := func(home string) {
		if home = path.Clean(home); path.IsAbs(home) && home != "/" && home != "/usr" && !slices.Contains(homes, home) && len(homes) < maxBins {
			homes = append(homes, home)
		}
	}
	for _, name := range []string{"JAVA_HOME", "JRE_HOME", "JDK_HOME"} {
		add(p.env.vars[name])
	}
	found, err := p.programs(ctx, "java")
	if err != nil {
		return nil, err
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		add(path.Dir(path.Dir(found[dir])))
	}
	if len(found) == 0 {
		return homes, nil
	}
	// Further ones beside the first are known to the systems' own tools.
	for _, db := range []string{"/var/lib/dpkg/alternatives/java", "/var/lib/alternatives/java"} {
		there, err := p.files.there(ctx, db)
		if err != nil || !there {
			if err = onlyEngine(err); err != nil {
				return nil, err
			}
			continue
		}
		e, err := p.files.read(ctx, db)
		if err = onlyEngine(err); err != nil {
			return nil, err
		}
		if e == nil {
			continue
		}
		for _, line := range strings.Split(string(e.data), "\n") {
			if strings.HasSuffix(line, "/bin/java") {
				add(strings.TrimSuffix(line, "/bin/java"))
			}
		}
	}
	return homes, nil
}

// javaStores are the keystores that are there apart from those below the tree
// roots: jssecacerts is what Java reads instead of cacerts where it exists, and
// jre is where Java 8 has both.
func (p *planner) javaStores(ctx context.Context) ([]string, error) {
	stores := []string{
		"/etc/ssl/certs/java/cacerts",                     // Debian, Alpine, Arch
		"/etc/pki/ca-trust/extracted/java/cacerts",        // Red Hat
		"/etc/pki/java/cacerts",                           // Red Hat, older
		"/etc/ca-certificates/extracted/java-cacerts.jks", // Arch, where the first leads
	}
	for real := range p.seen {
		if path.Dir(real) == "/var/lib/ca-certificates" { // SUSE
			stores = append(stores, "/var/lib/ca-certificates/java-cacerts")
		}
	}
	homes, err := p.javaHomes(ctx)
	if err != nil {
		return nil, err
	}
	for _, home := range homes {
		for _, name := range []string{"lib/security/cacerts", "lib/security/jssecacerts", "jre/lib/security/cacerts"} {
			stores = append(stores, path.Join(home, name))
		}
	}
	return stores, nil
}

// pythonVersion is the end of a Python's real path: "python3.11".
var pythonVersion = regexp.MustCompile(`^python3\.\d{1,2}$`)

// pythonBundles are the files that certifi brings, the one inside pip included:
// what requests and httpx go by when no variable tells them otherwise.
func (p *planner) pythonBundles(ctx context.Context) ([]string, error) {
	found, err := p.programs(ctx, "python3")
	if err != nil {
		return nil, err
	}
	var sites []string
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		version, prefix := path.Base(found[dir]), path.Dir(dir)
		if !pythonVersion.MatchString(version) {
			continue
		}
		sites = append(sites, path.Join(prefix, "lib", version, "site-packages"))
		if prefix == "/usr" { // Debian keeps packages of its own apart from pip's
			sites = append(sites, "/usr/lib/python3/dist-packages", path.Join("/usr/local/lib", version, "dist-packages"))
		}
	}
	var bundles []string
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if prefix := path.Dir(dir); !strings.HasPrefix(prefix, "/usr") {
			bundles = append(bundles, path.Join(prefix, "ssl/cacert.pem")) // conda's OpenSSL
		}
	}
	for _, site := range sites {
		for _, name := range []string{"certifi/cacert.pem", "pip/_vendor/certifi/cacert.pem"} {
			bundles = append(bundles, path.Join(site, name))
		}
	}
	return bundles, nil
}
