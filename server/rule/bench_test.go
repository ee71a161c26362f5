package rule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// many are 500 rules of all kinds; only the last one takes lastRequest.
func many() []api.Rule {
	var rules []api.Rule
	for i := range 499 {
		r := api.Rule{Pass: true}
		switch i % 10 {
		case 0:
			r.Path = fmt.Sprintf("/api/v1/things/%d", i)
		case 1:
			r.Path = fmt.Sprintf("/api/v1/users/*/items/%d", i)
		case 2:
			r.Path = fmt.Sprintf("/api/v1/users/**/%d.json", i)
		case 3:
			r.PathRegex = fmt.Sprintf(`^/api/v[0-9]+/users/%d$`, i)
		case 4:
			r.Methods, r.Query = []string{"GET", "POST"}, is("page", fmt.Sprint(i))
		case 5:
			r.Headers = is("X-Request-Kind", fmt.Sprint(i))
		case 6:
			r.Headers = matches("User-Agent", fmt.Sprintf("^client/%d$", i))
		case 7:
			r.BodyContains = fmt.Sprintf("token-%d", i)
		case 8:
			r.BodyJSON = jsonAt("/user/id", fmt.Sprint(i))
		case 9:
			r.BodyRegex = fmt.Sprintf(`"key": *"K%d[A-Z]+"`, i)
		}
		rules = append(rules, r)
	}
	return append(rules, api.Rule{Path: "/api/v1/users/7/last", Pass: true})
}

const lastRequest = `POST /api/v1/users/7/last?page=2&sort=name | Host: a.test | User-Agent: client/8.5.0 | Accept: */* | Content-Type: application/json | X-Request-Kind: none | Accept-Encoding: gzip || {"user":{"id":12345,"name":"somebody"},"key":"none"}`

func BenchmarkLastOf500(b *testing.B) {
	set, err := Compile(many())
	if err != nil {
		b.Fatal(err)
	}
	h := NewHost("t1", "a.test", 0, set)
	q := request(lastRequest)
	q.content() // as it lies in the spool already
	b.ReportAllocs()
	for b.Loop() {
		q.valid = unknown
		if f, _ := h.Decide(q); f.Rule == nil || f.Rule.Ref != "500" {
			b.Fatal("another rule takes it")
		}
	}
}

// TestNothingIsAllocatedForRequestsThatNoRuleTakes: all kinds of conditions.
func TestNothingIsAllocatedForRequestsThatNoRuleTakes(t *testing.T) {
	rules := many()
	set, err := Compile(rules[:len(rules)-1])
	if err != nil {
		t.Fatal(err)
	}
	h := NewHost("t1", "a.test", 0, set)
	q := request(strings.Replace(lastRequest, "sort=name", "so%72t=n+me", 1))
	q.content()
	if n := testing.AllocsPerRun(100, func() {
		q.valid = unknown
		if f, e := h.Decide(q); f.Rule != nil || e != nil {
			t.Fatal("a rule takes it")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
