package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

type showOptions struct {
	id       string
	seq      uint64
	raw      bool
	response bool
	maxBytes int64
}

func (a *app) showCommand() *cli.Command {
	var o showOptions
	return verb(&cli.Command{
		Name:      "show",
		Usage:     "show one exchange in full",
		ArgsUsage: "ID SEQ",
		Description: "Shows record SEQ of the journal of trajectory ID, bodies as what they are: JSON indented, forms and\n" +
			"multipart taken apart, text as text, anything else as bytes; gzip, deflate, br and zstd are undone.\n" +
			"Control characters are shown as codes. Of responses, those of backends and upstreams have bodies.\n" +
			"--json gives the record, --raw the bytes of the request's body alone, as they were sent, and with\n" +
			"--response those of the response's.\n\n" +
			"Exit status: 0 shown, 1 there is no such record or its body was not kept, 2 usage, 4 no engine.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "raw", Usage: "the bytes of the body alone", Destination: &o.raw},
			&cli.BoolFlag{Name: "response", Usage: "with --raw: of the response", Destination: &o.response},
			&cli.Int64Flag{Name: "max", Usage: "show at most `N` bytes of a body; 0 for all", Value: 64 << 10, Destination: &o.maxBytes},
			a.jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 2, 2, "ID SEQ"); err != nil {
				return err
			}
			o.id = c.Args().First()
			seq, err := strconv.ParseUint(c.Args().Get(1), 10, 64)
			if err != nil || seq == 0 {
				return &usageError{msg: quoted(c.Args().Get(1)) + " is no record's number", hint: "ctis logs " + o.id + " shows them in the column SEQ"}
			}
			o.seq = seq
			return a.runShow(c.Context, o)
		},
	})
}

func (a *app) runShow(ctx context.Context, o showOptions) error {
	if err := checkJournal(o.id); err != nil {
		return err
	}
	switch {
	case o.maxBytes < 0:
		return &usageError{msg: fmt.Sprintf("--max %d is negative", o.maxBytes), hint: "give a number of bytes, or 0 for all"}
	case o.response && !o.raw:
		return &usageError{msg: "--response says which bytes --raw gives, and there is no --raw", hint: "leave it out: both bodies are shown"}
	case o.raw && a.json:
		return &usageError{msg: "--raw and --json exclude each other", hint: "give one of them"}
	}
	end, err := a.freshen(ctx, o.id, false)
	if err != nil {
		return err
	}
	defer end()
	var found *api.Record
	err = a.readJournal(ctx, o.id, api.JournalQuery{First: o.seq, Last: o.seq}, func(line []byte) error {
		if a.json {
			found = new(api.Record)
			return a.printLine(line)
		}
		var err error
		found, err = parseRecord(line)
		return err
	})
	if err != nil {
		return noJournal(o.id, err)
	}
	if found == nil {
		return &hintedError{err: fmt.Errorf("the journal of %q has no record %d", o.id, o.seq), hint: "ctis logs " + o.id + " shows which there are"}
	}
	bodies := &journalBodies{a: a, id: o.id}
	defer bodies.close()
	switch {
	case a.json:
		return nil
	case o.raw:
		if o.response {
			return a.showRaw(ctx, found.Seq, received(found), bodies)
		}
		return a.showRaw(ctx, found.Seq, evidence.SentBodies(found), bodies)
	}
	return a.showRecord(ctx, found, bodies, o.maxBytes)
}

// received are the bodies that came back, also those that were never meant to be kept.
func received(r *api.Record) (all []*api.Body) {
	if r.Response != nil {
		all = append(all, (*api.Body)(&r.Response.Body))
	}
	if r.Tunnel != nil {
		all = append(all, (*api.Body)(&r.Tunnel.Received))
	}
	return all
}

// showRaw writes the bytes of bodies one after the other.
func (a *app) showRaw(ctx context.Context, seq uint64, all []*api.Body, bodies evidence.Bodies) error {
	for _, b := range all {
		body, err := evidence.OpenBody(ctx, b, bodies)
		if errors.Is(err, evidence.ErrNotKept) {
			return &hintedError{err: fmt.Errorf("record %d: %w", seq, err), hint: "its size and digest are in ctis show --json"}
		}
		if err != nil {
			return err
		}
		_, err = io.Copy(a.streams.Out, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	return nil
}

// showRecord writes a record for people.
func (a *app) showRecord(ctx context.Context, r *api.Record, bodies evidence.Bodies, most int64) error {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, harmless(value))
		}
	}
	field("record", fmt.Sprintf("%d  %s", r.Seq, r.ID))
	field("time", r.Time.Local().Format("2006-01-02 15:04:05.000000 -0700")+fmt.Sprintf("  (took %.3f ms)", r.DurationMS))
	field("kind", r.Kind)
	client := fmt.Sprintf("%s port %d", r.Client.IP, r.Client.Port)
	if r.Client.Service != "" {
		client = r.Client.Service + "  " + client
	}
	if r.Client.IP != "" {
		field("client", client)
	}
	if r.TLS != nil {
		version := "TLS " + r.TLS.Version
		if r.TLS.Version == "" {
			version = "TLS handshake failed"
		}
		field("tls", strings.TrimSpace(version+"  name "+strconv.Quote(r.TLS.SNI)+"  "+r.TLS.ALPN))
	}
	answered := r.Persona
	for _, s := range []string{r.Endpoint, r.Rule} {
		if s != "" {
			answered += "  " + s
		}
	}
	field("answered", answered)
	field("dropped", map[bool]string{true: strconv.FormatUint(r.Dropped, 10) + " requests"}[r.Dropped > 0])
	field("error", r.Error)
	if _, err := io.WriteString(a.streams.Out, b.String()); err != nil {
		return err
	}
	if q := r.Request; q != nil {
		if err := a.showHead(fmt.Sprintf("%s %s %s", q.Method, q.Target, q.Proto), q.Headers, "> "); err != nil {
			return err
		}
		if err := a.showBody(ctx, &q.Body, q.Headers, bodies, most); err != nil {
			return err
		}
	}
	if r.Raw != nil {
		fmt.Fprintln(a.streams.Out, "\nreceived, and no request:")
		if err := a.showBody(ctx, r.Raw, nil, bodies, most); err != nil {
			return err
		}
	}
	if err := a.showResponse(ctx, r, bodies, most); err != nil || r.Tunnel == nil {
		return err
	}
	fmt.Fprintf(a.streams.Out, "\nWebSocket: %d bytes received by the client, SHA-256 %s\n", r.Tunnel.Received.Size, r.Tunnel.Received.SHA256)
	if r.Tunnel.Received.Encoding != "" {
		if err := a.showBody(ctx, (*api.Body)(&r.Tunnel.Received), nil, bodies, most); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.streams.Out, "\nWebSocket: %d bytes sent by the client, SHA-256 %s\n", r.Tunnel.Sent.Size, r.Tunnel.Sent.SHA256)
	return a.showBody(ctx, &r.Tunnel.Sent, nil, bodies, most)
}

func (a *app) showResponse(ctx context.Context, r *api.Record, bodies evidence.Bodies, most int64) error {
	var err error
	switch p := r.Response; {
	case p != nil:
		if err = a.showHead(strconv.Itoa(p.Status), p.Headers, "< "); err == nil {
			_, err = fmt.Fprintf(a.streams.Out, "\nresponse body of %d bytes, SHA-256 %s\n", p.Body.Size, p.Body.SHA256)
		}
		if err == nil && p.Body.Encoding != "" {
			err = a.showBody(ctx, (*api.Body)(&p.Body), p.Headers, bodies, most)
		}
	case r.OutcomeUnknown:
		_, err = fmt.Fprintln(a.streams.Out, "\noutcome unknown: the simulator was stopped before it was written")
	case evidence.Pending(r):
		_, err = fmt.Fprintln(a.streams.Out, "\nstill running")
	default:
		_, err = fmt.Fprintln(a.streams.Out, "\nno response")
	}
	return err
}

func (a *app) showHead(first string, headers [][2]string, mark string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s%s\n", mark, harmless(first))
	for _, h := range headers {
		fmt.Fprintf(&b, "%s%s: %s\n", mark, harmless(h[0]), harmless(h[1]))
	}
	_, err := io.WriteString(a.streams.Out, b.String())
	return err
}

// harmless is printable text on one line.
func harmless(s string) string { return printable(strings.ReplaceAll(s, "\n", `\x0a`)) }
