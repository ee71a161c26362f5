package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
)

// lookEngine has containers; a filter for a network or a volume finds them by name.
type lookEngine struct {
	netpin.Engine
	on map[string][]container.Summary
}

func (e *lookEngine) ContainerList(_ context.Context, o container.ListOptions) ([]container.Summary, error) {
	refs := append(o.Filters.Get("network"), o.Filters.Get("volume")...)
	if len(refs) == 0 {
		return slices.Concat(slices.Collect(maps.Values(e.on))...), nil
	}
	for _, ref := range refs {
		if list := e.on[ref]; len(list) > 0 {
			return list, nil
		}
	}
	return nil, nil
}

// madeBy are the labels of what a trajectory, or a Compose project, has.
func madeBy(project, trajectory, instance string) map[string]string {
	labels := map[string]string{}
	for key, value := range map[string]string{"com.docker.compose.project": project, compose.LabelTrajectory: trajectory, compose.LabelInstance: instance} {
		if value != "" {
			labels[key] = value
		}
	}
	return labels
}

func TestTheEngineIsAskedWhoElseHasIt(t *testing.T) {
	thing := func(kind, name string, external bool) compose.Exclusive {
		return compose.Exclusive{Exclusive: api.Exclusive{Kind: kind, Name: name}, Key: "k", External: external, Fixed: true, File: "compose.yml", Line: 7, Column: 3}
	}
	n := func(name, id string, labels map[string]string) netpin.Network {
		return netpin.Network{Name: name, ID: id, Labels: labels, Driver: "bridge"}
	}
	mine, theirs, elsewhere := madeBy("me", "me", "i"), madeBy("t1", "t1", "i"), madeBy("t1", "t1", "other")
	project, nobody, simulator := madeBy("p", "", ""), map[string]string{}, madeBy("", "", "i")
	withSubnet := func(text string, labels map[string]string) netpin.Network {
		list, err := netpin.Networks(t.Context(), &subnetEngine{list: []network.Summary{{Name: "x_net", ID: "1", Labels: labels, IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: text}}}}}})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	withOption := func(driver, key, value string, labels map[string]string) netpin.Network {
		x := n("x_net", "1", labels)
		x.Driver, x.Options = driver, map[string]string{key: value}
		return x
	}
	who := func(name string, labels map[string]string) container.Summary {
		return container.Summary{ID: "id-" + name, Names: []string{"/" + name}, Labels: labels}
	}
	for _, c := range []struct {
		name     string
		x        compose.Exclusive
		networks []netpin.Network
		volume   map[string]string // labels; nil: it is not there
		on       []container.Summary
		want     string // of the error or the warning; "": nothing is in the way
		hint     string
	}{
		{"free name", thing(api.KindNetwork, "net", false), []netpin.Network{n("net2", "1", theirs)}, nil, nil, "", ""},
		{"own network", thing(api.KindNetwork, "net", false), []netpin.Network{n("net", "1", mine)}, nil, nil, "", ""},
		{"name of another trajectory", thing(api.KindNetwork, "net", false), []netpin.Network{n("net", "1", theirs)}, nil, nil,
			`compose.yml:7:3: network "k" is always named "net", which trajectory "t1" has; only one trajectory at a time can have it`, "ctis down t1 releases it"},
		{"of another instance", thing(api.KindNetwork, "net", false), []netpin.Network{n("net", "1", elsewhere)}, nil, nil,
			`which trajectory "t1" of the instance "other" has`, "ctis --instance other down t1 releases it"},
		{"of a project", thing(api.KindNetwork, "net", false), []netpin.Network{n("net", "1", project)}, nil, nil, `which the Compose project "p" has`, "docker compose -p p down releases it"},
		{"of nobody", thing(api.KindNetwork, "net", false), []netpin.Network{n("net", "1", nobody)}, nil, nil, "which exists already and is no Compose project's", "docker network rm 1 removes it, if nobody needs it"},
		{"own and another's", thing(api.KindNetwork, "net", false), []netpin.Network{n("net", "1", mine), n("net", "2", theirs)}, nil, nil, `which trajectory "t1" has`, ""},
		{"own twice", thing(api.KindNetwork, "net", false), []netpin.Network{n("net", "1", mine), n("net", "2", mine)}, nil, nil, `network "net" exists 2 times (1, 2)`, ""},
		{"external and missing", thing(api.KindNetwork, "net", true), nil, nil, nil, `compose.yml:7:3: network "k" is external, named "net", which does not exist`, "docker network create net makes it"},
		{"external twice", thing(api.KindNetwork, "net", true), []netpin.Network{n("net", "1", nobody), n("net", "2", nobody)}, nil, nil, `exists 2 times`, ""},
		{"external and free", thing(api.KindNetwork, "net", true), []netpin.Network{n("net", "1", nobody)}, nil, []container.Summary{who("mine", mine), who("sim", simulator)}, "", ""},
		{"external and another's own", thing(api.KindNetwork, "net", true), []netpin.Network{n("net", "1", theirs)}, nil, nil, `which trajectory "t1" has`, ""},
		{"external with another's container", thing(api.KindNetwork, "net", true), []netpin.Network{n("net", "1", nobody)}, nil, []container.Summary{who("stranger", nobody), who("c", theirs)}, `which trajectory "t1" has`, ""},
		{"external with strangers", thing(api.KindNetwork, "net", true), []netpin.Network{n("net", "1", nobody)}, nil, []container.Summary{who("s1", nobody), who("s2", project)},
			`warns compose.yml:7:3: network "k" is external and not the trajectory's alone: container "s1", "s2" can see what it sends there, and be reached`, ""},
		{"own volume", thing(api.KindVolume, "v", false), nil, mine, nil, "", ""},
		{"own volume that another mounts", thing(api.KindVolume, "v", false), nil, mine, []container.Summary{who("c", elsewhere)}, `which trajectory "t1" of the instance "other" has`, ""},
		{"volume left behind", thing(api.KindVolume, "v", false), nil, madeBy("t1", "", ""), nil, `volume "k" is always named "v", which "t1" has or left behind`, "ctis down t1 --volumes releases it; where nothing else is left of that one, docker volume rm v removes it with all that is in it"},
		{"volume of nobody", thing(api.KindVolume, "v", false), nil, nobody, nil, "no Compose project's", "docker volume rm v removes it with all that is in it"},
		{"external volume missing", thing(api.KindVolume, "v", true), nil, nil, nil, "which does not exist", "docker volume create v makes it"},
		{"external volume of another", thing(api.KindVolume, "v", true), nil, nobody, []container.Summary{who("c", theirs)}, `which trajectory "t1" has`, ""},
		{"external volume of strangers", thing(api.KindVolume, "v", true), nil, nobody, []container.Summary{who("s", nobody)}, `warns compose.yml:7:3: volume "k" is external and not the trajectory's alone: container "s" can read and write what is in it`, ""},
		{"subnet free", thing(api.KindSubnet, "10.9.0.0/24", false), []netpin.Network{withSubnet("10.9.1.0/24", theirs)}, nil, nil, "", ""},
		{"own subnet", thing(api.KindSubnet, "10.9.0.0/24", false), []netpin.Network{withSubnet("10.9.0.0/24", mine)}, nil, nil, "", ""},
		{"subnet within another's", thing(api.KindSubnet, "10.9.0.0/24", false), []netpin.Network{withSubnet("10.0.0.0/8", theirs)}, nil, nil, `network "k" has the fixed subnet 10.9.0.0/24, which trajectory "t1" has (network "x_net")`, "ctis down t1 releases it"},
		{"IPv6 subnet", thing(api.KindSubnet, "fd5c::/64", false), []netpin.Network{withSubnet("fd5c::/48", project)}, nil, nil, `which the Compose project "p" has`, ""},
		{"bridge", thing(api.KindBridge, "br0", false), []netpin.Network{withOption("bridge", compose.OptionBridge, "br0", theirs)}, nil, nil, `which trajectory "t1" has`, ""},
		{"other bridge", thing(api.KindBridge, "br0", false), []netpin.Network{withOption("bridge", compose.OptionBridge, "br1", theirs)}, nil, nil, "", ""},
		{"parent", thing(api.KindParent, "eth0", false), []netpin.Network{withOption("macvlan", compose.OptionParent, "eth0", theirs)}, nil, nil, `which trajectory "t1" has`, ""},
		{"container missing", thing(api.KindContainer, "proxy", true), nil, nil, nil, "which does not exist", "start it first, or name another one"},
		{"container of nobody", thing(api.KindContainer, "proxy", true), nil, nil, []container.Summary{who("proxy", nobody)}, "", ""},
		{"container of another", thing(api.KindContainer, "proxy", true), nil, nil, []container.Summary{who("proxy", theirs)}, `which trajectory "t1" has`, ""},
		{"a simulator", thing(api.KindContainer, "proxy", true), nil, nil, []container.Summary{who("proxy", simulator)}, "which is a simulator's", ""},
		{"host of another instance", thing(api.KindHost, compose.HostNetwork, false), nil, nil, []container.Summary{who("c", elsewhere)}, `which trajectory "t1" of the instance "other" has`, ""},
		{"host of strangers", thing(api.KindHost, compose.HostNetwork, false), nil, nil, []container.Summary{who("s", nobody)}, "", ""},
	} {
		on := map[string][]container.Summary{}
		if len(c.on) > 0 {
			on = map[string][]container.Summary{"net": c.on, "v": c.on, "host": c.on, "1": c.on}
		}
		warned := ""
		l := engineLook{ctx: t.Context(), engine: &lookEngine{on: on}, id: "me", instance: "i", networks: c.networks, volumes: map[string]netpin.Volume{},
			warn: func(s string) { warned = "warns " + s }}
		if c.volume != nil {
			l.volumes[c.x.Name] = netpin.Volume{Name: c.x.Name, Labels: c.volume}
		}
		got, hint := "", ""
		if err := l.judge(c.x); err != nil {
			f := explain(t.Context(), "i", err)
			got, hint = f.Message, f.Hint
			var ambiguous *netpin.AmbiguousNetworkError
			if wantExit := map[bool]int{true: exitFailed, false: exitConflict}[errors.As(err, &ambiguous) || strings.Contains(got, "does not exist")]; f.exit != wantExit {
				t.Errorf("%s: exit %d, not %d", c.name, f.exit, wantExit)
			}
		} else {
			got = warned
		}
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || c.hint != "" && hint != c.hint {
			t.Errorf("%s: %q, hint %q", c.name, got, hint)
		}
	}
}

// subnetEngine has networks.
type subnetEngine struct {
	netpin.Engine
	list []network.Summary
}

func (e *subnetEngine) NetworkList(context.Context, network.ListOptions) ([]network.Summary, error) {
	return e.list, nil
}

// TestARefusedHoldNamesTheLine: what the simulator knows by name, people know by place.
func TestARefusedHoldNamesTheLine(t *testing.T) {
	x := compose.Exclusive{Exclusive: api.Exclusive{Kind: api.KindVolume, Name: "v"}, Key: "data", Fixed: true, File: "env/compose.yml", Line: 9, Column: 5}
	s := setup{env: &compose.Environment{Exclusive: []compose.Exclusive{x}}}
	for code, want := range map[string]string{
		api.CodeConflict: `which trajectory "t1" has; only`, api.CodeHeld: `which trajectory "t1" is being given at this moment; only`,
	} {
		e := api.Errorf(409, code, "no")
		e.Holders, e.Exclusive = []string{"t1"}, &x.Exclusive
		f := explain(t.Context(), "i", s.explainHold(fmt.Errorf("hold: %w", e)))
		if f.exit != exitConflict || !strings.HasPrefix(f.Message, `env/compose.yml:9:5: volume "data" is always named "v", `+want) || !strings.Contains(f.Hint, "ctis down t1") || f.Details["line"] != 9 {
			t.Errorf("%+v", f)
		}
	}
	other := errors.New("something else")
	if s.explainHold(other) != other {
		t.Error("another error is changed")
	}
}
