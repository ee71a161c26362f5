package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

const (
	floodVerb        = "flood-from-child"
	floodConnections = 256
	floodAsks        = 200                  // of the quiet trajectory in a turn
	floodPause       = 2 * time.Millisecond // between two of them
)

// benchFlood measures how long one trajectory's requests take while nothing else happens,
// and while another one floods the server from a process of its own, as fast as it is
// answered. The same is done with bare net/http and two clients. What counts is how many
// times its quiet value the 99th percentile becomes, and the server's beside net/http's:
// all of them share the processors of one machine, the flooding process included.
func benchFlood(ctx context.Context, runs int) (err error) {
	var ports [3]string
	for i := range ports {
		l, err := net.Listen("tcp4", ":0") // a port that is free on every address
		if err != nil {
			return err
		}
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
		if err := l.Close(); err != nil {
			return err
		}
	}
	p, err := launchPair(ctx, [3]string{":" + ports[0], ":" + ports[1], ":" + ports[2]})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	admin := api.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", p.socket)
	})
	defer admin.Close()
	for n := 2; n <= 3; n++ {
		if err := registerAt(ctx, admin, n); err != nil {
			return err
		}
	}
	if err := answers(ctx, "127.0.0.2:"+ports[2]); err != nil {
		return fmt.Errorf("bare net/http: %w", err)
	}
	servers := []*flooded{{contender: p.ctis, port: ports[0]}, {contender: p.bare, port: ports[2]}}
	for range runs {
		for i, s := range servers {
			if err := s.turn(ctx, p.self, servers[1-i].port); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	for _, s := range servers {
		for i, p := range floodPercentiles {
			fmt.Printf("flood  %-14s p%d quiet %v, beside a flood of the other server %v, flooded itself %v: %.1f times quiet, %.1f times beside\n", s.name, p,
				s.quiet[i].median().Round(time.Microsecond), s.beside[i].median().Round(time.Microsecond), s.loud[i].median().Round(time.Microsecond),
				s.growth(i), s.loud[i].median().Seconds()/s.beside[i].median().Seconds())
		}
	}
	for i, p := range floodPercentiles {
		fmt.Printf("       p%d: ratio of the two growths %.2f\n", p, servers[0].growth(i)/servers[1].growth(i))
	}
	st, err := admin.Status(ctx)
	if err != nil {
		return err
	}
	for _, t := range st.Trajectories {
		fmt.Printf("       trajectory %s: %d records, %d dropped, %d truncated\n", t.Trajectory, t.Journal.Records, t.Journal.Dropped, t.Journal.Truncated)
		if asked := uint64(3 * floodAsks * runs); t.Trajectory == "t3" && (t.Journal.Records != asked || t.Journal.Dropped > 0) {
			return fmt.Errorf("the quiet trajectory asked %d times, and has %d records", asked, t.Journal.Records)
		}
	}
	return nil
}

// flooded is a server that is measured with and without a flood.
type flooded struct {
	*contender
	port                string
	quiet, beside, loud turns
}

// floodPercentiles are what is told. Where the machine is busy with other work the
// highest of them tells of that more than of the servers.
var floodPercentiles = [...]int{50, 90, 99}

// turns are percentiles, one of each turn: so a moment in which the machine was busy
// with something else weighs on one turn, and not on the figure.
type turns [len(floodPercentiles)]figures

func (t *turns) add(f figures) {
	s := slices.Sorted(slices.Values(f))
	for i, p := range floodPercentiles {
		t[i] = append(t[i], s[len(s)*p/100])
	}
}

func (s *flooded) growth(i int) float64 {
	return s.loud[i].median().Seconds() / s.quiet[i].median().Seconds()
}

// turn measures both once. The quiet server has a moment to end what is left of the flood.
func (s *flooded) turn(ctx context.Context, self, other string) error {
	time.Sleep(300 * time.Millisecond)
	var quiet, beside, loud figures
	if err := ask(ctx, &quiet, s.port); err != nil {
		return err
	}
	if err := underFlood(ctx, self, s.port, func() error { return ask(ctx, &loud, s.port) }); err != nil {
		return err
	}
	// What the flooding process takes of the processors is no server's fault: here it
	// takes as much, and only the server is another.
	if err := underFlood(ctx, self, other, func() error { return ask(ctx, &beside, s.port) }); err != nil {
		return err
	}
	s.quiet.add(quiet)
	s.beside.add(beside)
	s.loud.add(loud)
	return nil
}

// registerAt registers trajectory n, whose agent calls 127.0.0.n from 127.1.n.5.
func registerAt(ctx context.Context, admin *api.Client, n int) error {
	var err error
	for range 100 {
		_, err = admin.Register(ctx, &api.Registration{
			Trajectory: fmt.Sprint("t", n), Environment: "bench", Settings: fmt.Sprintf("%064d", 0),
			Networks: []api.Network{{
				Name: "external", ID: fmt.Sprint("n", n),
				Subnets:   []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("127.0.0.%d/32", n)), netip.MustParsePrefix(fmt.Sprintf("127.1.%d.0/24", n))},
				Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("127.0.0.%d", n))},
				Peers:     []api.Peer{},
			}},
			Personas: []api.Persona{{Host: "filebin.net", ServerHeader: "nginx", Endpoints: []string{"webhook"}}},
		})
		if err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// dialAs connects as the agent of trajectory n.
func dialAs(ctx context.Context, n int, port string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n), 5)}}
	return d.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.%d:%s", n, port))
}

// floodRequest is what both of them send.
func floodRequest() ([]byte, error) {
	r, err := http.NewRequest(http.MethodPost, "http://filebin.net/webhook", strings.NewReader(`{"secret":"7c1f-93aa","step":1}`))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = r.Write(&b)
	return b.Bytes(), err
}

// ask makes floodAsks requests as the quiet trajectory, and measures each.
func ask(ctx context.Context, f *figures, port string) error {
	request, err := floodRequest()
	if err != nil {
		return err
	}
	c, err := dialAs(ctx, 3, port)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for range floodAsks {
		if err := timed(f, func() error {
			if _, err := c.Write(request); err != nil {
				return err
			}
			return readAnswer(r)
		}); err != nil {
			return err
		}
		time.Sleep(floodPause)
	}
	return nil
}

// underFlood calls f while a child process floods.
func underFlood(ctx context.Context, self, port string, f func() error) error {
	child, err := launch(ctx, "flood", self, floodVerb, "-", port)
	if err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond) // so that all its connections are busy
	return errors.Join(f(), child.end())
}

// flood posts over many connections until the context ends.
func flood(ctx context.Context, port string) error {
	request, err := floodRequest()
	if err != nil {
		return err
	}
	errs := make(chan error, floodConnections)
	for range floodConnections {
		go func() {
			c, err := dialAs(ctx, 2, port)
			if err != nil {
				errs <- err
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			for ctx.Err() == nil && err == nil {
				if _, err = c.Write(request); err == nil {
					err = readAnswer(r)
				}
			}
			errs <- err
		}()
	}
	for range floodConnections {
		err = errors.Join(err, <-errs)
	}
	return err
}
