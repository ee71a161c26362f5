package netpin

import (
	"context"
	"maps"
	"net/netip"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func TestPinsAreOfTheProjectsOwnContainers(t *testing.T) {
	p, err := FindProject(context.Background(), projectWorld(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Pins("n1", []string{"running", "created", "addressless"})
	want := api.Pins{
		"running":     {Container: "c1", Network: "n1", Address: adr("198.18.0.17")},
		"created":     {Container: "c2", Network: "n1", Address: adr("198.18.0.18")}, // that it will have
		"addressless": {Container: "c3", Network: "n1", Address: netip.Addr{}},
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := p.Pins("n1", []string{"default"}); err == nil { // that is another project's
		t.Error("a service without a container is pinned")
	}
	if _, err := p.Pins("n11", []string{"running"}); err == nil {
		t.Error("a container is pinned on a network it is not on")
	}
	p.Containers = append(p.Containers, p.Containers[2])
	if _, err := p.Pins("n1", []string{"running"}); err == nil {
		t.Error("a service with two containers is pinned")
	}
}
