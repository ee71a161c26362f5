package compose

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// originsText renders origins one variable a line, with paths as in dir.
func originsText(o *Origins, dir string) string {
	var b strings.Builder
	at := func(s Source) string {
		if s.File == "" {
			return string(s.Kind)
		}
		return fmt.Sprintf("%s %s:%d:%d", s.Kind, s.File, s.Line, s.Column)
	}
	for _, v := range o.Variables {
		value := "unset"
		if v.Value != nil {
			value = fmt.Sprintf("%q", *v.Value)
		}
		fmt.Fprintf(&b, "%s = %s from %s", v.Name, value, at(v.Source))
		for _, s := range v.Over {
			fmt.Fprintf(&b, " over %s", at(s))
		}
		if v.Secret {
			b.WriteString(" secret")
		}
		for _, u := range v.Uses {
			fmt.Fprintf(&b, "; %s:%d:%d %s", u.File, u.Line, u.Column, u.How)
			if u.Required {
				b.WriteString("!")
			}
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), dir+"/", "")
}

func TestOriginsOfEveryVariable(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "ctis.toml", "network = 'default'\nrequired_env_vars = ['TOKEN']\nupstream_proxies = [\n  { host = 'a.example', api_key_env = 'VENDOR_KEY' }, 'openai']\n")
	write(t, dir, "compose.yaml", `include: [sub/inc.yaml]
x-common: &common {SHARED: }
services:
  default:
    image: a:${TAG:-latest}${TAG-x}
    build: {args: [ARG, SET=1], context: .}
    environment:
      <<: *common
      BOTH: ${BOTH}
      MUST: ${MUST:?say it}
      NESTED: ${NESTED:-${INNER:-deep}}
      LIT: $$NOT
      EMPTY: ${EMPTY:-filled}
      ID: ${COMPOSE_PROJECT_NAME}
      FILE: ${COMPOSE_FILE}
    secrets: [s]
secrets:
  s: {environment: TOKEN}
`)
	write(t, dir, ".env", "# x\nBOTH=file\nFROM=${USER_NAME}\nEMPTY=\nTWICE=1\nTWICE='${NO}'\n")
	write(t, dir, "sub/inc.yaml", "services: {inc: {image: 'i:${BOTH}-${ONLY}-${TWICE}-${TAG:-latest}'}}\n")
	write(t, dir, "sub/.env", "BOTH=sub\nONLY=sub\n")
	o := Options{Dir: dir, ID: "me", Environ: []string{"BOTH=process", "TOKEN=t", "ARG=a", "USER_NAME=u", "COMPOSE_FILE=evil", "VENDOR_KEY=k", "DOCKER_CONTENT_TRUST=1", "DOCKER_HOST=x"}}
	got, ps := FindOrigins(context.Background(), o)
	if got == nil {
		t.Fatal(ps)
	}
	want := `ARG = "a" from process; compose.yaml:6:20 build argument
BOTH = "process" from process over env_file .env:2:1 over env_file sub/.env:1:1; compose.yaml:9:13 interpolation; sub/inc.yaml:1:25 interpolation
COMPOSE_FILE = unset from unset; compose.yaml:15:13 interpolation
COMPOSE_PROJECT_NAME = "me" from ctis; compose.yaml:14:11 interpolation
EMPTY = "filled" from default compose.yaml:13:14 over env_file .env:4:1; compose.yaml:13:14 interpolation
INNER = "deep" from default compose.yaml:11:15; compose.yaml:11:15 interpolation
MUST = unset from unset; compose.yaml:10:13 interpolation!
NESTED = "deep" from default compose.yaml:11:15; compose.yaml:11:15 interpolation
ONLY = "sub" from env_file sub/.env:2:1; sub/inc.yaml:1:25 interpolation
OPENAI_API_KEY = unset from unset secret; ctis.toml:4:55 api_key_env!
SHARED = unset from unset; compose.yaml:2:20 environment
TAG = "latest" from default compose.yaml:5:12; compose.yaml:5:12 interpolation; sub/inc.yaml:1:25 interpolation
TAG = "x" from default compose.yaml:5:12; compose.yaml:5:12 interpolation
TOKEN = "t" from process; compose.yaml:18:20 secret; ctis.toml:2:22 required_env_vars!
TWICE = "${NO}" from env_file .env:6:1; sub/inc.yaml:1:25 interpolation
USER_NAME = "u" from process; .env:3:1 env file
VENDOR_KEY = "k" from process secret; ctis.toml:4:39 api_key_env!
`
	if text := originsText(got, dir); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if ignored := strings.Join(got.Ignored, " "); ignored != "COMPOSE_FILE DOCKER_CONTENT_TRUST" {
		t.Errorf("ignored are %s", ignored)
	}
}

// A value that is told is the one that Compose uses.
func TestOriginsTellTheValuesThatComposeUses(t *testing.T) {
	dir := writeEnvironment(t, "network='default'\n",
		"services: {default: {image: x, environment: {A: '$A', B: '${B:-b}', C: '${C-c}', D: '${D:-${A}}', E: '${E}', G: }}}\n")
	write(t, dir, ".env", "A=1\nC=\nE=\"x${A}\\ty\"\nD=\nG=g\nexport A='2'\n")
	o := Options{Dir: dir, ID: "me", Environ: []string{"G=shell"}}
	env := mustLoad(t, o)
	origins, ps := FindOrigins(context.Background(), o)
	if origins == nil {
		t.Fatal(ps)
	}
	told := 0
	for _, v := range origins.Variables {
		used := env.Project.Services["default"].Environment[v.Name]
		if used == nil || v.Value == nil || *used != *v.Value {
			t.Errorf("%s is told as %v and used as %v", v.Name, v.Value, used)
		}
		told++
	}
	if told != 6 {
		t.Errorf("%d variables are told", told)
	}
}

func TestOriginsOfWhatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ toml, compose, want string }{
		"ctis.toml":    {"network = \n", plainYAML, "ctis.toml:1:"},
		"compose.yaml": {"network = 'default'\n", "services: [\n", "compose.yaml:"},
	} {
		dir := writeEnvironment(t, c.toml, c.compose)
		if o, ps := FindOrigins(context.Background(), Options{Dir: dir}); o != nil || !ps.HasErrors() || !strings.Contains(ps[0].String(), c.want) {
			t.Errorf("%s: %v, %v", name, o, ps)
		}
	}
	dir := t.TempDir()
	if o, ps := FindOrigins(context.Background(), Options{Dir: filepath.Join(dir, "no")}); o != nil || !ps.HasErrors() {
		t.Errorf("a directory that is not there: %v, %v", o, ps)
	}
	write(t, dir, "compose.yaml", plainYAML)
	if o, ps := FindOrigins(context.Background(), Options{Dir: dir}); o == nil || o.Config != "" {
		t.Errorf("without ctis.toml: %v, %v", o, ps)
	}
}
