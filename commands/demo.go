package commands

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// demoPrefix starts the instance of every demonstration. Each has one of its
// own, so that trajectories in use never notice, nor does another demonstration.
const (
	demoPrefix = "ctis-demo-"
	keptPrefix = demoPrefix + "kept-" // of one that --keep left
)

// demoPrograms are the images of the demonstration's environment.
var demoPrograms = []string{"agent", "vault"}

// demoRef is the image of one of them.
func demoRef(instance, program string) string { return instance + "/" + program + ":latest" }

type demoOptions struct {
	keep, end bool
	image     string
}

// expectation is what has to come of one deed of the demonstration's agent.
type expectation struct {
	deed   string
	status int    // what the agent got; 0: no HTTP answer
	kind   string // what the journal calls it
	header string // the Server header; "" where there is none
}

const demoApache = "Apache/2.4.71 (Debian)"

// demoScript is the demonstration in the order the agent acts.
var demoScript = []expectation{
	{"look around", 200, api.KindRoot, api.DefaultServerHeader},
	{"notify over HTTPS", 200, api.KindWebhook, api.DefaultServerHeader},
	{"notify over HTTP", 200, api.KindWebhook, api.DefaultServerHeader},
	{"store the secret", 201, api.KindData, api.DefaultServerHeader},
	{"fetch it back", 200, api.KindData, api.DefaultServerHeader},
	{"store under a name", 201, api.KindData, api.DefaultServerHeader},
	{"publish", 201, api.KindPublic, api.DefaultServerHeader},
	{"publish with a form", 201, api.KindPublic, api.DefaultServerHeader},
	{"see what is public", 200, api.KindPublic, api.DefaultServerHeader},
	{"ask for an asset", 404, api.KindAssets, api.DefaultServerHeader},
	{"try another path", 404, api.KindNotFound, api.DefaultServerHeader},
	{"another host", 200, api.KindWebhook, demoApache},
	{"what it does not offer", 404, api.KindNotFound, demoApache},
	{"a host nobody plays", 0, api.KindRefused, ""},
	{"something that is no HTTP", 400, api.KindMalformed, ""},
}

// deed is one line of what the demonstration's agent prints.
type deed struct {
	Name   string `json:"name"`
	Method string `json:"method"`
	URL    string `json:"url"`
	Status int    `json:"status"`
	Server string `json:"server"`
	Error  string `json:"error"`
}

func (a *app) demoCommand() *cli.Command {
	var o demoOptions
	return verb(&cli.Command{
		Name:  "demo",
		Usage: "show everything at once, offline",
		Description: "Builds the simulator's image and a small environment from Go programs alone (no registry is asked),\n" +
			"brings it up, acts as its agent, shows what was captured, and takes everything down again. It uses an\n" +
			"instance of its own, so that trajectories in use never notice.\n\n" +
			"Exit status: 0 every row as expected, 1 not.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "keep", Usage: "leave it up and say what to try", Destination: &o.keep},
			&cli.BoolFlag{Name: "end", Usage: "remove the demonstrations that were kept, or those whose instances are named", Destination: &o.end},
			&cli.StringFlag{Name: "image", Usage: "run the simulator from image `REF`", Destination: &o.image},
			a.jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if o.end {
				return a.runDemoEnd(c.Context, c.Args().Slice())
			}
			if err := exactArgs(c, 0, 0, ""); err != nil {
				return err
			}
			return a.runDemo(c.Context, o)
		},
	})
}

func (a *app) runDemo(ctx context.Context, o demoOptions) (err error) {
	if _, err := a.openEngine(ctx); err != nil {
		return err
	}
	suffix := make([]byte, 3)
	rand.Read(suffix) // never fails
	a.instance = demoPrefix
	if o.keep {
		a.instance = keptPrefix
	}
	a.instance += hex.EncodeToString(suffix)
	id := strings.TrimPrefix(a.instance, "ctis-")
	dir, err := os.MkdirTemp("", "ctis-demo-")
	if err != nil {
		return fmt.Errorf("the demonstration's files cannot be written: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := copyDemo(a.setting.Demo, dir); err != nil {
		return err
	}
	s := steps{ui: a.ui}
	if !o.keep {
		defer func() {
			if cleanErr := a.endDemo(context.WithoutCancel(ctx), id); cleanErr != nil {
				err = errors.Join(err, cleanErr)
			}
		}()
	}
	err = s.do(ctx, "Building the demonstration's programs", func(ctx context.Context, line *uiStep) (string, error) {
		var builds errgroup.Group
		for _, program := range demoPrograms {
			ref := demoRef(a.instance, program)
			builds.Go(func() error {
				return simulator.BuildProgram(ctx, a.engine, simulator.ProgramOptions{
					Ref: ref, Dir: filepath.Join(dir, program),
					Go: simulator.FindGo(a.env["PATH"]), Environ: a.setting.Environ, Progress: line.detail,
					Cache:  a.cacheDir("programs"),
					Labels: map[string]string{simulator.LabelInstance: a.instance},
				})
			})
		}
		if err := builds.Wait(); err != nil {
			return "", err
		}
		for _, program := range demoPrograms {
			a.setting.Environ = append(a.setting.Environ, "CTIS_DEMO_"+strings.ToUpper(program)+"="+demoRef(a.instance, program))
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	a.runner = nil // docker compose is to see them too

	result, err := a.runUp(ctx, upOptions{environmentOptions: environmentOptions{dir: dir}, id: id, image: o.image, waitTimeout: time.Minute},
		func(*upResult) error { return nil })
	if err != nil {
		return err
	}
	var deeds []deed
	err = s.do(ctx, "Acting as the agent", func(ctx context.Context, _ *uiStep) (string, error) {
		var agent string
		for _, svc := range result.Services {
			if svc.Service == "default" {
				agent = svc.Container
			}
		}
		out, err := a.exec(ctx, agent, "/program", "act")
		if err != nil {
			return "", err
		}
		deeds, err = readDeeds(out)
		return plural(len(deeds), "deed"), err
	})
	if err != nil {
		return err
	}
	records, err := a.demoRecords(ctx, id)
	if err != nil {
		return err
	}
	ok, err := a.showDemo(deeds, records)
	if err != nil {
		return err
	}
	if o.keep {
		a.ui.lines(fmt.Sprintf(demoHint, a.program(), id, cmp.Or(a.setting.Program, "ctis")))
	}
	if !ok {
		return errors.New("the demonstration did not go as expected; the rows marked ✘ differ")
	}
	return nil
}

const demoHint = `
It is still up. Try:
  %[1]s status
  %[1]s logs %[2]s
  docker compose -p %[2]s exec default /program act
  %[1]s logs %[2]s --json --limit 1
and remove all of it with:
  %[3]s demo --end
`

// runDemoEnd removes the demonstrations that were kept. One that was killed is
// known only to who started it, so it has to be named: it could as well be running.
func (a *app) runDemoEnd(ctx context.Context, named []string) error {
	for _, instance := range named {
		if !strings.HasPrefix(instance, demoPrefix) {
			return &usageError{msg: quoted(instance) + " is no instance of a demonstration", hint: "their names start with " + demoPrefix}
		}
	}
	if _, err := a.openEngine(ctx); err != nil {
		return err
	}
	instances, err := a.instances(ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, instance := range instances {
		if len(named) == 0 && !strings.HasPrefix(instance, keptPrefix) || len(named) > 0 && !slices.Contains(named, instance) {
			continue
		}
		a.instance = instance
		if endErr := a.endDemo(ctx, strings.TrimPrefix(instance, "ctis-")); endErr != nil {
			err = errors.Join(err, endErr)
			continue
		}
		n++
	}
	if err == nil && n == 0 {
		_, err = fmt.Fprintln(a.streams.Out, "there is no demonstration to remove")
	}
	return err
}

// copyDemo writes the demonstration's environment to a directory, where Compose
// and the Go toolchain can read it.
func copyDemo(demo fs.FS, dir string) error {
	files, err := fs.Sub(demo, "examples/demo")
	if err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, content, 0o644)
	})
}

// cacheDir is a directory of this user's for what can be made again; "" where
// there is none.
func (a *app) cacheDir(name string) string {
	base := a.env["XDG_CACHE_HOME"]
	if base == "" && a.env["HOME"] != "" {
		base = filepath.Join(a.env["HOME"], ".cache")
	}
	if !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(base, "ctis", name)
}

func readDeeds(out []byte) ([]deed, error) {
	var deeds []deed
	dec := json.NewDecoder(bytes.NewReader(out))
	for dec.More() {
		var d deed
		if err := dec.Decode(&d); err != nil {
			return nil, fmt.Errorf("what the agent printed cannot be read: %w", err)
		}
		deeds = append(deeds, d)
	}
	return deeds, nil
}

// demoRecords reads the demonstration's journal. Each of its deeds made exactly
// one record, in order.
func (a *app) demoRecords(ctx context.Context, id string) ([]api.Record, error) {
	admin, err := simulator.Connect(ctx, a.engine, a.instance)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	var records []api.Record
	err = admin.Journal(ctx, id, api.JournalQuery{}, func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		records = append(records, r)
		return nil
	})
	return records, err
}

// showDemo prints the table and tells whether every row is as expected.
func (a *app) showDemo(deeds []deed, records []api.Record) (bool, error) {
	all := len(deeds) == len(demoScript) && len(records) == len(demoScript)
	var rows [][]string
	type jsonRow struct {
		Deed     string `json:"deed"`
		Method   string `json:"method"`
		URL      string `json:"url"`
		Status   int    `json:"status"`
		Kind     string `json:"kind"`
		Seq      uint64 `json:"seq"`
		Expected bool   `json:"as_expected"`
	}
	var machine []jsonRow
	for i, want := range demoScript {
		var d deed
		var r api.Record
		if i < len(deeds) {
			d = deeds[i]
		}
		if i < len(records) {
			r = records[i]
		}
		ok := d.Name == want.deed && d.Status == want.status && r.Kind == want.kind && r.Client.Service == "default"
		if want.header != "" {
			ok = ok && d.Server == want.header && r.Response != nil && r.Response.Status == want.status
		}
		if want.status != 0 && want.header != "" {
			ok = ok && d.Error == ""
		}
		all = all && ok
		mark, sent, got := "✔", "", "none"
		if !ok {
			mark = "✘"
			a.ui.warn(fmt.Sprintf("%s: wanted %d and kind %s, got %d (%s) and kind %s", want.deed, want.status, want.kind, d.Status, d.Error, r.Kind))
		}
		if r.Request != nil && r.Request.Body.Size > 0 {
			sent = size(r.Request.Body.Size)
		}
		if d.Status != 0 {
			got = strconv.Itoa(d.Status)
		}
		rows = append(rows, []string{mark, want.deed, d.Method, d.URL, sent, got, r.Kind, strconv.FormatUint(r.Seq, 10)})
		machine = append(machine, jsonRow{want.deed, d.Method, d.URL, d.Status, r.Kind, r.Seq, ok})
	}
	if a.json {
		return all, a.printJSON(map[string]any{"rows": machine, "records": len(records), "as_expected": all})
	}
	w := bufio.NewWriter(a.streams.Out)
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return all, err
	}
	if err := a.table([]string{"", "THE AGENT TRIED TO", "METHOD", "URL", "SENT", "GOT", "KIND", "SEQ"}, rows, 3); err != nil {
		return all, err
	}
	verdict := "every row as expected"
	if !all {
		verdict = "NOT as expected"
	}
	_, err := fmt.Fprintf(a.streams.Out, "\n%s captured, %s\n\n", plural(len(records), "record"), verdict)
	return all, err
}

// endDemo leaves nothing of a demonstration but the simulator's image, which
// makes the next one quick.
func (a *app) endDemo(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	s := steps{ui: a.ui}
	return s.do(ctx, "Taking the demonstration down", func(ctx context.Context, line *uiStep) (string, error) {
		_, err := a.takeDown(ctx, id, downOptions{volumes: true, timeout: time.Second}, line)
		line.detail("removing its simulator and images")
		_, removeErr := simulator.Remove(ctx, a.engine, a.instance, simulator.RemoveOptions{Volume: true, Force: true})
		err = errors.Join(err, removeErr)
		for _, program := range demoPrograms {
			err = errors.Join(err, simulator.RemoveProgram(ctx, a.engine, demoRef(a.instance, program)))
		}
		return "nothing is left", err
	})
}
