package netpin

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// free gives out the addresses of one IPv4 prefix, each once.
type free struct {
	within      span
	used        map[netip.Addr]bool
	nextUp, top uint64
}

// newFree leaves out the given addresses, the zero Addr among them being none.
func newFree(p netip.Prefix, used ...netip.Addr) *free {
	f := &free{within: spanOf(p), used: map[netip.Addr]bool{}}
	f.nextUp, f.top = f.within.from, f.within.to
	for _, a := range used {
		f.used[a.Unmap()] = true
	}
	return f
}

// claim gives out a, or the zero Addr when that is not to be had.
func (f *free) claim(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is4() || f.used[a] || number(a) < f.within.from || number(a) > f.within.to {
		return netip.Addr{}
	}
	f.used[a] = true
	return a
}

// up gives out the lowest free address, or the zero Addr. Addresses that end in
// .0 or .255 are legal inside a large subnet but refused by some software.
func (f *free) up() netip.Addr {
	for ; f.nextUp <= f.within.to; f.nextUp++ {
		if b := byte(f.nextUp); b == 0 || b == 255 {
			continue
		}
		if a := f.claim(address(f.nextUp)); a.IsValid() {
			return a
		}
	}
	return netip.Addr{}
}

// down gives out the highest free address outside avoid, or the zero Addr. The
// prefix's own first address is never given out.
func (f *free) down(avoid netip.Prefix) netip.Addr {
	for n := f.top; n > f.within.from; n-- {
		if b := byte(n); b == 0 || b == 255 {
			continue
		}
		a := address(n)
		if avoid.IsValid() && avoid.Contains(a) {
			// Jump below: ranges can be millions of addresses wide.
			from := spanOf(avoid).from
			if from <= f.within.from {
				return netip.Addr{}
			}
			n = from
			continue
		}
		if a = f.claim(a); a.IsValid() {
			return a
		}
	}
	return netip.Addr{}
}

func halves(p netip.Prefix) (lower, upper netip.Prefix) {
	p = p.Masked()
	bits := p.Bits() + 1
	lower = netip.PrefixFrom(p.Addr(), bits)
	return lower, netip.PrefixFrom(address(spanOf(lower).to+1), bits)
}

// last is the broadcast address of p.
func last(p netip.Prefix) netip.Addr { return address(spanOf(p).to) }

func spanOf(p netip.Prefix) span {
	from := number(p.Masked().Addr())
	return span{from, from + 1<<(32-p.Bits()) - 1}
}

func number(a netip.Addr) uint64 {
	b := a.As4()
	return uint64(binary.BigEndian.Uint32(b[:]))
}

func address(n uint64) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	return netip.AddrFrom4(b)
}

func firstIPv4(prefixes []netip.Prefix) netip.Prefix {
	for _, p := range prefixes {
		if p.IsValid() && p.Addr().Is4() {
			return p.Masked()
		}
	}
	return netip.Prefix{}
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ")
}
