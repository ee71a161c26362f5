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
	"strings"

	"github.com/docker/docker/api/types/network"
)

// Taken lists the address ranges a new network must not overlap: those of every
// network of the engine and, with host given, those of the host's routes
// (proc/net/route below host; a file that is missing means none). Pass
// os.DirFS("/") for an engine on this machine and nil for any other, whose
// routes cannot be seen from here.
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
	table, err := fs.ReadFile(host, "proc/net/route")
	if errors.Is(err, fs.ErrNotExist) {
		return taken, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's routes: %w", err)
	}
	routes, err := parseRoutes(table)
	if err != nil {
		return nil, fmt.Errorf("read the host's routes: %w", err)
	}
	return append(taken, routes...), nil
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
	"could not find an available, non-overlapping ipv4 address pool",      // default pools used up, engine up to 24
	"all predefined address pools have been fully subnetted",              // the same, engine 25 and later
	"failed to find an available, non-overlapping ipv4 address pool",      // the same, some builds
	"invalid pool request: pool overlaps with other one on this address",  // engine 27 and later
	"user specified ip address conflicts with address already configured", // a fixed address raced for
}

// IsOverlap tells whether err, or output of docker compose inside it, is the
// engine refusing a network's addresses. With a subnet of ctis's choice that
// means a lost race: ask [Taken] again, compute anew and retry.
func IsOverlap(err error) bool { return err != nil && IsOverlapText(err.Error()) }

// IsOverlapText is [IsOverlap] for output.
func IsOverlapText(s string) bool {
	s = strings.ToLower(s)
	for _, t := range overlapTexts {
		if strings.Contains(s, t) {
			return true
		}
	}
	return false
}
