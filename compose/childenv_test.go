package compose

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// hostile is what a shell may have that would make another world of an environment.
func hostile(dir string) []string {
	return []string{
		"COMPOSE_FILE=" + dir + "/evil.yaml", "COMPOSE_PROJECT_NAME=evil", "COMPOSE_PROFILES=evil", "COMPOSE_ENV_FILES=" + dir + "/evil.env",
		"COMPOSE_DISABLE_ENV_FILE=true", "COMPOSE_PATH_SEPARATOR=x", "COMPOSE_CONVERT_WINDOWS_PATHS=1", "COMPOSE_COMPATIBILITY=1",
		"COMPOSE_EXPERIMENTAL=1", "COMPOSE_REMOVE_ORPHANS=1", "COMPOSE_PARALLEL_LIMIT=1", "COMPOSE_ANSI=always", "COMPOSE_PROGRESS=json",
		"COMPOSE_MENU=1", "COMPOSE_STATUS_STDOUT=1", "COMPOSE_BAKE=1",
		"DOCKER_DEFAULT_PLATFORM=linux/s390x", "DOCKER_CONTENT_TRUST=1", "DOCKER_CUSTOM_HEADERS=a=b", "DOCKER_STACK_ORCHESTRATOR=kubernetes",
		"DOCKER_CLI_OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9",
		"BUILDX_NO_DEFAULT_ATTESTATIONS=1", "BUILDKIT_PROGRESS=rawjson",
	}
}

func TestAHostileEnvironmentChangesNothing(t *testing.T) {
	needCompose(t)
	for _, c := range []struct{ name, env string }{
		{"with an env file", "V=file\nCOMPOSE_PROFILES=chosen\nCOMPOSE_FILE=evil.yaml\nCOMPOSE_PROJECT_NAME=evil\n"},
		{"without one", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeEnvironment(t, "network='default'\n",
				"services:\n  default: {image: 'a:${V:-none}', user: '${COMPOSE_PROJECT_NAME}', volumes: ['./x:/x'], environment: [SHELL_SAYS, 'P=${COMPOSE_PROFILES-}']}\n"+
					"  evil: {image: evil, profiles: [evil]}\n  chosen: {image: chosen, profiles: [chosen]}\n")
			write(t, dir, "evil.yaml", "services: {default: {image: evil}}\n")
			write(t, dir, "evil.env", "V=evil\n")
			if c.env != "" {
				write(t, dir, ".env", c.env)
			}
			config := func(environ []string) string {
				t.Helper()
				env := mustLoad(t, Options{Dir: dir, ID: "me", Environ: environ})
				r := &Runner{Environ: environ}
				out, err := r.Config(t.Context(), env.Invocation("me", []byte("services: {default: {labels: {x: y}}}\n")))
				if err != nil {
					t.Fatal(err)
				}
				return string(out) + "\n" + env.Settings
			}
			clean := slices.DeleteFunc(os.Environ(), func(kv string) bool {
				name, _, _ := strings.Cut(kv, "=")
				return steersCompose(name)
			})
			clean = append(clean, "SHELL_SAYS=hello")
			want := config(clean)
			if got := config(append(clean, hostile(dir)...)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if !strings.Contains(want, "hello") || strings.Contains(want, "evil") {
				t.Errorf("the environment is %s", want)
			}
		})
	}
}

func TestAnEnvFileThatAppearsLaterIsNotRead(t *testing.T) {
	needCompose(t)
	dir := writeEnvironment(t, "network='default'\n", "services: {default: {image: 'a:${V:-none}'}}\n")
	i := mustLoad(t, Options{Dir: dir, ID: "me"}).Invocation("me", nil)
	write(t, dir, ".env", "V=late\n")
	out, err := (&Runner{Environ: os.Environ()}).Config(t.Context(), i)
	if err != nil || !strings.Contains(string(out), `"a:none"`) {
		t.Errorf("docker compose sees %s, %v", out, err)
	}
}

func TestVariablesOfTheToolsArePassedOnWhereTheEnvironmentUsesThem(t *testing.T) {
	environ := []string{"DOCKER_GID=999", "DOCKER_TOKEN=s", "DOCKER_TAG=t", "DOCKER_FROM_FILE=f", "DOCKER_DEFAULT_PLATFORM=p", "DOCKER_CONFIG=/c", "BUILDX_BUILDER=b", "DOCKER_CONTENT_TRUST=1", "PLAIN=1", "COMPOSE_TAG=no"}
	dir := writeEnvironment(t, "network='default'\n", "include: [more.yaml]\nservices: {default: {image: 'a:${DOCKER_TAG:-${COMPOSE_TAG}}', env_file: [s.env], secrets: [s]}}\nsecrets: {s: {environment: DOCKER_TOKEN}}\n")
	write(t, dir, "more.yaml", "services: {more: {image: x, environment: {DOCKER_GID: }}}\n")
	write(t, dir, "s.env", "DOCKER_FROM_FILE\n")
	env := mustLoad(t, Options{Dir: dir, ID: "me", Environ: environ})
	got := inherited(environ, env.Invocation("me", nil).Inherit)
	want := []string{"DOCKER_GID=999", "DOCKER_TOKEN=s", "DOCKER_TAG=t", "DOCKER_FROM_FILE=f", "DOCKER_CONFIG=/c", "BUILDX_BUILDER=b", "PLAIN=1"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
