// Command agent plays an agent, or any other service, in end-to-end tests. It is
// built statically and put alone into an image FROM scratch, so it brings along
// whatever a test needs inside a container. It uses the standard library alone
// and so trusts what the container makes Go programs trust.
//
//	agent wait                    sleep until SIGTERM
//	agent exit N                  end at once with status N
//	agent crash                   end by a panic
//	agent serve [HOST]:PORT       answer every HTTP request with 200
//	agent secure HOST             answer HTTPS as HOST, certified by another CA than the simulator's
//	agent health FILE             status 0 if FILE exists, else 1
//	agent fetch [FLAGS] URL       one request; prints what came back as JSON
//	agent loop URL                requests until SIGTERM; prints counts as JSON
//	agent load URL N CONNECTIONS  N acknowledged posts; prints each id
//	agent raw HOST:PORT           send standard input as it is, print the answer
//	agent stop VERB               end the agent that does VERB in the same container
//	agent upstream                an API with TLS on port 443 that repeats all it is sent
//	agent scan PID TEXT           how often TEXT is in the memory of a process
//	agent kill PID                send SIGKILL, as the kernel would to a process that crashed it
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// exitUsage is the status for arguments that make no sense.
const exitUsage = 2

var errUsage = errors.New("usage: agent wait | exit N | crash | serve ADDR | secure HOST | health FILE | fetch [FLAGS] URL | loop URL | load URL N CONNECTIONS | raw ADDR | upstream | scan PID TEXT | stop VERB | kill PID")

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	status, err := dispatch(ctx, args, stdin, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "agent:", err)
		if errors.Is(err, errUsage) {
			return exitUsage
		}
		return max(status, 1)
	}
	return status
}

func dispatch(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if len(args) == 0 {
		return 0, errUsage
	}
	verb, args := args[0], args[1:]
	want := map[string]int{"wait": 0, "exit": 1, "crash": 0, "serve": 1, "secure": 1, "health": 1, "loop": 1, "load": 3, "raw": 1, "upstream": 0, "scan": 2, "stop": 1, "kill": 1}
	if n, fixed := want[verb]; fixed && len(args) != n {
		return 0, errUsage
	}
	switch verb {
	case "wait":
		<-ctx.Done()
		return 0, nil
	case "exit":
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 0 || n > 255 {
			return 0, fmt.Errorf("%q is no exit status: %w", args[0], errUsage)
		}
		return n, nil
	case "crash":
		// A signal to itself would do nothing: the first process of a container
		// is not stopped by those it has no handler for.
		panic("crash asked for")
	case "stop":
		return 0, stop(args[0])
	case "kill":
		pid, err := strconv.Atoi(args[0])
		if err != nil || pid <= 1 {
			return 0, fmt.Errorf("%q is no process: %w", args[0], errUsage)
		}
		return 0, syscall.Kill(pid, syscall.SIGKILL)
	case "serve":
		return 0, serve(ctx, args[0], stderr)
	case "secure":
		return 0, secure(ctx, args[0])
	case "health":
		_, err := os.Stat(args[0])
		if errors.Is(err, fs.ErrNotExist) {
			return 1, nil
		}
		return 0, err
	case "fetch":
		return fetch(ctx, args, stdout, stderr)
	case "loop":
		return 0, loop(ctx, args[0], stdout)
	case "load":
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%q is no count: %w", args[1], errUsage)
		}
		c, err := strconv.Atoi(args[2])
		if err != nil || c < 1 {
			return 0, fmt.Errorf("%q is no count: %w", args[2], errUsage)
		}
		return 0, load(ctx, args[0], n, c, stdout, stderr)
	case "upstream":
		return 0, upstream(ctx, stderr)
	case "scan":
		return 0, scan(args[0], args[1], stdout)
	case "raw":
		return 0, raw(ctx, args[0], stdin, stdout)
	}
	return 0, fmt.Errorf("unknown verb %q: %w", verb, errUsage)
}

// serve answers until the context ends. It says on stderr where it listens.
func serve(ctx context.Context, address string, stderr io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "listening on", listener.Addr())
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(w, "%s %s %s from %s\n", r.Method, r.Host, r.RequestURI, r.RemoteAddr)
		}),
	}
	end := context.AfterFunc(ctx, func() { _ = server.Close() }) // its error shows in Serve's
	defer end()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// raw sends everything from stdin and prints everything that comes back.
func raw(ctx context.Context, address string, stdin io.Reader, stdout io.Writer) error {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	end := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a closed connection is what ends the copies
	defer end()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, stdin)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			err = tcp.CloseWrite()
		}
		sent <- err
	}()
	_, received := io.Copy(stdout, conn)
	// A peer that answers and closes before all was sent is no failure: that is
	// what it does with bad input.
	select {
	case err := <-sent:
		if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			return errors.Join(err, received)
		}
	default:
	}
	if errors.Is(received, syscall.ECONNRESET) {
		return nil
	}
	return received
}

// stop sends SIGTERM to every process that runs this program with a verb.
func stop(verb string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	found := false
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil {
			continue // it has just ended
		}
		argv := strings.Split(string(line), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil || len(argv) < 2 || argv[1] != verb {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("nothing here does %q", verb)
	}
	return nil
}
