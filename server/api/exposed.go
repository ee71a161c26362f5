package api

import (
	"context"
	"net/http"
	"net/url"
)

// Exposed is a public hostname in front of a service of the trajectory's own. The
// simulator does not serve it: a sidecar in the trajectory does. It mints its
// certificate and keeps its requests.
type Exposed struct {
	Host    string `json:"host"`    // lower-case ASCII, no trailing dot
	Service string `json:"service"` // Compose service
	Port    uint16 `json:"port"`
}

// CertificatesRequest asks for a certificate for each exposed hostname of a trajectory.
type CertificatesRequest struct {
	Hosts []string `json:"hosts"`
}

// Certificate is a certificate with a key that nothing else has.
type Certificate struct {
	Host        string `json:"host"`
	Certificate string `json:"certificate"` // PEM
	Key         string `json:"key"`         // PEM, PKCS #8
}

// Certificates answers a [CertificatesRequest], in its order.
type Certificates struct {
	Certificates []Certificate `json:"certificates"`
}

// ExposedCursor says up to where the requests of a sidecar are in the journal. The
// zero value: none is.
type ExposedCursor struct {
	Container string `json:"container"`  // the engine's id of the sidecar
	RequestID string `json:"request_id"` // of its last request that is there
	Ended     Time   `json:"ended"`      // when that one ended, by the sidecar's clock
	// Final says that all there was of the container is there. It is forgotten when
	// the simulator restarts.
	Final bool `json:"final"`
}

// ExposedBatch are requests out of a sidecar's log, in its order.
type ExposedBatch struct {
	Container string        `json:"container"` // the engine's id of the sidecar
	After     ExposedCursor `json:"after"`     // the cursor they follow; another is a conflict
	// Lost says that requests between the cursor and these were written off before
	// they were read.
	Lost     bool             `json:"lost"`
	Final    bool             `json:"final"` // the container logs no more
	Requests []ExposedRequest `json:"requests"`
}

// ExposedRequest is one request as the sidecar logged it when it had ended.
type ExposedRequest struct {
	ID         string  `json:"id"`    // 32 hex digits, unique
	Ended      Time    `json:"ended"` // to the millisecond
	DurationMS float64 `json:"duration_ms"`
	IP         string  `json:"ip"` // of the client
	Port       uint16  `json:"port"`
	TLS        string  `json:"tls"`  // version, "" on plain HTTP
	SNI        string  `json:"sni"`  // as sent
	Host       string  `json:"host"` // the exposed hostname that answered; "" for none
	Method     string  `json:"method"`
	Asked      string  `json:"asked"`  // Host field, as sent
	Target     string  `json:"target"` // of the request line, as sent
	Proto      string  `json:"proto"`
	// Latin1 says that the strings hold bytes that are not UTF-8: each byte stands
	// as the code point of the same number, as [CharsetLatin1] says.
	Latin1   bool   `json:"latin1"`
	Length   int64  `json:"length"`   // of the body by its Content-Length; -1 if it had none
	Received int64  `json:"received"` // bytes from the client, head included
	Sent     int64  `json:"sent"`     // bytes to the client, head included
	Body     int64  `json:"body"`     // bytes of the response's body
	Status   int    `json:"status"`
	Upstream string `json:"upstream"` // address the target answered from, "" for none
}

// Certificates mints a certificate for each of the hostnames, which the trajectory
// must have exposed. Each call makes new keys.
func (c *Client) Certificates(ctx context.Context, id string, hosts []string) ([]Certificate, error) {
	made, err := call[Certificates](ctx, c, http.MethodPost, "/v1/trajectories/"+url.PathEscape(id)+"/certificates", CertificatesRequest{Hosts: hosts})
	if err != nil {
		return nil, err
	}
	return made.Certificates, nil
}

// ExposedCursor asks up to where a registered trajectory's sidecar was read.
func (c *Client) ExposedCursor(ctx context.Context, id string) (*ExposedCursor, error) {
	return call[ExposedCursor](ctx, c, http.MethodGet, "/v1/trajectories/"+url.PathEscape(id)+"/exposed", nil)
}

// RecordExposed puts requests of the sidecar into the journal and returns the new
// cursor. Where another process was faster it is an *[Error] with code [CodeConflict].
func (c *Client) RecordExposed(ctx context.Context, id string, b *ExposedBatch) (*ExposedCursor, error) {
	return call[ExposedCursor](ctx, c, http.MethodPost, "/v1/trajectories/"+url.PathEscape(id)+"/exposed", b)
}
