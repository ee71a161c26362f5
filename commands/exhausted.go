package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
)

// shownIDs is how many names a hint lists; the details have all of them.
const shownIDs = 12

// defaultPools is the engine's setting for networks whose subnets it chooses
// itself, as it stands in its daemon.json.
const defaultPools = `"default-address-pools": [{"base": "10.200.0.0/13", "size": 24}]`

// explainExhausted adds to "no address space left" what fills it and how to make
// room. Other errors pass through.
func (a *app) explainExhausted(ctx context.Context, err error) error {
	var full *netpin.ExhaustedError
	var engine *netpin.PoolsFullError
	var run *compose.RunError
	text := ""
	if err != nil {
		text = err.Error()
	}
	if errors.As(err, &run) {
		text = run.Output()
	}
	switch {
	case errors.As(err, &full):
	case errors.As(err, &engine):
	case err != nil && netpin.ArePoolsFull(text):
		engine = &netpin.PoolsFullError{Err: err}
		err = engine
	default:
		return err
	}
	census, countErr := netpin.Count(ctx, a.engine)
	if countErr != nil {
		return err // the counts would only have been a help
	}
	details := map[string]any{
		"networks": census.Networks, "running": census.Running, "stopped": census.Stopped, "leftover": census.Leftover,
		"trajectories": orNone(census.Trajectories), "projects": orNone(census.Projects),
	}
	if full != nil {
		details["pool"], details["pool_addresses"] = full.Pool.String(), 1<<(32-full.Pool.Bits())
	}
	return &hintedError{err: err, hint: exhaustedHint(census, full, text), details: details}
}

func exhaustedHint(c netpin.Census, full *netpin.ExhaustedError, text string) string {
	hint := fmt.Sprintf("the engine has %s: %d of trajectories that run, %d of trajectories without a running container, %d that Compose projects left behind, %d others",
		plural(c.Networks, "network"), c.Running, c.Stopped, c.Leftover, c.Networks-c.Running-c.Stopped-c.Leftover)
	if len(c.Trajectories) > 0 {
		hint += "; ctis down " + some(c.Trajectories) + " ends those without a running container"
	}
	if len(c.Projects) > 0 {
		hint += "; docker compose -p NAME down removes what is left of " + some(c.Projects)
	}
	switch {
	case full != nil:
		hint += fmt.Sprintf("; or give a larger private range than %s (%d addresses, at least 32 for each network) in CTIS_ADDRESS_POOL", full.Pool, 1<<(32-full.Pool.Bits()))
	case strings.Contains(strings.ToLower(text), "ipv6"):
		hint += "; a network with enable_ipv6 and an ipam of its own needs an IPv6 subnet in it: add one, or leave the ipam out so that ctis chooses"
	default:
		hint += "; or have the engine's daemon.json say " + defaultPools
	}
	return hint
}

// some lists names, but not hundreds of them.
func some(names []string) string {
	if len(names) <= shownIDs {
		return strings.Join(names, " ")
	}
	return strings.Join(names[:shownIDs], " ") + fmt.Sprintf(" (and %d more)", len(names)-shownIDs)
}

// orNone is a list also in JSON.
func orNone(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// lostRace tells whether Compose failed because somebody else took a subnet first.
// Its last line need not be the one that says so.
func lostRace(err error) bool {
	var run *compose.RunError
	if errors.As(err, &run) {
		return netpin.IsOverlapText(run.Output())
	}
	return netpin.IsOverlap(err)
}
