package commands

import (
	"strings"
	"testing"

	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/simulator"
)

func TestDriftNamesBothConfigHashes(t *testing.T) {
	container := func(id, name, hash string) netpin.Container {
		return netpin.Container{ID: id, Name: name, Labels: map[string]string{labelConfigHash: hash}}
	}
	network := func(id, name, hash string) netpin.Network {
		return netpin.Network{ID: id, Name: name, Labels: map[string]string{labelConfigHash: hash}}
	}
	created := netpin.Project{
		Containers: []netpin.Container{container("c1", "t-a-1", "aaa"), container("c2", "t-b-1", "bbb")},
		Networks:   []netpin.Network{network("n1", "t_default", "nnn")},
	}
	if err := drift(created, created); err != nil {
		t.Errorf("what did not change: %v", err)
	}
	if err := drift(created, netpin.Project{Containers: created.Containers[:1], Networks: created.Networks}); err != nil {
		t.Errorf("a container that went away is for others to judge: %v", err)
	}
	for _, c := range []struct {
		now  netpin.Project
		says []string
	}{
		{netpin.Project{Containers: []netpin.Container{container("c3", "t-a-1", "xxx")}, Networks: created.Networks}, []string{`container "t-a-1" anew`, "c3", "c1", "aaa", "xxx"}},
		{netpin.Project{Containers: append(created.Containers, container("c4", "t-c-1", "ccc"))}, []string{`further container "t-c-1"`, "ccc"}},
		{netpin.Project{Containers: created.Containers, Networks: []netpin.Network{network("n2", "t_default", "mmm")}}, []string{`network "t_default" anew`, "n2", "n1", "nnn", "mmm"}},
	} {
		err := drift(created, c.now)
		for _, want := range c.says {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
	}
}

// A container that Compose made of changed files lacks ctis's labels, and yet
// has to go with the rest; one of other files is somebody else's.
func TestWhatComposeMadeOfTheSameFilesIsOurs(t *testing.T) {
	a := &app{instance: "ctis"}
	container := func(instance, files string) netpin.Container {
		labels := map[string]string{}
		for k, v := range map[string]string{simulator.LabelInstance: instance, labelConfigFiles: files} {
			if v != "" {
				labels[k] = v
			}
		}
		return netpin.Container{Name: "c", Labels: labels}
	}
	mine := container("ctis", "/e/compose.yml,-")
	network := netpin.Network{Name: "n", Labels: map[string]string{}}
	for name, c := range map[string]struct {
		containers []netpin.Container
		networks   []netpin.Network
		ours       bool
	}{
		"labelled":                    {[]netpin.Container{mine}, nil, true},
		"of the same files":           {[]netpin.Container{mine, container("", "/e/compose.yml,-")}, []netpin.Network{network}, true},
		"of other files":              {[]netpin.Container{mine, container("", "/other/compose.yml")}, nil, false},
		"of files that are not named": {[]netpin.Container{mine, container("", "")}, nil, false},
		"of the same files alone":     {[]netpin.Container{mine, container("", "/e/compose.yml")}, nil, true},
		"of another instance":         {[]netpin.Container{mine, container("other", "/e/compose.yml,-")}, nil, false},
	} {
		if err := a.ours(t.Context(), netpin.Project{Name: "t", Containers: c.containers, Networks: c.networks}); (err == nil) != c.ours {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]netpin.Project{
		"nothing labelled": {Containers: []netpin.Container{container("", "/e/compose.yml")}},
		"a network alone":  {Networks: []netpin.Network{network}},
	} {
		if unlabelled(p, nil, false) == "" {
			t.Errorf("%s: without a label anywhere it is taken for ours", name)
		}
	}
}
