package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// GatewayPort is where the gateway listens on the link network.
const GatewayPort = 8443

// GatewayStatus is the gateway's own account of itself.
type GatewayStatus struct {
	Protocol int       `json:"protocol"`
	Started  time.Time `json:"started"`
	Retired  bool      `json:"retired"` // takes no claim any more
	// Identity is the fingerprint of its key for the link: SHA-256 of the public key, in hex.
	Identity string   `json:"identity"`
	Peer     string   `json:"peer"`   // fingerprint of the simulator it speaks with; "": none yet
	Claims   []Claims `json:"claims"` // sorted by trajectory
	Keys     []string `json:"keys"`   // names of the variables whose keys it has, sorted
	Problems []string `json:"problems"`
}

// Claims are one trajectory's hold on upstreams. Of one host all trajectories have
// the same settings; their rules are the simulator's matter and not among them.
type Claims struct {
	Trajectory string     `json:"trajectory"`
	Upstreams  []Upstream `json:"upstreams"`
	// Networks are the trajectory's subnets: no upstream may lead there.
	Networks []netip.Prefix `json:"networks"`
	Since    time.Time      `json:"since"` // set by the gateway
}

// Claimed answers a claim.
type Claimed struct {
	Unchanged bool     `json:"unchanged"`
	Missing   []string `json:"missing"` // variables of its upstreams that no key is known of, sorted
}

// Released answers the release of a trajectory's claims.
type Released struct {
	Known bool     `json:"known"` // false: there was nothing to release
	Hosts []string `json:"hosts"` // which nobody claims any more
}

// Peering tells the gateway about the simulator and the networks around both.
type Peering struct {
	Simulator string         `json:"simulator"` // fingerprint of its key for the link
	Closed    []netip.Prefix `json:"closed"`    // no upstream may lead there: the link, and where trajectories' networks are
	Open      []netip.Prefix `json:"open"`      // but here it may all the same: the egress network
}

// Gateway tells the simulator where the gateway is.
type Gateway struct {
	Address  netip.AddrPort `json:"address"`
	Identity string         `json:"identity"` // fingerprint of its key for the link
}

// Keys are API keys by the names of the variables they come from.
type Keys map[string]string

// KeyDigests are what the gateway says about the keys it has. Whoever has the same key
// can tell; nobody else learns anything.
type KeyDigests struct {
	Salt    string            `json:"salt"`    // hex; the gateway's own, for as long as its state lives
	Digests map[string]string `json:"digests"` // by variable, see [KeyDigest]
}

// KeyDigest is the HMAC-SHA256 of a key under a salt, in hex. The variable's name goes
// in as well, so that equal keys of two variables do not show.
func KeyDigest(salt, name, key string) string {
	h := hmac.New(sha256.New, []byte(salt))
	h.Write([]byte(name + "\x00" + key))
	return hex.EncodeToString(h.Sum(nil))
}

// KeysSet answers the delivery of keys: names of variables, sorted.
type KeysSet struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
}

// GatewayClient calls a gateway's administrative interface.
type GatewayClient struct{ c *Client }

// NewGatewayClient wraps a client whose connections lead to a gateway.
func NewGatewayClient(c *Client) *GatewayClient { return &GatewayClient{c} }

// Close drops idle connections.
func (g *GatewayClient) Close() { g.c.Close() }

// Status asks for the gateway's account of itself.
func (g *GatewayClient) Status(ctx context.Context) (*GatewayStatus, error) {
	return call[GatewayStatus](ctx, g.c, http.MethodGet, "/v1/status", nil)
}

// SetPeer tells the gateway which simulator it speaks with.
func (g *GatewayClient) SetPeer(ctx context.Context, p Peering) error {
	_, err := call[struct{}](ctx, g.c, http.MethodPut, "/v1/peer", p)
	return err
}

// KeyDigests asks which keys it has.
func (g *GatewayClient) KeyDigests(ctx context.Context) (*KeyDigests, error) {
	return call[KeyDigests](ctx, g.c, http.MethodGet, "/v1/keys", nil)
}

// SetKeys delivers keys. One with another value than the gateway has, while a
// trajectory uses it, is an *[Error] with code [CodeConflict], Holders and, in Fields,
// the names; then nothing is changed.
func (g *GatewayClient) SetKeys(ctx context.Context, keys Keys) (*KeysSet, error) {
	return call[KeysSet](ctx, g.c, http.MethodPut, "/v1/keys", keys)
}

// Claim holds upstreams for a trajectory, or confirms that it holds them. An upstream
// that others hold with other settings is an *[Error] with code [CodeConflict], whose
// Host, Holders and Fields say which, who and in what; a retired gateway is one with
// code [CodeRetired].
func (g *GatewayClient) Claim(ctx context.Context, c Claims) (*Claimed, error) {
	return call[Claimed](ctx, g.c, http.MethodPost, "/v1/trajectories", c)
}

// Release gives a trajectory's claims up. None is no error.
func (g *GatewayClient) Release(ctx context.Context, id string) (*Released, error) {
	return call[Released](ctx, g.c, http.MethodDelete, "/v1/trajectories/"+url.PathEscape(id), nil)
}

// Retire asks a gateway without claims to take none any more. With claims it answers
// an *[Error] with code [CodeBusy].
func (g *GatewayClient) Retire(ctx context.Context) error {
	_, err := call[struct{}](ctx, g.c, http.MethodPost, "/v1/retire", nil)
	return err
}

// SetGateway tells the simulator where the gateway is.
func (c *Client) SetGateway(ctx context.Context, g Gateway) error {
	_, err := call[struct{}](ctx, c, http.MethodPut, "/v1/gateway", g)
	return err
}
