package netpin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/network"
)

// Taken lists the address ranges a new network must not overlap: those of every
// network of the engine and, with host given, those of the host's routes
// (proc/net/route and proc/net/ipv6_route below host; a file that is missing
// means none). Pass os.DirFS("/") for an engine on this machine and nil for any
// other, whose routes cannot be seen from here: there the engine's own refusal
// of what overlaps is all there is.
func Taken(ctx context.Context, eng Engine, host fs.FS) ([]netip.Prefix, error) {
	list, err := eng.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the engine's networks: %w", err)
	}
	var taken []netip.Prefix
	for _, n := range list {
		taken = append(taken, subnets(n)...)
	}
	if host == nil {
		return taken, nil
	}
	for _, family := range []struct {
		file  string
		parse func([]byte) ([]netip.Prefix, error)
	}{{"proc/net/route", parseRoutes}, {"proc/net/ipv6_route", parseRoutes6}} {
		table, err := fs.ReadFile(host, family.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the host's routes: %w", err)
		}
		routes, err := family.parse(table)
		if err != nil {
			return nil, fmt.Errorf("read the host's routes: %s: %w", family.file, err)
		}
		taken = append(taken, routes...)
	}
	return taken, nil
}

// parseRoutes reads the kernel's IPv4 routing table as /proc/net/route shows it:
// a heading, then columns of which the second is the destination and the eighth
// its mask, both hexadecimal in the machine's byte order (little-endian on every
// platform the engine runs on). The default route covers everything and so says
// nothing; the halves 0/1 and 128/1 with which VPNs replace it count as default
// too.
func parseRoutes(table []byte) ([]netip.Prefix, error) {
	var routes []netip.Prefix
	lines := bufio.NewScanner(bytes.NewReader(table))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if n == 1 || len(fields) == 0 {
			continue
		}
		if len(fields) < 8 {
			return nil, fmt.Errorf("line %d: %d columns, want at least 8", n, len(fields))
		}
		dest, err := hexAddr(fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: destination: %w", n, err)
		}
		mask, err := hexAddr(fields[7])
		if err != nil {
			return nil, fmt.Errorf("line %d: mask: %w", n, err)
		}
		bits := 0
		for m := uint32(number(mask)); m&(1<<31) != 0; m <<= 1 {
			bits++
		}
		if bits <= 1 {
			continue
		}
		routes = append(routes, netip.PrefixFrom(dest, bits).Masked())
	}
	return routes, lines.Err()
}

// parseRoutes6 reads the IPv6 table, /proc/net/ipv6_route: no heading, destination
// and its length first, both hexadecimal in network order. What covers everything
// (also as the halves of it, or as 2000::/3) counts as default.
func parseRoutes6(table []byte) ([]netip.Prefix, error) {
	var routes []netip.Prefix
	lines := bufio.NewScanner(bytes.NewReader(table))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("line %d: %d columns, want at least 2", n, len(fields))
		}
		dest, err := hex.DecodeString(fields[0])
		if err != nil || len(dest) != 16 {
			return nil, fmt.Errorf("line %d: destination %q is no address of 32 hexadecimal digits", n, fields[0])
		}
		length, err := hex.DecodeString(fields[1])
		if err != nil || len(length) != 1 || length[0] > 128 {
			return nil, fmt.Errorf("line %d: length %q is none of 00 to 80", n, fields[1])
		}
		if bits := int(length[0]); bits > 3 {
			routes = append(routes, netip.PrefixFrom(netip.AddrFrom16([16]byte(dest)), bits).Masked())
		}
	}
	return routes, lines.Err()
}

func hexAddr(s string) (netip.Addr, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, fmt.Errorf("%q is no address of 8 hexadecimal digits", s)
	}
	return address(uint64(binary.LittleEndian.Uint32(b))), nil
}

// overlapTexts are what engines say when a network cannot have its addresses.
// There is no code to tell by: the engine answers 400, 403 or 500, and through
// docker compose only the text arrives.
var overlapTexts = [...]string{
	"pool overlaps with other one on this address space",                  // a subnet somebody else just took
	"networks have overlapping ipv4",                                      // the same, found by the bridge driver
	"invalid pool request: pool overlaps with other one on this address",  // engine 27 and later
	"user specified ip address conflicts with address already configured", // a fixed address raced for
}

// IsOverlap tells whether err, or output of docker compose inside it, is the
// engine refusing a network's addresses. With a subnet of ctis's choice that
// means a lost race: ask [Taken] again, compute anew and retry.
func IsOverlap(err error) bool { return err != nil && IsOverlapText(err.Error()) }

// fullTexts are what engines say when their own address pools have no room left.
// That concerns networks for which ctis chooses no subnet; trying again is of no
// use.
var fullTexts = [...]string{
	"could not find an available, non-overlapping ipv4 address pool", // engine up to 24
	"failed to find an available, non-overlapping ipv4 address pool", // some builds
	"all predefined address pools have been fully subnetted",         // engine 25 and later
	"non-overlapping ipv6 address pool",                              // an IPv6 network without a subnet, engine up to 26
}

// PoolsFullError says that the engine's own address pools have no room for a
// network whose subnet ctis does not choose.
type PoolsFullError struct{ Err error }

func (e *PoolsFullError) Error() string {
	return "the engine has no address pool left for a network whose subnet ctis does not choose: " + e.Err.Error()
}

func (e *PoolsFullError) Unwrap() error { return e.Err }

// ArePoolsFull tells whether text is the engine saying that its own pools have no
// room.
func ArePoolsFull(text string) bool { return containsAny(text, fullTexts[:]) }

// IsOverlapText is [IsOverlap] for output.
func IsOverlapText(s string) bool { return containsAny(s, overlapTexts[:]) }

func containsAny(s string, texts []string) bool {
	s = strings.ToLower(s)
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(s, t) })
}
