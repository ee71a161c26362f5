package commands

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ctis":   mainForScripts,
		"docker": fakeDocker,
	})
}

func mainForScripts() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := os.DirFS(os.Getenv("CTIS_TEST_ROOT"))
	os.Exit(Main(ctx, os.Args, Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		Setting{Environ: os.Environ(), BuildContext: root, Demo: root, Simulator: simulatorOf(os.Getenv("CTIS_TEST_SIMULATOR")), Collect: failing(os.Getenv("CTIS_TEST_UNCOLLECTED"))}))
}

// fakeDocker stands for the docker command: FAKE_COMPOSE is what its Compose
// plugin says its version is; without it there is no plugin.
func fakeDocker() {
	if v := os.Getenv("FAKE_COMPOSE"); v != "" && len(os.Args) > 2 && os.Args[1] == "compose" && os.Args[2] == "version" {
		fmt.Println(v)
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "docker: 'compose' is not a docker command.\nSee 'docker --help'")
	os.Exit(1)
}

// TestScripts runs the command line as a user's script does, without a real
// engine. `engine VERSION` starts one that only says which API it speaks;
// `engine VERSION DIR` one that answers what the files in DIR say, and notes there
// in the file log what it was asked to remove.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("CTIS_TEST_ROOT", root)
			e.Setenv("DOCKER_HOST", "unix://"+filepath.Join(e.WorkDir, "no-engine.sock"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"engine":    startFakeEngine,
			"simulator": startSimulator,
			// exit CODE COMMAND… runs a command and checks its exit code.
			"exit": checkExit,
		},
	})
}

func startFakeEngine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: engine API-VERSION [DIR]")
	}
	var answers string
	if len(args) == 2 {
		answers = ts.MkAbs(args[1])
	}
	dir, err := os.MkdirTemp("", "eng") // short: a socket's path is limited in length
	ts.Check(err)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	ts.Check(err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", args[0])
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Content-Type", "application/json")
		if answers != "" && answer(w, r, answers) {
			return
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			fmt.Fprint(w, "OK")
		case strings.HasSuffix(r.URL.Path, "/containers/json"), strings.HasSuffix(r.URL.Path, "/networks"), strings.HasSuffix(r.URL.Path, "/images/json"):
			fmt.Fprint(w, "[]")
		case strings.HasSuffix(r.URL.Path, "/volumes"):
			fmt.Fprint(w, "{}")
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such object"}`)
		}
	})}
	go func() { _ = srv.Serve(l) }()
	ts.Defer(func() {
		_ = srv.Close()
		_ = os.RemoveAll(dir)
	})
	ts.Setenv("DOCKER_HOST", "unix://"+path)
}

// answer sends the file of dir that is named after the path, its slashes written as
// underscores and ending in the filter where one is asked for: dangling, of_PROJECT,
// or label for any other label.
func answer(w http.ResponseWriter, r *http.Request, dir string) bool {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v"), "/")
	name := strings.NewReplacer("/", "_", ":", "_").Replace(path)
	switch filters := r.URL.Query().Get("filters"); {
	case strings.Contains(filters, "dangling"):
		name += "_dangling"
	case strings.Contains(filters, "compose.project="):
		_, project, _ := strings.Cut(filters, "compose.project=")
		project, _, _ = strings.Cut(project, `"`)
		name += "_of_" + project
	case strings.Contains(filters, "label"):
		name += "_label"
	}
	if r.Method == http.MethodDelete {
		f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return false
		}
		defer f.Close()
		fmt.Fprintln(f, path, r.URL.Query().Get("force"))
		fmt.Fprint(w, "[]")
		return true
	}
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err == nil {
		_, err = w.Write(content)
	}
	return err == nil
}

func checkExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND [ARG…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s ended with %s, not with %s", strings.Join(args[1:], " "), got, args[0])
	}
}
