package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// onSmallVolume runs the calling test again in a process with mounts of its own, where
// it gets a filesystem of a size. It returns "" to the first of the two. Nothing of the
// mount is left behind, however the process ends.
func onSmallVolume(t *testing.T, size string) string {
	t.Helper()
	const inside = "CTIS_TEST_OWN_MOUNTS"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if id := os.Getuid(); id != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			if os.Getenv("CI") == "true" {
				t.Fatalf("a test needs mounts of its own, so root or user namespaces: %v", err)
			}
			t.Skipf("no mounts of its own, which need root or user namespaces: %v", err)
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Fatalf("in a process of its own: %v\n%s", err, out)
		}
		return ""
	}
	dir := t.TempDir()
	if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) // goes with the process anyway
	return dir
}

// TestAFullVolumeAcknowledgesNothingLosesNothingAndRecovers fills the state volume while
// clients post, and makes room again. Every request was either answered 200, and is on
// record once as it was sent, or 503; and for each of those there is a record or it is
// counted by a gap. Nobody does anything to the server meanwhile.
func TestAFullVolumeAcknowledgesNothingLosesNothingAndRecovers(t *testing.T) {
	dir := onSmallVolume(t, "24m")
	if dir == "" {
		return
	}
	w := &world{t: t, state: dir}
	w.start()
	t.Cleanup(func() { w.stop() })
	w.register("t2", 2, plays("a.example", ""))
	w.register("t3", 3, plays("a.example", ""))

	var mu sync.Mutex
	acknowledged := map[string]string{} // digest of the body by the record's id
	count := map[int]int{}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for n := range 8 {
		client := w.client(2, n%2 == 1)
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				content := fmt.Sprintf("client %d, post %d\n", n, i)
				if i%16 == 0 {
					content = strings.Repeat(content, 4000) // longer than stands in a line
				}
				r, err := client.Post([]string{"http", "https"}[n%2]+"://a.example/webhook", "text/plain", strings.NewReader(content))
				if err != nil {
					t.Errorf("client %d, post %d: %v", n, i, err)
					return
				}
				answer, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err != nil {
					t.Errorf("client %d, post %d: %v", n, i, err)
				}
				mu.Lock()
				count[r.StatusCode]++
				if r.StatusCode == http.StatusOK {
					var a struct{ ID string }
					if err := json.Unmarshal(answer, &a); err != nil || acknowledged[a.ID] != "" {
						t.Errorf("answer %q: %v", answer, err)
					}
					sum := sha256.Sum256([]byte(content))
					acknowledged[a.ID] = hex.EncodeToString(sum[:])
				}
				mu.Unlock()
			}
		})
	}
	answered := func(status, more int) {
		t.Helper()
		mu.Lock()
		goal := count[status] + more
		mu.Unlock()
		eventually(t, fmt.Sprintf("%d more answers %d", more, status), func() bool { mu.Lock(); defer mu.Unlock(); return count[status] >= goal })
	}
	ballast := filepath.Join(dir, "ballast")
	for range 2 {
		answered(http.StatusOK, 100)
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the volume is not full: %v", err)
		}
		_ = f.Close() // it is full
		answered(http.StatusServiceUnavailable, 200)
		if r, _ := w.do(w.client(3, false), "POST", "http://a.example/webhook", strings.Repeat("x", 8<<10)); r.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("another trajectory is answered %s", r.Status)
		}
		if s, err := w.admin.Status(t.Context()); err != nil || !strings.Contains(strings.Join(s.Problems, "\n"), "requests are answered 503") {
			t.Errorf("the status tells %+v, %v", s, err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		answered(http.StatusOK, 100)
	}
	close(stop)
	clients.Wait()
	if len(count) != 2 {
		t.Errorf("answers were %v", count)
	}

	// By itself, with no further request: as one record or as two.
	eventually(t, "the gaps of the other trajectory are on record", func() bool {
		var lost uint64
		for _, r := range w.records("t3", api.KindGap) {
			lost += r.Dropped
		}
		return lost == 2
	})
	if s, err := w.admin.Status(t.Context()); err != nil || len(s.Problems) > 0 {
		t.Errorf("the status tells %+v, %v", s, err)
	}
	checkLines(t, w.storedLines("t2"))
	refused := 0
	for _, r := range w.records("t2") {
		switch {
		case r.Kind == api.KindGap:
			refused += int(r.Dropped)
			if !strings.Contains(r.Error, "could not be written") {
				t.Errorf("gap: %q", r.Error)
			}
		case r.Response.Status == http.StatusServiceUnavailable:
			refused++
		default:
			if want, ok := acknowledged[r.ID]; !ok || r.Request.Body.SHA256 != want || r.Request.Body.Truncated {
				t.Errorf("record %d was acknowledged %v, with body %s, and has %+v", r.Seq, ok, want, r.Request.Body.SHA256)
			}
			delete(acknowledged, r.ID)
		}
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged requests have no record", len(acknowledged))
	}
	if refused != count[http.StatusServiceUnavailable] {
		t.Errorf("%d requests were answered 503, and the journal tells of %d", count[http.StatusServiceUnavailable], refused)
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// checkLines fails the test unless stored lines link to each other.
func checkLines(t *testing.T, lines []string) {
	t.Helper()
	prev := strings.Repeat("0", 64)
	for i, line := range lines {
		if !strings.Contains(line, `"prev":"`+prev+`"`) {
			t.Fatalf("line %d does not link to the one before it: %.200s", i+1, line)
		}
		sum := sha256.Sum256([]byte(line))
		prev = hex.EncodeToString(sum[:])
	}
}
