package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
	"github.com/linuxarena/ctis/e2e/secondca"
)

var update = flag.Bool("update", false, "rewrite the table in docs/trust.md")

const (
	trustPersona = "files.example.com"
	trustSecond  = "second.example.net" // certified by an authority that the images trust themselves
	trustWrong   = "wrong.example.net"  // the same server, under a name its certificate is not for
)

// fetcher is a kind of program that decides about trust in a way of its own. Its
// command fetches something from HOST, and succeeds only if that came whole.
type fetcher struct{ name, command string }

var fetchers = []fetcher{
	{"curl", `curl -sSf https://HOST/public/text.txt | grep -x trusted`},
	{"wget (GnuTLS)", `wget -O- https://HOST/public/text.txt | grep -x trusted`},
	{"git", `git ls-remote https://HOST/public/repo.git | grep refs/heads/main`},
	{"OpenSSL", `printf 'GET /public/text.txt HTTP/1.0\r\nHost: HOST\r\n\r\n' | openssl s_client -quiet -verify_return_error -verify_hostname HOST -connect HOST:443 -servername HOST | grep trusted`},
	{"Python urllib", `python3 -c 'import urllib.request as u; print(u.urlopen("https://HOST/public/text.txt").read().decode())' | grep -x trusted`},
	{"Python requests", `python3 -c 'import requests; print(requests.get("https://HOST/public/text.txt").text)' | grep -x trusted`},
	{"Python httpx", `python3 -c 'import httpx; print(httpx.get("https://HOST/public/text.txt").text)' | grep -x trusted`},
	{"Node", `node -e 'fetch("https://HOST/public/text.txt").then(r=>r.text()).then(t=>process.stdout.write(t)).catch(e=>{console.error(e.cause);process.exit(1)})' | grep -x trusted`},
	{"Java", `keytool -J-XX:-UsePerfData -printcrl -file https://HOST/public/list.crl | grep "Second Example"`},
	{"Go program", images.GoProgram + ` https://HOST/public/text.txt | grep -x trusted`},
	{"Go command (modules)", `cd / && export HOME=$(mktemp -d) && GOPROXY=https://HOST/public GONOSUMDB=* GOFLAGS=-mod=mod go list -m -versions example.com/sample | grep -x "example.com/sample v1.0.0"`},
	{"pip", `d=$(mktemp -d) && pip download --retries 0 --no-deps --no-cache-dir -d $d https://HOST/public/sample-1.0-py3-none-any.whl && ls $d | grep sample`},
	{"cargo", `CARGO_HOME=$(mktemp -d) CARGO_NET_RETRY=0 CARGO_REGISTRIES_SAMPLE_INDEX=sparse+https://HOST/public/index/ cargo search --registry sample sample | grep trusted`},
	{"AWS CLI", `AWS_EC2_METADATA_DISABLED=true AWS_REGION=us-east-1 AWS_MAX_ATTEMPTS=1 aws --no-sign-request --endpoint-url https://HOST s3api get-object --bucket public --key text.txt /dev/stdout | grep -x trusted`},
	{"Perl LWP", `perl -MLWP::UserAgent -e 'my $r=LWP::UserAgent->new->get("https://HOST/public/text.txt"); die $r->status_line unless $r->is_success; print $r->content' | grep -x trusted`},
	{"Ruby", `ruby -ropen-uri -e 'print URI.open("https://HOST/public/text.txt").read' | grep -x trusted`},
}

// trustCases are how a container may be run. With a read-only root there is a /tmp, which
// pip, cargo and the go command cannot do without.
var trustCases = []struct{ service, title, settings string }{
	{"rw-root", "root", ""},
	{"rw-user", "uid 1000", `    user: "1000:1000"` + "\n"},
	{"ro-root", "`read_only`, root", "    read_only: true\n    tmpfs: [/tmp]\n"},
	{"ro-user", "`read_only`, uid 1000", "    read_only: true\n    tmpfs: [/tmp]\n    user: \"1000:1000\"\n"},
}

// TestTrustMatrix: whatever program a container has, whoever runs it and however
// its root is mounted, it trusts the persona, and what its image trusted before.
// The same without any variable shows what the files alone do.
func TestTrustMatrix(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	began := time.Now()
	ref, err := images.Runtimes(t.Context(), engine(t))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := secondca.New()
	if err != nil {
		t.Fatal(err)
	}
	id := b.id("trust")
	compose := fmt.Sprintf("services:\n  second:\n    image: %s\n    command: [secure, %s]\n    networks:\n      external: {aliases: [%s, %s]}\n",
		image(t, images.Agent()), trustSecond, trustSecond, trustWrong)
	for _, c := range trustCases {
		compose += fmt.Sprintf("  %s:\n    image: %s\n    command: [wait]\n%s    networks: [external]\n", c.service, ref, c.settings)
	}
	for name, spec := range layouts(string(ca.PEM())) {
		compose += fmt.Sprintf("  %s:\n    image: %s\n    command: [wait]\n    networks: [external]\n", name, image(t, spec))
	}
	dir := environment(t, map[string]string{
		"ctis.toml":   "network = \"external\"\ndefault_service = \"rw-root\"\n[personas.\"" + trustPersona + "\"]\nendpoints = [\"public\"]\n",
		"compose.yml": compose + "networks:\n  external: {}\n",
	})
	t.Logf("images in %s", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	up := b.up(dir, id)
	t.Logf("up in %s", time.Since(began).Round(time.Millisecond))
	b.serveTrustFiles(up.container(t, "rw-root"), ca)

	wrong := b.probe(up.container(t, "rw-root"), true, trustWrong)
	for _, r := range fetchers {
		if wrong[r.name+" "+trustWrong] == "ok" {
			t.Errorf("%s accepts a certificate of another name: it verifies nothing", r.name)
		}
	}
	results := map[string]map[string]string{} // service and how it is told → runtime and host → result
	for _, c := range trustCases {
		results[c.service+" told"] = b.probe(up.container(t, c.service), true, trustPersona, trustSecond)
		if strings.HasSuffix(c.service, "user") { // who can read the files at all tells more than root
			results[c.service+" files"] = b.probe(up.container(t, c.service), false, trustPersona, trustSecond)
		}
	}
	goldenTable(t, results)

	for name := range layouts("") {
		for _, host := range []string{trustPersona, trustSecond} {
			if name == "bare" && host == trustSecond {
				continue // it trusts nobody of its own
			}
			for _, hidden := range [][]string{nil, {"-e", "SSL_CERT_FILE="}} {
				argv := append(append([]string{"exec"}, hidden...), up.container(t, name), images.Program, "fetch", "https://"+host+"/public/text.txt")
				if out, err := exec.Command("docker", argv...).CombinedOutput(); err != nil {
					t.Errorf("layout %s, %s, without %q: %v\n%s", name, host, hidden, err, out)
				}
			}
		}
	}
	began = time.Now()
	b.doctorSees(id, up)
	t.Logf("doctor looked three times in %s", time.Since(began).Round(time.Millisecond))

	// The same settings make the same containers, volumes for read-only roots included.
	began = time.Now()
	again := b.up(dir, id)
	t.Logf("up again in %s", time.Since(began).Round(time.Millisecond))
	for _, s := range up.Services {
		if again.container(t, s.Service) != s.Container {
			t.Errorf("service %q was made anew by a second up", s.Service)
		}
	}
	b.ctis("down", id, "--timeout", "0s").must(t, 0)
	if left := b.leftOf(id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// layouts are images FROM scratch with nothing but a Go program and the authorities
// where a distribution has them; the bare one has none.
func layouts(ca string) map[string]images.ScratchSpec {
	spec := func(name string, files, links map[string]string) images.ScratchSpec {
		return images.ScratchSpec{Name: "layout-" + name, Package: images.Agent().Package, Files: files, Links: links}
	}
	return map[string]images.ScratchSpec{
		"bare":   spec("bare", nil, nil),
		"alpine": spec("alpine", map[string]string{"/etc/ssl/certs/ca-certificates.crt": ca}, map[string]string{"/etc/ssl/cert.pem": "certs/ca-certificates.crt"}),
		"el9": spec("el9", map[string]string{"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": ca, "/etc/pki/ca-trust/source/anchors/.keep": ""},
			map[string]string{"/etc/pki/tls/certs/ca-bundle.crt": "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/pki/tls/cert.pem": "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/certs": "../pki/tls/certs"}),
		"el10": spec("el10", map[string]string{"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": ca, "/etc/pki/ca-trust/extracted/pem/directory-hash/second.pem": ca},
			map[string]string{"/etc/pki/tls/certs/ca-bundle.crt": "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/certs": "/etc/pki/ca-trust/extracted/pem/directory-hash"}),
		"suse": spec("suse", map[string]string{"/var/lib/ca-certificates/ca-bundle.pem": ca}, map[string]string{"/etc/ssl/ca-bundle.pem": "/var/lib/ca-certificates/ca-bundle.pem"}),
	}
}

// serveTrustFiles gives the persona what the second server has too.
func (b *bed) serveTrustFiles(container string, ca *secondca.Authority) {
	b.t.Helper()
	files, err := ca.Files(trustPersona)
	if err != nil {
		b.t.Fatal(err)
	}
	for name, content := range files {
		cmd := exec.Command("docker", "exec", "-i", container, "curl", "-sSf", "-T", "-", "https://"+trustPersona+"/public/"+name)
		cmd.Stdin = bytes.NewReader(content)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.t.Fatalf("put %s: %v\n%s", name, err, out)
		}
	}
}

// probe runs every runtime against every host, all at once, and returns "ok" or
// what went wrong by runtime and host. Without variables they get PATH and HOME alone.
func (b *bed) probe(container string, told bool, hosts ...string) map[string]string {
	b.t.Helper()
	var script strings.Builder
	for _, host := range hosts {
		for _, r := range fetchers {
			fmt.Fprintf(&script, "{ out=$(timeout 120 sh -c %s 2>&1) && echo %s\"|ok\" || echo %s\"|$(echo \"$out\" | tr '\\n' ' ' | tail -c 400)\"; } &\n",
				shellQuote(strings.ReplaceAll(r.command, "HOST", host)), shellQuote(r.name+" "+host), shellQuote(r.name+" "+host))
		}
	}
	script.WriteString("wait\n")
	argv := []string{"exec", container}
	if !told {
		argv = append(argv, "env", "-i", "HOME=/", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	began := time.Now()
	defer func() { b.t.Logf("probed in %s", time.Since(began).Round(time.Millisecond)) }()
	out, err := exec.Command("docker", append(argv, "sh", "-c", script.String())...).Output()
	if err != nil {
		b.t.Fatalf("probe in %s: %v\n%s", container, err, out)
	}
	got := map[string]string{}
	for _, line := range lines(string(out)) {
		key, result, _ := strings.Cut(line, "|")
		got[key] = result
	}
	if len(got) != len(hosts)*len(fetchers) {
		b.t.Fatalf("%d results for %d runtimes and %d hosts:\n%s", len(got), len(fetchers), len(hosts), out)
	}
	return got
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// goldenTable compares what came out with the table in the docs.
func goldenTable(t *testing.T, results map[string]map[string]string) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| program |")
	for _, c := range trustCases {
		table.WriteString(" " + c.title + " |")
	}
	table.WriteString(" files alone, no variable |\n|---|" + strings.Repeat("---|", len(trustCases)+1) + "\n")
	cell := func(r fetcher, where string) string {
		for _, host := range []string{trustPersona, trustSecond} {
			if got := results[where][r.name+" "+host]; got != "ok" {
				t.Logf("%s, %s, %s: %s", r.name, where, host, got)
				return "no"
			}
		}
		return "yes"
	}
	for _, r := range fetchers {
		row, files := "| "+r.name+" |", "yes"
		for _, c := range trustCases {
			row += " " + cell(r, c.service+" told") + " |"
			if results[c.service+" files"] != nil && cell(r, c.service+" files") != "yes" {
				files = "no"
			}
		}
		table.WriteString(row + " " + files + " |\n")
	}
	const doc, begin, end = "../docs/trust.md", "<!-- the table is written by: go test ./e2e -run TestTrustMatrix -update -->\n", "<!-- end of the table -->"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", doc)
	}
	if old == table.String() {
		return
	}
	if !*update {
		t.Errorf("the table in %s is\n%s\nand should be\n%s", doc, old, table.String())
		return
	}
	if err := os.WriteFile(doc, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// doctorSees: all is well, until an agent empties a bundle.
func (b *bed) doctorSees(id string, up upJSON) {
	b.t.Helper()
	type report struct {
		Checks []struct {
			Name, Detail, Fix string
			OK                bool
		}
		Services []struct {
			Service string
			Stores  []struct {
				Path  string
				Holds bool
				Roots int
			}
		}
	}
	look := func(code int) (r report) {
		b.t.Helper()
		if err := json.Unmarshal([]byte(b.ctis("doctor", id, "--json").must(b.t, code).stdout), &r); err != nil {
			b.t.Fatal(err)
		}
		return r
	}
	r := look(0)
	if len(r.Checks) != len(up.Services)+1 || len(r.Services) != len(up.Services) {
		b.t.Errorf("doctor looked at %d services of %d: %+v", len(r.Services), len(up.Services), r.Checks)
	}
	for _, s := range r.Services {
		if strings.HasPrefix(s.Service, "r") && (len(s.Stores) < 4 || s.Stores[0].Roots < 100) {
			b.t.Errorf("doctor on %q: %+v", s.Service, s.Stores)
		}
	}
	b.exec(up.container(b.t, "rw-root"), "sh", "-c", "> /etc/ssl/certs/ca-certificates.crt")
	out := b.ctis("doctor", id).must(b.t, 1).stdout
	for _, want := range []string{"NO  service rw-root", "/etc/ssl/certs/ca-certificates.crt lacks", "fix: ", "ok  service ro-user", "keystore"} {
		if !strings.Contains(out, want) {
			b.t.Errorf("after a bundle was emptied doctor does not say %q:\n%s", want, out)
		}
	}
	// Nor does it read for ever what an agent laid out for it.
	b.exec(up.container(b.t, "rw-root"), "sh", "-c", "truncate -s 4T /etc/ssl/certs/more.pem; rm /etc/ssl/certs/ca-certificates.crt; mkfifo /etc/ssl/certs/ca-certificates.crt")
	r = look(1)
	for _, c := range r.Checks {
		if c.OK != (c.Name != "service rw-root") || !c.OK && !strings.Contains(c.Detail, "more than 268435456 bytes") {
			b.t.Errorf("after a file without end was laid: %+v", c)
		}
	}
}
