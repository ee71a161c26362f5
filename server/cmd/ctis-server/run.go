package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/linuxarena/ctis/server"
	"github.com/linuxarena/ctis/server/api"
)

const (
	defaultState  = "/var/lib/ctis"
	defaultSocket = "/run/ctis/admin.sock"
)

const usage = `usage: ctis-server [serve] [--http ADDR]... [--https ADDR]... [--state DIR] [--admin-socket PATH] [--log-level LEVEL]
       ctis-server gateway [--listen ADDR] [--state DIR] [--admin-socket PATH] [--log-level LEVEL]
       ctis-server bridge [--admin-socket PATH]   connect stdin and stdout to the admin socket
       ctis-server health [--admin-socket PATH]   exit 0 if the server answers requests
       ctis-server version
`

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run is the program: its exit code is the result.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	verb := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("ctis-server "+verb, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { _, _ = io.WriteString(stderr, usage) } // nowhere left to complain

	var err error
	switch verb {
	case "serve":
		err = serve(ctx, flags, args, stderr)
	case "gateway":
		err = serveGateway(ctx, flags, args, stderr)
	case "bridge":
		err = withSocket(flags, args, func(path string) error { return bridge(ctx, path, stdin, stdout) })
	case "health":
		err = withSocket(flags, args, func(path string) error { return health(ctx, path) })
	case "version":
		if err = parse(flags, args); err == nil {
			_, err = fmt.Fprintf(stdout, "ctis-server %s, protocol %d\n", version(), api.Protocol)
		}
	case "help":
		_, err = io.WriteString(stdout, usage)
	default:
		err = usageError{fmt.Errorf("unknown command %q", verb)}
	}
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &wrong):
		_, _ = fmt.Fprintf(stderr, "ctis-server: %v\n%s", err, usage) // nowhere left to complain
		return exitUsage
	}
	_, _ = fmt.Fprintf(stderr, "ctis-server: %v\n", err)
	return exitFailed
}

// usageError is a call that cannot be meant.
type usageError struct{ error }

func parse(flags *flag.FlagSet, args []string) error {
	flags.SetOutput(io.Discard) // the error says it, once
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return usageError{err}
	case flags.NArg() > 0:
		return usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	return nil
}

func withSocket(flags *flag.FlagSet, args []string, f func(path string) error) error {
	socket := flags.String("admin-socket", defaultSocket, "")
	if err := parse(flags, args); err != nil {
		return err
	}
	return f(*socket)
}

func serve(ctx context.Context, flags *flag.FlagSet, args []string, stderr io.Writer) error {
	var o server.Options
	var level slog.Level
	flags.Func("http", "", addTo(&o.HTTP))
	flags.Func("https", "", addTo(&o.HTTPS))
	flags.StringVar(&o.StateDir, "state", defaultState, "")
	flags.StringVar(&o.AdminSocket, "admin-socket", defaultSocket, "")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "")
	if err := parse(flags, args); err != nil {
		return err
	}
	o.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	s, err := server.New(o)
	if err != nil {
		return err
	}
	setHeapCeiling()
	floor := newHeapFloor()
	defer runtime.KeepAlive(floor)
	return s.Run(ctx)
}

func addTo(list *[]string) func(string) error {
	return func(address string) error {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%w; give HOST:PORT or :PORT", err)
		}
		*list = append(*list, address)
		return nil
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
