package compose

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killedWhile starts a ctis that runs docker compose, waits for ready and kills
// it in a way that it cannot notice.
func killedWhile(t *testing.T, ready func(output *bufio.Scanner), environ ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), environ...)
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // where ready gives up
	ready(bufio.NewScanner(output))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = cmd.Process.Wait() // killed, as it should be
}

func TestComposeEndsWithAKilledCtis(t *testing.T) {
	terminated := filepath.Join(t.TempDir(), "terminated")
	killedWhile(t, func(output *bufio.Scanner) {
		if !output.Scan() || output.Text() != "started" {
			t.Errorf("output is %q", output.Text())
		}
		// Long enough for a thread to end that has nothing to do with it.
		time.Sleep(200 * time.Millisecond)
		if _, err := os.Stat(terminated); err == nil {
			t.Error("docker compose is ended while ctis lives")
		}
	}, runDocker+"="+os.Args[0], terminatedFile+"="+terminated)
	for range 100 {
		if _, err := os.Stat(terminated); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("docker compose outlives ctis")
}

// The docker program runs Compose as a child of its own, which has to end too:
// it then leaves the engine, here one that never answers.
func TestComposePluginEndsWithAKilledCtis(t *testing.T) {
	needCompose(t)
	dir, err := os.MkdirTemp("", "ctis") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	arrived, left := make(chan struct{}, 100), make(chan struct{}, 100)
	engine := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") { // which the docker program asks too
			w.Header().Set("Api-Version", "1.45")
			w.Header().Set("Ostype", "linux")
			return
		}
		arrived <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	})}
	go func() { _ = engine.Serve(l) }() // ends with the listener
	defer engine.Close()
	killedWhile(t, func(*bufio.Scanner) {
		select {
		case <-arrived:
		case <-time.After(20 * time.Second):
			t.Fatal("docker compose does not ask the engine")
		}
		select {
		case <-left:
			t.Error("docker compose does not wait for the engine")
		case <-time.After(3 * time.Second): // longer than it waits for a ping
		}
	}, runDocker+"=docker", "DOCKER_HOST=unix://"+socket)
	for open := 1 + len(arrived); open > 0; open-- {
		select {
		case <-left:
		case <-time.After(10 * time.Second):
			t.Fatal("docker compose outlives ctis")
		}
	}
}
