package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// authority is a certificate as a ca_file has one.
const authority = `-----BEGIN CERTIFICATE-----
MIIBEzCBuqADAgECAgEBMAoGCCqGSM49BAMCMAAwIhgPMjAwMDAxMDEwMDAwMDBa
GA8yMTAwMDEwMTAwMDAwMFowADBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFqq
-----END CERTIFICATE-----
`

func TestKeysShowInNoWay(t *testing.T) {
	k := Keys{"OPENAI_API_KEY": "hunter2", "A": "hunter3"}
	b, err := json.Marshal(map[string]any{"k": k, "e": &Environment{Keys: k}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		text += fmt.Sprintf(verb+verb+verb, k, &k, struct{ K Keys }{k}) + fmt.Sprintf(verb, &Environment{Keys: k})
	}
	if strings.Contains(text, "hunter") || !strings.Contains(text, "OPENAI_API_KEY") || strings.Contains(text, fmt.Sprintf("%x", "hunter")) {
		t.Errorf("%s", text)
	}
}

func TestKeysAreThoseOfTheFileThatAreSet(t *testing.T) {
	dir := writeEnvironment(t, "network='default'\nupstream_proxies=['openai','mistral',{host='a.example',api_key_env='MINE'},{host='b.example'}]\n",
		"services: {default: {image: x}}\n")
	write(t, dir, ".env", "MINE=from-file\nOPENAI_API_KEY=from-file\n")
	e := mustLoad(t, Options{Dir: dir, Environ: []string{"OPENAI_API_KEY=from-process", "OTHER=x", "MISTRAL_API_KEY="}})
	if len(e.Keys) != 2 || e.Keys["MINE"] != "from-file" || e.Keys["OPENAI_API_KEY"] != "from-process" {
		t.Errorf("%v", map[string]string(e.Keys))
	}
	if got := strings.Join(e.Hostnames(), " "); got != "api.openai.com api.mistral.ai a.example b.example" {
		t.Errorf("%s", got)
	}
	r := e.Registration("t1", nil, nil)
	if len(r.Upstreams) != 4 || r.Upstreams[2].KeyEnv != "MINE" {
		t.Errorf("%+v", r.Upstreams)
	}
	if b, err := json.Marshal(r); err != nil || strings.Contains(string(b), "from-") {
		t.Errorf("the registration has a key: %s, %v", b, err)
	}
}

func TestAuthoritiesAreReadFromBesideTheFile(t *testing.T) {
	real := pemOf(t)
	toml := func(line string) string {
		return "network='default'\nupstream_proxies=[{host='https://a.example:8443', " + line + "}]\n"
	}
	dir := writeEnvironment(t, toml("ca_file='ca.pem'"), "services: {default: {image: x}}\n")
	write(t, dir, "ca.pem", "some words\n-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"+real)
	e := mustLoad(t, Options{Dir: dir})
	got := e.Config.Upstreams[0].Authorities
	if got != real {
		t.Errorf("%q, want the certificate alone", got)
	}
	write(t, dir, "ca.pem", real+real)
	if again := mustLoad(t, Options{Dir: dir}); again.Settings == e.Settings {
		t.Error("another file gives the same settings")
	}
	for line, want := range map[string]string{
		"ca_file='none.pem'":   `ca_file "none.pem" does not exist`,
		"ca_file='../ca.pem'":  `ca_file "../ca.pem" leaves the environment's directory`,
		"ca_file='/ca.pem'":    `leaves the environment's directory`,
		"ca_file='words.pem'":  `ca_file "words.pem" has no certificate in it`,
		"ca_file='broken.pem'": `ca_file "broken.pem" has a certificate that cannot be read`,
		"ca_file=1":            "must be a string",
	} {
		dir := writeEnvironment(t, toml(line), "services: {default: {image: x}}\n")
		write(t, dir, "words.pem", "none")
		write(t, dir, "broken.pem", authority)
		_, ps := Load(context.Background(), Options{Dir: dir})
		if text := render(ps, dir); !ps.HasErrors() || !strings.Contains(text, want) || !strings.Contains(text, "ctis.toml:2:") {
			t.Errorf("%s: %s", line, text)
		}
	}
	plain := writeEnvironment(t, "network='default'\nupstream_proxies=[{host='http://a.example', ca_file='ca.pem'}]\n", "services: {default: {image: x}}\n")
	write(t, plain, "ca.pem", real)
	if _, ps := Load(context.Background(), Options{Dir: plain}); !strings.Contains(render(ps, plain), "ca_file verifies TLS") {
		t.Errorf("%s", render(ps, plain))
	}
}

// pemOf is a certificate.
func pemOf(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
