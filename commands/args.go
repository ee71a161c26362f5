package commands

import (
	"flag"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// emptyHint is for a value that a script took from a variable nobody set. To take it
// for a value that was not given would be to do something else than was meant: a
// random id, the current directory.
const emptyHint = "set the variable that it comes from, or leave it out"

// orderArgs puts flags before positional arguments, because users write
// `ctis up DIR --id x` and the library stops reading flags at the first
// argument. Flags of the whole program may stand anywhere, and so may --help.
// What follows "--" is an argument whatever it looks like. No flag's value and no
// argument may be empty.
func orderArgs(root *cli.App, args []string) ([]string, error) {
	if len(args) == 0 || len(args) > 1 && args[1] == "complete" {
		return args, nil // complete gets a line that is still being typed
	}
	global := flagKinds(root.Flags)
	var program, flags, positional []string
	var command *cli.Command
	var local map[string]bool
	for i := 1; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			positional = append(positional, args[i+1:]...)
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			if command == nil && len(positional) == 0 {
				if command = root.Command(arg); command != nil {
					local = flagKinds(command.Flags)
					continue
				}
			}
			positional = append(positional, arg)
			continue
		}
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == "help" || name == "h" {
			if command != nil {
				return []string{args[0], command.Name, "--help"}, nil
			}
			return []string{args[0], "--help"}, nil
		}
		to, takesValue := &flags, false
		if v, ok := local[name]; ok {
			takesValue = v
		} else if v, ok := global[name]; ok {
			to, takesValue = &program, v
		} else {
			return nil, unknownFlag(arg, command)
		}
		*to = append(*to, arg)
		if takesValue && !joined {
			if i+1 == len(args) {
				return nil, &usageError{msg: "flag " + quoted(arg) + " needs a value"}
			}
			i++
			value = args[i]
			*to = append(*to, value)
		}
		if takesValue && value == "" {
			given, _, _ := strings.Cut(arg, "=")
			return nil, &usageError{msg: "flag " + quoted(given) + " has an empty value", hint: emptyHint}
		}
	}
	for i, arg := range positional {
		if arg == "" {
			return nil, &usageError{msg: fmt.Sprintf("argument %d is empty", i+1), hint: emptyHint}
		}
	}
	out := append([]string{args[0]}, program...)
	if command != nil {
		out = append(out, command.Name)
	}
	out = append(out, flags...)
	if len(positional) > 0 && command != nil {
		out = append(out, "--")
	}
	return append(out, positional...), nil
}

func unknownFlag(arg string, command *cli.Command) error {
	if command == nil {
		return &usageError{msg: "there is no flag " + quoted(arg), hint: "ctis --help lists the flags"}
	}
	return &usageError{msg: "ctis " + command.Name + " has no flag " + quoted(arg), hint: "ctis " + command.Name + " --help lists its flags"}
}

// flagKinds maps every name of the flags to whether it takes a value.
func flagKinds(flags []cli.Flag) map[string]bool {
	kinds := map[string]bool{}
	for _, f := range flags {
		set := flag.NewFlagSet("", flag.ContinueOnError)
		if err := f.Apply(set); err != nil {
			continue // a broken definition shows when the library applies it
		}
		set.VisitAll(func(f *flag.Flag) {
			b, ok := f.Value.(interface{ IsBoolFlag() bool })
			kinds[f.Name] = !ok || !b.IsBoolFlag()
		})
	}
	return kinds
}
