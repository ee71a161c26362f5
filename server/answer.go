package server

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/linuxarena/ctis/server/api"
)

// What backends and upstreams answered is kept in the journal as the client got it:
// behind a rule's changes, and of what broke off, up to there. It is collected beside
// what is sent and never waited for; where it cannot be kept, the response goes on and
// its record says so. What gateways pass on has no key in it any more.

// keepsBody says whether the response's bytes are kept. The simulator's own are not: it
// would answer the same again. A request that has no record of its own keeps nothing.
func (x *exchange) keepsBody() bool {
	switch x.record.Kind {
	case api.KindBackend, api.KindUpstream:
		return !x.committed || x.record.Seq != 0
	}
	return false
}

// answered describes a body that was held whole.
func (x *exchange) answered(body []byte) api.Received {
	if !x.keepsBody() {
		return digestOf(body)
	}
	kept := x.link.tenant.journal.NewAnswer()
	defer kept.Discard()
	_, _ = kept.Write(body) // what cannot be kept is truncated
	return api.Received(x.link.tenant.journal.Keep(kept))
}

// keepStreamed begins to collect a body that is sent as it comes.
func (x *exchange) keepStreamed() {
	if x.keepsBody() {
		x.kept = x.link.tenant.journal.NewAnswer()
	} else {
		x.sum = sha256.New()
	}
}

// sent takes what was sent of it.
func (x *exchange) sent(p []byte) {
	if x.kept != nil {
		_, _ = x.kept.Write(p) // what cannot be kept is truncated
	} else {
		x.sum.Write(p)
	}
}

// streamedBody describes what was sent.
func (x *exchange) streamedBody() api.Received {
	if x.kept != nil {
		return api.Received(x.link.tenant.journal.Keep(x.kept))
	}
	d := api.Received{Size: x.size, SHA256: hex.EncodeToString(x.sum.Sum(nil))}
	if x.bodyless() {
		d.Size = 0
	}
	return d
}

// discard frees what was collected of the exchange.
func (x *exchange) discard() {
	x.body.Discard()
	if x.kept != nil {
		x.kept.Discard()
	}
}
