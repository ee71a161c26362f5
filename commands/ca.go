package commands

import (
	"context"

	"github.com/urfave/cli/v2"
)

func (a *app) caCommand() *cli.Command {
	return verb(&cli.Command{
		Name:  "ca",
		Usage: "print the simulator's CA certificate (PEM)",
		Description: "The services of a trajectory already trust it. This is for what else should, for example a browser\n" +
			"that looks at a persona from outside.\n\n" +
			"Exit status: 0 printed, 1 there is no simulator, 4 no engine.",
		Flags: []cli.Flag{a.jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 0, ""); err != nil {
				return err
			}
			return a.runCA(c.Context)
		},
	})
}

func (a *app) runCA(ctx context.Context) error {
	admin, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	pem, err := admin.CA(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"certificate": string(pem)})
	}
	_, err = a.streams.Out.Write(pem)
	return err
}
