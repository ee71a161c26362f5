// Command bench measures ctis against other programs on the same work, in turns
// within one run, so that what the machine does besides weighs on both. Figures
// are medians; what counts is their ratio or difference.
//
//	up      ctis up beside docker compose up on the same file (needs an engine)
//	serve   ctis-server beside bare net/http that writes one line of JSON a request
//	flood   one trajectory's requests while another one floods, beside bare net/http (Linux)
//	hash    the image's tag and the look whether it exists (needs an engine)
//	stream  the first event of an upstream's stream, directly and through simulator and gateway
//	inputs  the hash of a large build context beside one SHA-256 a file
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"
)

func main() {
	runs := flag.Int("n", 7, "how often each program has its turn")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [-n RUNS] up|serve|flood|stream|hash|inputs …")
		flag.PrintDefaults()
	}
	flag.Parse()
	benches := map[string]func(context.Context, int) error{"up": benchUp, "serve": benchServe, "flood": benchFlood, "hash": benchHash, "inputs": benchInputs, "stream": benchStream}
	names := flag.Args()
	if len(names) == 3 && names[0] == bareVerb {
		if err := bareServer(names[1], names[2]); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", bareVerb, err)
			os.Exit(1)
		}
		return
	}
	if len(names) == 0 {
		names = []string{"hash", "inputs", "serve", "flood", "stream", "up"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(names) == 3 && names[0] == floodVerb {
		if err := flood(ctx, names[2]); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", floodVerb, err)
			os.Exit(1)
		}
		return
	}
	for _, name := range names {
		bench, ok := benches[name]
		if !ok {
			flag.Usage()
			os.Exit(2)
		}
		if err := bench(ctx, *runs); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

// figures are the measurements of one program.
type figures []time.Duration

func (f figures) median() time.Duration {
	s := slices.Sorted(slices.Values(f))
	return s[len(s)/2]
}

func (f figures) String() string {
	return fmt.Sprintf("median %v, from %v to %v, n=%d", f.median().Round(100*time.Microsecond),
		slices.Min(f).Round(100*time.Microsecond), slices.Max(f).Round(100*time.Microsecond), len(f))
}

// timed measures one call.
func timed(f *figures, call func() error) error {
	begun := time.Now()
	err := call()
	*f = append(*f, time.Since(begun))
	return err
}
