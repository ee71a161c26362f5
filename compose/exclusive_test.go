package compose

import (
	"slices"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestExclusivesHaveTheirPlaces: each thing with the line that asks for it; names that
// have the trajectory's id in them are listed too, as not fixed.
func TestExclusivesHaveTheirPlaces(t *testing.T) {
	dir := writeEnvironment(t, "network = 'lab'\n", `services:
  default:
    image: alpine
    networks: [lab, six, plain]
    volumes: ["own:/o", "kept:/k", "outside:/x"]
  joined:
    image: alpine
    network_mode: container:proxy
networks:
  lab:
    name: lab-net
  six:
    external: true
  plain:
    ipam:
      config:
        - subnet: 10.1.2.3/16
  unused: {name: nobody}
volumes:
  own: {}
  kept: {name: kept-data}
  outside: {external: true}
  unused: {name: nobody}
`)
	env := mustLoad(t, Options{Dir: dir, ID: "t1"})
	var got []string
	for _, x := range env.Exclusive {
		state := ""
		if x.Fixed {
			state = " fixed"
		}
		if x.External {
			state += " external"
		}
		got = append(got, x.Place()[len(dir)+1:]+" "+x.Kind+" "+x.Name+state+": "+x.String())
	}
	want := []string{
		`compose.yaml:11:5 network lab-net fixed: network "lab" is always named "lab-net"`,
		`compose.yaml:14:3 network t1_plain: network "plain" is named "t1_plain"`,
		`compose.yaml:17:11 subnet 10.1.0.0/16 fixed: network "plain" has the fixed subnet 10.1.0.0/16`,
		`compose.yaml:13:5 network six fixed external: network "six" is external, named "six"`,
		`compose.yaml:21:10 volume kept-data fixed: volume "kept" is always named "kept-data"`,
		`compose.yaml:22:13 volume outside fixed external: volume "outside" is external, named "outside"`,
		`compose.yaml:20:3 volume t1_own: volume "own" is named "t1_own"`,
		`compose.yaml:8:5 container proxy fixed external: service "joined" uses the container "proxy" of somebody else`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if list := env.Exclusives(); len(list) != len(want) || !slices.Contains(list, api.Exclusive{Kind: api.KindVolume, Name: "kept-data"}) {
		t.Errorf("the simulator is told %v", list)
	}
}

// TestNamesOfTwoProjectsThatMeetAreFoundToo: "a" with "b_c" and "a_b" with "c".
func TestNamesOfTwoProjectsThatMeetAreFoundToo(t *testing.T) {
	load := func(id, key string) []api.Exclusive {
		dir := writeEnvironment(t, "network = '"+key+"'\n", "services:\n  default: {image: alpine, networks: ["+key+"]}\nnetworks: {"+key+": {}}\n")
		return mustLoad(t, Options{Dir: dir, ID: id}).Exclusives()
	}
	if _, meet := api.Meeting(load("a", "b_c"), load("a_b", "c")); !meet {
		t.Error("they do not meet")
	}
	if x, meet := api.Meeting(load("a", "c"), load("b", "c")); meet {
		t.Errorf("two trajectories of one environment meet at %v", x)
	}
}
