package commands

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
)

type configOptions struct {
	environmentOptions
	id         string
	showValues bool
}

// mask stands for a value that is not shown; its length says nothing.
const mask = "********"

// configResult is what `ctis config` reports.
type configResult struct {
	*compose.Origins
	Variables []configVariable `json:"variables"`
	Sidecar   *compose.Origin  `json:"sidecar"` // the image of what exposes the services; null: none is
}

type configVariable struct {
	Name   string                `json:"name"`
	Set    bool                  `json:"set"`
	Empty  bool                  `json:"empty"`
	Masked bool                  `json:"masked"`
	Value  *string               `json:"value"` // null where it is masked or not set
	From   compose.Source        `json:"from"`
	Over   []compose.Source      `json:"over"`
	Uses   []compose.VariableUse `json:"uses"`
}

func (a *app) configCommand() *cli.Command {
	var o configOptions
	return verb(&cli.Command{
		Name:      "config",
		Usage:     "tell where each value of an environment comes from",
		ArgsUsage: "[ENV_DIR]",
		Description: "Lists the files, env files and profiles in effect, and every variable that the Compose files and\n" +
			"ctis.toml of ENV_DIR (default: the current directory) use: where its value comes from, what else\n" +
			"would set it, and where it is used; of exposed services, the image they are exposed with.\n" +
			"Values are masked; --show-values shows them, but never those that ctis.toml declares as keys. Only reads, and needs no Docker engine.\n\n" +
			"Exit status: 0 told (also where something is missing; ctis validate judges), 2 the files cannot be read.",
		Flags: append(o.flags(),
			&cli.StringFlag{Name: "id", Usage: "the trajectory's `ID`, which the Compose files see as COMPOSE_PROJECT_NAME", Destination: &o.id},
			&cli.BoolFlag{Name: "show-values", Usage: "show values, keys excepted", Destination: &o.showValues},
			a.jsonFlag(),
		),
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 1, "[ENV_DIR]"); err != nil {
				return err
			}
			o.dir = c.Args().First()
			return a.runConfig(c.Context, o)
		},
	})
}

func (a *app) runConfig(ctx context.Context, o configOptions) error {
	if o.id != "" {
		if err := compose.ValidateID(o.id); err != nil {
			return err
		}
	}
	load, err := a.loadOptions(o.environmentOptions, o.id)
	if err != nil {
		return err
	}
	origins, problems := compose.FindOrigins(ctx, load)
	if err := ctx.Err(); err != nil {
		return err
	}
	if origins == nil {
		return &invalidError{problems: problems}
	}
	r := configResult{Origins: origins, Variables: []configVariable{}}
	for _, v := range origins.Variables {
		c := configVariable{Name: v.Name, Set: v.Value != nil, From: v.Source, Over: append([]compose.Source{}, v.Over...), Uses: v.Uses}
		if v.Value != nil {
			c.Empty = *v.Value == ""
			c.Masked = !c.Empty && v.Source.Kind != compose.FromCtis && (v.Secret || !o.showValues)
			// The id is not known before there is a trajectory.
			if !c.Masked && (v.Source.Kind != compose.FromCtis || o.id != "") {
				c.Value = v.Value
			}
		}
		r.Variables = append(r.Variables, c)
	}
	if len(origins.Exposed) > 0 {
		r.Sidecar = &compose.Origin{Value: a.nginxImage(), From: compose.Source{Kind: compose.FromCtis}}
		if a.env["CTIS_NGINX_IMAGE"] != "" {
			r.Sidecar.From.Kind = compose.FromProcess
		}
	}
	if a.json {
		return a.printJSON(r)
	}
	return a.printConfig(r, o.id)
}

func (a *app) printConfig(r configResult, id string) error {
	rel := func(path string) string {
		if p, err := filepath.Rel(r.Dir, path); err == nil && filepath.IsLocal(p) {
			return p
		}
		return path
	}
	list := func(origins []compose.Origin, path bool) string {
		var texts []string
		for _, o := range origins {
			if path {
				o.Value = rel(o.Value)
			}
			texts = append(texts, o.Value+" ("+sourceText(o.From, rel)+")")
		}
		return cmp.Or(strings.Join(texts, ", "), "none")
	}
	var files []string
	for _, f := range r.Files {
		files = append(files, rel(f))
	}
	project := "the trajectory's id"
	if id != "" {
		project = id
	}
	config := "none; ctis init writes a ctis.toml"
	if r.Config != "" {
		config = rel(r.Config)
	}
	lines := [][2]string{
		{"environment", r.Dir}, {"declared in", config}, {"project", project}, {"paths from", rel(r.ProjectDir)},
		{"Compose files", strings.Join(files, ", ")}, {"env files", list(r.EnvFiles, true)}, {"profiles", list(r.Profiles, false)},
	}
	if r.Sidecar != nil {
		var exposed []string
		for _, host := range slices.Sorted(maps.Keys(r.Exposed)) {
			exposed = append(exposed, host+" → "+r.Exposed[host])
		}
		image := r.Sidecar.Value + " (ctis; CTIS_NGINX_IMAGE names another)"
		if r.Sidecar.From.Kind == compose.FromProcess {
			image = r.Sidecar.Value + " (CTIS_NGINX_IMAGE of the process)"
		}
		lines = append(lines, [2]string{"exposed", strings.Join(exposed, ", ")}, [2]string{"exposed with", image})
	}
	if len(r.Ignored) > 0 {
		lines = append(lines, [2]string{"not passed on", strings.Join(r.Ignored, ", ")})
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(a.streams.Out, "%-15s%s\n", l[0], printable(l[1])); err != nil {
			return err
		}
	}
	if len(r.Variables) == 0 {
		_, err := fmt.Fprintln(a.streams.Out, "\nno variable is used")
		return err
	}
	if _, err := fmt.Fprintln(a.streams.Out); err != nil {
		return err
	}
	var rows [][]string
	for _, v := range r.Variables {
		var uses []string
		for _, u := range v.Uses {
			at := fmt.Sprintf("%s:%d", rel(u.File), u.Line)
			if u.How != "interpolation" {
				at += " (" + u.How + ")"
			}
			if !slices.Contains(uses, at) {
				uses = append(uses, at)
			}
		}
		from := sourceText(v.From, rel)
		for _, o := range v.Over {
			from += ", over " + sourceText(o, rel)
		}
		rows = append(rows, []string{v.Name, valueText(v, id), from, strings.Join(uses, ", ")})
	}
	header := []string{"VARIABLE", "VALUE", "FROM", "USED AT"}
	if limit := a.outWidth(); limit > 0 && tableWidth(header, rows) > limit {
		return a.stacked(header, rows)
	}
	return a.table(header, rows, 3)
}

// tableWidth is how many cells a table takes where nothing is cut.
func tableWidth(header []string, rows [][]string) int {
	total := 2 * (len(header) - 1)
	for i := range header {
		widest := 0
		for _, row := range append([][]string{header}, rows...) {
			widest = max(widest, lipgloss.Width(printable(row[i])))
		}
		total += widest
	}
	return total
}

func valueText(v configVariable, id string) string {
	switch {
	case !v.Set:
		for _, u := range v.Uses {
			if u.Required {
				return "missing"
			}
		}
		return "-"
	case v.Empty:
		return "empty"
	case v.From.Kind == compose.FromCtis && id == "":
		return "the id"
	case v.Masked:
		return mask
	}
	return strings.ReplaceAll(*v.Value, "\n", `\n`)
}

func sourceText(s compose.Source, rel func(string) string) string {
	at := fmt.Sprintf("%s:%d", rel(s.File), s.Line)
	switch s.Kind {
	case compose.FromProcess:
		return "process"
	case compose.FromEnvFile:
		return at
	case compose.FromDefault:
		return "default at " + at
	case compose.FromFlag:
		return "command line"
	case compose.FromBeside:
		return "beside the Compose file"
	}
	return string(s.Kind) // ctis, unset
}
