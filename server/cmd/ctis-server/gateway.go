package main

import (
	"context"
	"flag"
	"io"
	"log/slog"

	"github.com/linuxarena/ctis/server/gateway"
)

// serveGateway is the program's other role.
func serveGateway(ctx context.Context, flags *flag.FlagSet, args []string, stderr io.Writer) error {
	var o gateway.Options
	var level slog.Level
	flags.StringVar(&o.Listen, "listen", "", "")
	flags.StringVar(&o.StateDir, "state", defaultState, "")
	flags.StringVar(&o.AdminSocket, "admin-socket", defaultSocket, "")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "")
	if err := parse(flags, args); err != nil {
		return err
	}
	o.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	keepMemoryPrivate()
	g, err := gateway.New(o)
	if err != nil {
		return err
	}
	setHeapCeiling()
	return g.Run(ctx)
}
