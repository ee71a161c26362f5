package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/e2e/images"
)

// model is what is known about an instance while processes work on it at once: which
// trajectory may have been there from when to when, and with what. An outcome is judged
// by whether anything that may have been there accounts for it.
type model struct {
	b     *bed
	mu    sync.Mutex
	spans []*span
	chaos []*span // when containers were killed or restarted, and their coming back
}

// span is a stretch of time, without end while to is zero.
type span struct {
	id, image, key string // key is "" without upstream proxies
	from, to       time.Time
}

func (s *span) meets(from, to time.Time) bool {
	return !s.from.After(to) && (s.to.IsZero() || !s.to.Before(from))
}

func (m *model) begin(list *[]*span, s span) *span {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.from = time.Now()
	*list = append(*list, &s)
	return &s
}

func (m *model) end(s *span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.to = time.Now()
}

// justified says whether a refusal of an up can be: another image is in use, or another
// value of the key.
func (m *model) justified(own *span, from, to time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.spans, func(s *span) bool {
		return s.id != own.id && s.meets(from, to) && (s.image != own.image || own.key != "" && s.key != "" && s.key != own.key)
	})
}

// disturbed says whether something was killed while it ran.
func (m *model) disturbed(from, to time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.chaos, func(s *span) bool { return s.meets(from, to) })
}

// alone checks what must hold at every moment: one simulator and one gateway at most.
func (m *model) alone(t *testing.T) {
	t.Helper()
	for _, role := range []string{"simulator", "gateway"} {
		list := lines(m.b.docker("ps", "-aq", "--filter", "label=io.ctis.role="+role, "--filter", "label=io.ctis.instance="+m.b.instance))
		if len(list) > 1 {
			t.Errorf("%d containers are the %s: %q", len(list), role, list)
		}
	}
}

// actor is one process after another that works on one trajectory.
type actor struct {
	*model
	t      *testing.T
	random *rand.Rand
	id     string
	dirs   map[bool]string // environments, with upstream proxies and without
	images []string        // "" is the one built from source
	live   *span           // what may be there; nil: nothing is
	up     bool            // it is there for sure
	agent  string          // its container
}

func (a *actor) step() {
	switch n := a.random.IntN(10); {
	case a.live == nil && n < 8:
		a.bringUp(false)
	case a.live == nil:
		a.bringUp(true)
	case !a.up || n < 4:
		a.takeDown()
	default:
		a.check()
	}
	a.alone(a.t)
}

// bringUp runs ctis up; cut says that it is killed on the way.
func (a *actor) bringUp(cut bool) {
	s := span{id: a.id, image: a.images[a.random.IntN(len(a.images))]}
	proxied := a.random.IntN(2) == 0
	if proxied {
		s.key = "sk-model-" + strconv.Itoa(a.random.IntN(2)) + "-0123456789"
	}
	args := []string{"up", a.dirs[proxied], "--id", a.id, "--json"}
	if s.image != "" {
		args = append(args, "--image", s.image)
	}
	a.live = a.begin(&a.spans, s)
	cmd := a.b.command(args...)
	cmd.Env = append(cmd.Env, "VENDOR_API_KEY="+s.key)
	if cut {
		if err := cmd.Start(); err != nil {
			a.t.Error(err)
			return
		}
		time.Sleep(time.Duration(a.random.IntN(3000)) * time.Millisecond) // anywhere in its work
		_ = cmd.Process.Kill()                                            // it may have ended
		_ = cmd.Wait()
		return
	}
	r := finish(a.t, cmd)
	switch to := time.Now(); {
	case r.code == 0:
		var u upJSON
		if err := json.Unmarshal([]byte(r.stdout), &u); err != nil {
			a.t.Error(err)
			return
		}
		a.up, a.agent = true, u.container(a.t, "default")
		a.check()
	case r.code == 3 && a.justified(a.live, a.live.from, to), a.disturbed(a.live.from, to):
		a.takeDown()
	default:
		a.t.Errorf("up of %s ended with %d, and nothing accounts for it:\n%s", a.id, r.code, r.stderr)
		a.takeDown()
	}
}

// takeDown must work whatever there is, unless something is killed meanwhile.
func (a *actor) takeDown() {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		from := time.Now()
		r := a.b.ctis("down", a.id, "--timeout", "0s")
		// A simulator that is just being replaced cannot be told; then it says so.
		untold := strings.Contains(r.stderr, "does not answer")
		if r.code == 0 && !untold {
			break
		}
		if r.code != 0 && !a.disturbed(from, time.Now()) || time.Now().After(deadline) {
			a.t.Errorf("down of %s ended with %d:\n%s", a.id, r.code, r.stderr)
			break
		}
	}
	a.end(a.live)
	a.live, a.up = nil, false
}

// check: a trajectory that is up is registered, and its personas answer.
func (a *actor) check() {
	var said string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		from := time.Now()
		out, err := exec.Command("docker", "exec", a.agent, images.Program, "fetch", "-timeout", "10s", "-d", "x", "https://filebin.net/webhook").CombinedOutput()
		if err == nil && strings.Contains(string(out), `"status":200`) {
			return
		}
		said = fmt.Sprintf("%v %s", err, out)
		if !a.disturbed(from, time.Now()) {
			break
		}
	}
	a.t.Errorf("%s was up and is not answered any more: %s", a.id, said)
}

// disturb kills and restarts what all share.
func (m *model) disturb(random *rand.Rand) {
	s := m.begin(&m.chaos, span{})
	for _, c := range [][]string{{"-simulator"}, {"-gateway"}, {"-simulator", "-gateway"}}[random.IntN(3)] {
		m.b.docker("restart", "--time", strconv.Itoa(5+random.IntN(2)), m.b.instance+c) // it may not be there
	}
	time.Sleep(2 * time.Second) // until they answer again, which is part of it
	m.end(s)
}

// TestWhateverEightProcessesDoOneSimulatorServesThemAll lets processes bring
// trajectories up and down, with images and keys that exclude each other, be killed on
// the way, and lose their simulator; and holds every outcome against a model.
func TestWhateverEightProcessesDoOneSimulatorServesThemAll(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	seconds := 20
	if s := os.Getenv("CTIS_E2E_MODEL"); s != "" {
		var err error
		if seconds, err = strconv.Atoi(s); err != nil || seconds < 1 {
			t.Fatalf("CTIS_E2E_MODEL=%q is no number of seconds", s)
		}
	}
	other := images.Repository + "model:" + b.instance
	built := b.ctis("build").must(t, 0)
	recipe := exec.Command("docker", "build", "-q", "-t", other, "-")
	recipe.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	recipe.Stdin = strings.NewReader("FROM " + strings.TrimSpace(lines(built.stdout)[0]) + "\nLABEL model=" + b.instance + "\n")
	if out, err := recipe.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { b.docker("rmi", "-f", other) })
	ref := image(t, images.Agent())
	a := newAPI(t, vendor)
	dirs := map[bool]string{}
	for _, proxied := range []bool{false, true} {
		upstream := ""
		if proxied {
			upstream = fmt.Sprintf("upstream_proxies = [{ host = %q, api_key_env = \"VENDOR_API_KEY\", ca_file = \"vendor.pem\" }]\n", vendor)
		}
		dirs[proxied] = environment(t, map[string]string{
			"vendor.pem":  a.cert,
			"ctis.toml":   "network = \"default\"\n" + upstream + "[personas.\"filebin.net\"]\nendpoints = [\"webhook\"]\n",
			"compose.yml": fmt.Sprintf("services: {default: {image: %q, command: [wait]}}\n", ref),
		})
	}
	m := &model{b: b}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var all sync.WaitGroup
	for i := range 8 {
		id := b.id(fmt.Sprint("m", i))
		t.Cleanup(func() { b.ctis("down", id, "--timeout", "0s") })
		actor := &actor{model: m, t: t, random: rand.New(rand.NewPCG(seed, uint64(i))), id: id, dirs: dirs, images: []string{"", "", other}}
		all.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				actor.step()
			}
			if actor.live != nil {
				actor.takeDown()
			}
		})
	}
	all.Go(func() {
		random := rand.New(rand.NewPCG(seed, 99))
		for time.Now().Before(end) && !t.Failed() {
			time.Sleep(time.Duration(5+random.IntN(8)) * time.Second)
			m.disturb(random)
		}
	})
	all.Wait()
	for i := range 8 {
		if left := b.leftOf(b.id(fmt.Sprint("m", i))); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
	if out := b.ctis("status", "--json").must(t, 0).stdout; strings.Contains(out, `"gateway"`) {
		t.Errorf("claims are left: %s", out)
	}
	t.Logf("%d trajectories, %d disturbances", len(m.spans), len(m.chaos))
}
