// Command ctis gives trajectories of AI agents an internet that is not the
// internet: one shared simulator plays every public hostname, keeps the
// trajectories apart and records what they send. See README.md.
package main

import (
	"context"
	"embed"
	"os"
	"os/signal"
	"syscall"

	"github.com/linuxarena/ctis/commands"
)

// buildContext is what the simulator's image is built from: the very files a
// checkout has, so that a binary and its checkout give the image the same tag.
//
//go:embed all:server all:templates/pages all:templates/image
var buildContext embed.FS

// demo is the environment that `ctis demo` brings up.
//
//go:embed all:examples/demo
var demo embed.FS

func main() {
	// A closed pipe is an error of the write like any other, not the end of the process: what was set up
	// would stay half-made.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal starts a roll-back; a second one ends the process at once.
	go func() { <-ctx.Done(); stop() }()
	os.Exit(commands.Main(ctx, os.Args, commands.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		commands.Setting{Program: os.Args[0], Environ: os.Environ(), BuildContext: buildContext, Demo: demo}))
}
