package admin

import (
	"log/slog"
	"net/http"

	"github.com/linuxarena/ctis/server/api"
)

// Handler is the interface's table of contents. Answers are JSON; a refusal is
// {"error":{…}} as [api.Error] says.
func Handler(s Simulator, log *slog.Logger) http.Handler {
	a := routes{s}
	mux := http.NewServeMux()
	handle := func(pattern string, h handler) { mux.Handle(pattern, respond(log, bounded(h))) }

	handle("GET /v1/health", a.health)
	handle("GET /v1/status", a.status)
	handle("GET /v1/ca", a.ca)
	handle("POST /v1/trajectories", a.register)
	handle("GET /v1/trajectories/{id}", a.trajectory)
	handle("POST /v1/trajectories/{id}/hold", a.hold)
	handle("PUT /v1/trajectories/{id}/peers", a.setPeers)
	handle("PUT /v1/trajectories/{id}/networks", a.setNetworks)
	handle("PUT /v1/trajectories/{id}/pins", a.setPins)
	handle("GET /v1/trajectories/{id}/rules", a.rules)
	handle("PUT /v1/trajectories/{id}/rules/{host}", a.setRules)
	handle("POST /v1/trajectories/{id}/certificates", a.certificates)
	handle("GET /v1/trajectories/{id}/exposed", a.exposedCursor)
	handle("POST /v1/trajectories/{id}/exposed", a.recordExposed)
	handle("PUT /v1/gateway", a.setGateway)
	handle("DELETE /v1/trajectories/{id}", a.unregister)
	handle("GET /v1/trajectories/{id}/journal", a.journal)
	handle("GET /v1/trajectories/{id}/bodies/{sha256}", a.body)
	handle("GET /v1/trajectories/{id}/assets", a.assets)
	mux.Handle("POST /v1/trajectories/{id}/assets", respond(log, a.stageAssets)) // bounded by what it reads
	handle("POST /v1/trajectories/{id}/assets/{stage}", a.commitAssets)
	handle("DELETE /v1/trajectories/{id}/assets/{stage}", a.dropAssets)
	handle("PUT /v1/trajectories/{id}/assets/deleted/{container}", a.seedDeleted)
	handle("GET /v1/journals", a.journals)
	handle("DELETE /v1/journals/{name}", a.removeJournal)
	handle("POST /v1/retire", a.retire)
	handle("/", a.unknown)
	return mux
}

type routes struct{ s Simulator }

type empty struct{}

// health: 200 {"ok":true} while requests are answered, 500 otherwise.
func (a routes) health(http.ResponseWriter, *http.Request) (any, error) {
	if err := a.s.Healthy(); err != nil {
		return nil, err
	}
	return map[string]bool{"ok": true}, nil
}

// status: 200 [api.Status].
func (a routes) status(http.ResponseWriter, *http.Request) (any, error) { return a.s.Status(), nil }

// ca: 200 the CA certificate, application/x-pem-file.
func (a routes) ca(w http.ResponseWriter, _ *http.Request) (any, error) {
	w.Header().Set("Content-Type", "application/x-pem-file")
	_, err := w.Write(a.s.CA())
	return nil, err
}

// register: body [api.Registration]; 200 [api.Registered]. 400 invalid, 409
// conflict with Holders and, when it is the trajectory itself, Fields; 410 when
// the simulator is retired, 507 when the volume is full.
func (a routes) register(_ http.ResponseWriter, r *http.Request) (any, error) {
	var reg api.Registration
	if err := decode(r, &reg); err != nil {
		return nil, err
	}
	return orError(a.s.Register(&reg))
}

// trajectory: 200 [api.TrajectoryStatus]; 404 when it is not registered.
func (a routes) trajectory(_ http.ResponseWriter, r *http.Request) (any, error) {
	return orError(a.s.Trajectory(r.PathValue("id")))
}

// hold: body [api.HoldRequest] or none; 200 without end; the id, and what the body names, is
// reserved until the caller breaks the connection off. 409 held, 409 conflict with
// Exclusive when a registered trajectory has something of it, 410 retired, 400 for
// what is no id.
func (a routes) hold(w http.ResponseWriter, r *http.Request) (any, error) {
	var want api.HoldRequest
	if r.ContentLength != 0 { // without a body it wants the id alone
		if err := decode(r, &want); err != nil {
			return nil, err
		}
	}
	release, err := a.s.Hold(r.PathValue("id"), want.Exclusive)
	if err != nil {
		return nil, err
	}
	defer release()
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err == nil {
		<-r.Context().Done()
	}
	return nil, nil
}

// setPeers: body [api.Peers], replacing those of the networks it names; 200 {}.
// 400 for an unknown network or an address outside it, 404 when the trajectory
// is not registered.
func (a routes) setPeers(_ http.ResponseWriter, r *http.Request) (any, error) {
	var p api.Peers
	if err := decode(r, &p); err != nil {
		return nil, err
	}
	return empty{}, a.s.SetPeers(r.PathValue("id"), p)
}

// setNetworks: body [api.Networks], each replacing the one of its name; 200 {}.
// 400 for an unknown network or an address outside it, 404 when the trajectory is
// not registered, 409 when another trajectory holds the id or a subnet.
func (a routes) setNetworks(_ http.ResponseWriter, r *http.Request) (any, error) {
	var networks api.Networks
	if err := decode(r, &networks); err != nil {
		return nil, err
	}
	return empty{}, a.s.SetNetworks(r.PathValue("id"), networks)
}

// setPins: body [api.Pins], replacing those of the services it names; 200 {}. 400 for
// a service that is nobody's backend, an unknown network or an address that cannot be
// a service's there; 404 when the trajectory is not registered.
func (a routes) setPins(_ http.ResponseWriter, r *http.Request) (any, error) {
	var p api.Pins
	if err := decode(r, &p); err != nil {
		return nil, err
	}
	return empty{}, a.s.SetPins(r.PathValue("id"), p)
}

// rules: 200 [api.RulesList]; 404 when the trajectory is not registered.
func (a routes) rules(_ http.ResponseWriter, r *http.Request) (any, error) {
	return orError(a.s.Rules(r.PathValue("id")))
}

// setRules: body [api.RuleSet], replacing all rules of the persona; 200
// [api.HostRules]. 400 for a rule that does not compile, 404 when the trajectory is
// not registered or has no such persona, 507 when the volume is full: then the old
// rules are in force.
func (a routes) setRules(_ http.ResponseWriter, r *http.Request) (any, error) {
	var s api.RuleSet
	if err := decode(r, &s); err != nil {
		return nil, err
	}
	return orError(a.s.SetRules(r.PathValue("id"), r.PathValue("host"), s))
}

// certificates: body [api.CertificatesRequest]; 200 [api.Certificates], with keys made
// for this call. 400 for a host that the trajectory does not expose, 404 when it is
// not registered.
func (a routes) certificates(_ http.ResponseWriter, r *http.Request) (any, error) {
	var q api.CertificatesRequest
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	return orError(a.s.Certificates(r.PathValue("id"), q.Hosts))
}

// exposedCursor: 200 [api.ExposedCursor]; 404 when the trajectory is not registered.
func (a routes) exposedCursor(_ http.ResponseWriter, r *http.Request) (any, error) {
	return orError(a.s.ExposedCursor(r.Context(), r.PathValue("id")))
}

// recordExposed: body [api.ExposedBatch]; 200 [api.ExposedCursor]. 400 for what no
// sidecar logs, 404 when the trajectory is not registered, 409 when the cursor is
// another one, 507 when the volume is full.
func (a routes) recordExposed(_ http.ResponseWriter, r *http.Request) (any, error) {
	var b api.ExposedBatch
	if err := decode(r, &b); err != nil {
		return nil, err
	}
	return orError(a.s.RecordExposed(r.Context(), r.PathValue("id"), &b))
}

// setGateway: body [api.Gateway]; 200 {}. 400 for what is no address or fingerprint, 507
// when the volume is full.
func (a routes) setGateway(_ http.ResponseWriter, r *http.Request) (any, error) {
	var g api.Gateway
	if err := decode(r, &g); err != nil {
		return nil, err
	}
	return empty{}, a.s.SetGateway(g)
}

// unregister: 200 [api.Unregistered], also when there is nothing to remove.
func (a routes) unregister(_ http.ResponseWriter, r *http.Request) (any, error) {
	return orError(a.s.Unregister(r.Context(), r.PathValue("id")))
}

// retire: 200 {}; 409 busy with Holders while trajectories are registered or held.
func (a routes) retire(http.ResponseWriter, *http.Request) (any, error) {
	return empty{}, a.s.Retire()
}

func (a routes) unknown(_ http.ResponseWriter, r *http.Request) (any, error) {
	return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "there is no %s %s here", r.Method, r.URL.Path)
}

// orError keeps a nil pointer from becoming an answer beside an error.
func orError[T any](answer *T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return answer, nil
}
