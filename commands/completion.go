package commands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/simulator"
)

// completionScripts ask ctis itself for the words that can come next, so that
// trajectory ids are completed too. Where ctis has none, files are.
var completionScripts = map[string]string{
	"bash": `_ctis() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(ctis complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _ctis ctis
`,
	"zsh": `#compdef ctis
_ctis() {
  local -a words_next
  words_next=(${(f)"$(ctis complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#words_next )); then compadd -a words_next; else _files; fi
}
compdef _ctis ctis
`,
	"fish": `function __ctis_complete
  set -l words (commandline -opc)[2..] (commandline -ct)
  ctis complete $words 2>/dev/null
end
complete -c ctis -a '(__ctis_complete)'
`,
}

// completeTimeout is how long a shell waits for ids at the most.
const completeTimeout = 2 * time.Second

func (a *app) completionCommand() *cli.Command {
	shells := strings.Join(slices.Sorted(maps.Keys(completionScripts)), ", ")
	return verb(&cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		ArgsUsage: "SHELL",
		Description: "SHELL is one of " + shells + ". For example, in ~/.bashrc:\n\n" +
			"   source <(ctis completion bash)",
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 1, 1, "SHELL"); err != nil {
				return err
			}
			script, ok := completionScripts[c.Args().First()]
			if !ok {
				return &usageError{msg: "there is no completion for " + quoted(c.Args().First()), hint: "the shells are " + shells}
			}
			_, err := fmt.Fprint(a.streams.Out, script)
			return err
		},
	})
}

// completeCommand is what the scripts call: it prints the words that can stand
// in the place of its last argument.
func (a *app) completeCommand() *cli.Command {
	return &cli.Command{
		Name: "complete", Hidden: true, SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			for _, word := range a.candidates(c.Context, c.App, c.Args().Slice()) {
				fmt.Fprintln(a.streams.Out, word)
			}
			return nil
		},
	}
}

// candidates lists what can come next; the last word is what was typed of it.
func (a *app) candidates(ctx context.Context, root *cli.App, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	typed := words[len(words)-1]
	var command *cli.Command
	flags := root.Flags
	for _, w := range words[:len(words)-1] {
		if command = root.Command(w); command != nil {
			flags = slices.Concat(command.Flags, root.Flags)
			break
		}
	}
	var all []string
	switch {
	case strings.HasPrefix(typed, "-"):
		for _, f := range flags {
			for _, name := range f.Names() {
				if len(name) > 1 {
					all = append(all, "--"+name)
				}
			}
		}
	case command == nil:
		for _, c := range root.Commands {
			if !c.Hidden {
				all = append(all, c.Name)
			}
		}
	case command.Name == "completion":
		all = slices.Collect(maps.Keys(completionScripts))
	case command.Name == "assets":
		all = a.assetsWords(ctx, words)
	case command.Name == "rules":
		all = a.rulesWords(ctx, words)
	case slices.Contains([]string{"logs", "show", "assert", "find", "export", "verify", "down", "repair", "doctor"}, command.Name):
		all = a.knownIDs(ctx)
	}
	all = slices.DeleteFunc(all, func(w string) bool { return !strings.HasPrefix(w, typed) })
	slices.Sort(all)
	return slices.Compact(all)
}

// knownIDs lists the registered trajectories; none where they cannot be asked for.
func (a *app) knownIDs(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	eng, err := a.openEngine(ctx)
	if err != nil {
		return nil
	}
	seen, err := simulator.Observe(ctx, eng, a.instance)
	if err != nil {
		return nil
	}
	return seen.Trajectories
}
