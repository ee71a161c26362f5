package commands

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/compose/trust"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
)

func TestWhatAContainerTrustsIsJudged(t *testing.T) {
	good := trust.Store{Kind: trust.KindBundle, Path: trust.Bundle, Holds: true, Variables: []string{"PIP_CERT"}}
	for name, tc := range map[string]struct {
		in       trust.Inspection
		detail   string // part of; "" for all is well
		fix, not string
	}{
		"all well": {in: trust.Inspection{Stores: []trust.Store{good}}},
		"no store": {in: trust.Inspection{}, detail: "no store of trust", fix: "ctis down t1"},
		"CA missing": {in: trust.Inspection{Stores: []trust.Store{good, {Path: "/etc/ssl/cert.pem"}}},
			detail: "/etc/ssl/cert.pem lacks the simulator's authority", fix: "ctis down t1", not: "leave out"},
		"roots missing": {in: trust.Inspection{Stores: []trust.Store{{Path: trust.Bundle, Holds: true, Missing: 3}}},
			detail: "lacks 3 of the authorities the system trusts", fix: "ctis down t1"},
		"own file": {in: trust.Inspection{Stores: []trust.Store{good, {Path: "/own.pem", Variables: []string{"PIP_CERT"}, Problem: "/own.pem does not exist"}}},
			detail: "/own.pem does not exist (PIP_CERT names it)", fix: "leave out", not: "ctis down"},
		"variable missing": {in: trust.Inspection{Stores: []trust.Store{good}, Unset: []string{"A", "B"}}, detail: "lacks the variables A, B", fix: "ctis down t1"},
		"unreadable":       {in: trust.Inspection{Stores: []trust.Store{good}, Problem: "too much"}, detail: "cannot be looked at to the end: too much", fix: "ctis down t1"},
	} {
		a := newApp(Streams{}, Setting{})
		a.instance = "ctis"
		tc.in.Service = "default"
		c := a.checkTrust(tc.in, netpin.Project{}, "t1")
		if c.OK != (tc.detail == "") || !strings.Contains(c.Detail, tc.detail) || !strings.Contains(c.Fix, tc.fix) || tc.not != "" && strings.Contains(c.Fix, tc.not) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestEngineAndComposeDecideDoctorsExitCodeFirst(t *testing.T) {
	engine := check{Name: "compose", exit: exitEngine}
	for _, tc := range []struct {
		checks []check
		code   int
	}{
		{nil, exitDone},
		{[]check{passed("a", "")}, exitDone},
		{[]check{passed("a", ""), failed("b", "", "")}, exitFailed},
		{[]check{failed("b", "", ""), engine, failed("c", "", "")}, exitEngine},
		{[]check{{Name: "pool", exit: exitUsage}}, exitFailed},
		{[]check{{Name: "compose", OK: true, exit: exitEngine}}, exitDone},
	} {
		err, code := verdict(tc.checks), exitDone
		if silent := new(*exitError); errors.As(err, silent) {
			code = (*silent).code
		} else if err != nil {
			t.Error(err)
		}
		if code != tc.code {
			t.Errorf("%+v: %d, want %d", tc.checks, code, tc.code)
		}
	}
}

func TestServedAreThoseOnTheNetworkAndThoseThatShareOne(t *testing.T) {
	on := map[string][]netip.Addr{"n1": nil}
	p := netpin.Project{Containers: []netpin.Container{
		{ID: "b", Service: "web", Addresses: on}, {ID: "a", Service: "web", Addresses: on}, {ID: "c", Service: "apart", Addresses: map[string][]netip.Addr{"n2": nil}},
		{ID: "d", Service: "rider", Shares: "b"}, {ID: "e", Service: "lone"},
	}}
	got := served(p, api.TrajectoryStatus{Networks: []api.Network{{ID: "n1"}}})
	want := "d a b"
	var ids []string
	for _, c := range got {
		ids = append(ids, c.ID)
	}
	if strings.Join(ids, " ") != want {
		t.Errorf("%v, want %s", ids, want)
	}
}

func TestVolumesForTrustStoresAreRemembered(t *testing.T) {
	p := netpin.Project{Containers: []netpin.Container{
		{Service: "sealed", Labels: map[string]string{compose.LabelTrustDirs: "/etc/pki/x:/etc/ssl/certs"}}, {Service: "open", Labels: map[string]string{}},
	}}
	got := knownCADirs(p)
	if len(got) != 1 || strings.Join(got["sealed"], " ") != "/etc/pki/x /etc/ssl/certs" {
		t.Errorf("%v", got)
	}
}
