package server

import (
	"math"
	"syscall"
	"time"
)

// Limits bounds what clients can take up. A zero field means its default.
type Limits struct {
	Connections    int           // open connections over all trajectories; default: half of what the file descriptor limit allows
	PerTrajectory  int           // open connections of one trajectory; default 4096, never more than a quarter of Connections
	Requests       int           // requests of one trajectory in work at once; default 4096
	Handshake      time.Duration // from accepting a TLS connection to its end of handshake; default 10 s
	RequestHead    time.Duration // from a head's first byte to its last; default 30 s
	Idle           time.Duration // between two requests; default 75 s, as nginx
	BodyProgress   time.Duration // between two reads of a body; default 60 s, as nginx
	WriteProgress  time.Duration // for writing one piece of up to 64 KiB, or up to an eighth longer; default 60 s, as nginx
	RequestBody    int64         // bytes; default 64 GiB
	Drain          time.Duration // for requests in work when the server stops; default 5 s
	Proxied        int           // requests of one trajectory that backends have at once; default: as files allow, up to 1024
	Connect        time.Duration // for a backend to accept a connection; default 5 s
	Answer         time.Duration // for a backend to begin its response, from the last byte of the request it took; default 5 min
	Silence        time.Duration // between two pieces of a backend's response; default 1 h
	Waiting        int           // requests of one trajectory that wait at once because a rule says so; default 1024
	Stall          time.Duration // for a client to leave that a rule never answers; default 1 h
	GatewayAnswer  time.Duration // as Answer, for what the gateway is asked; default 31 min, as the gateway itself gives up after 30
	GatewaySilence time.Duration // as Silence, for that; default 61 min, as the gateway itself gives up after 60
	UnregisterWait time.Duration // for requests in work when their trajectory is removed; default 5 s
}

const (
	rawLimit      = 8 << 10   // bytes of what could not be parsed that a record keeps
	rawHeadLimit  = 64 << 10  // the same for a request head: it may be long because of what it carries away
	holdLimit     = 64 << 10  // a response up to this size is held until its record is complete
	h2Heads       = 64 << 20  // bytes of the heads of all open HTTP/2 streams of a trajectory
	h2Streams     = 128       // concurrent streams of an HTTP/2 connection, as nginx
	h2Window      = 64 << 10  // bytes a stream may send unread, as nginx
	h2ConnWindow  = 64 << 20  // the same for a connection, as net/http counts: more than its streams can fill
	h2HeaderBytes = 1 << 20   // as HTTP/2 counts them, no more than package wire accepts
	h2BlockLimit  = 128 << 10 // bytes of a header block, as encoded
	h2Frames      = 64        // frames of a header block that hold less than they could
	spareFiles    = 128       // descriptors for the journal, registrations and the admin socket
)

func (l *Limits) setDefaults() {
	setDefault(&l.Connections, connectionsFor(fileLimit()))
	setDefault(&l.PerTrajectory, 4096)
	l.PerTrajectory = max(1, min(l.PerTrajectory, l.Connections/4))
	setDefault(&l.Requests, 4096)
	setDefault(&l.Handshake, 10*time.Second)
	setDefault(&l.RequestHead, 30*time.Second)
	setDefault(&l.Idle, 75*time.Second)
	setDefault(&l.BodyProgress, time.Minute)
	setDefault(&l.WriteProgress, time.Minute)
	setDefault(&l.RequestBody, 64<<30)
	setDefault(&l.Drain, 5*time.Second)
	setDefault(&l.Proxied, int(max(16, min(fileLimit()/32, 1024))))
	setDefault(&l.Connect, 5*time.Second)
	setDefault(&l.Answer, 5*time.Minute)
	setDefault(&l.Silence, time.Hour)
	setDefault(&l.Waiting, 1024)
	setDefault(&l.Stall, time.Hour)
	setDefault(&l.GatewayAnswer, 31*time.Minute)
	setDefault(&l.GatewaySilence, 61*time.Minute)
	setDefault(&l.UnregisterWait, 5*time.Second)
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// connectionsFor leaves each connection a second descriptor: for the file its
// body is collected in, or the one it is served.
func connectionsFor(files uint64) int {
	return int(max(16, min(files, math.MaxInt32)-min(files, spareFiles)) / 2)
}

// fileLimit is the number of descriptors this process may have. The runtime has
// already raised the soft limit to the hard one.
func fileLimit() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 1024 // the lowest default there is
	}
	return r.Cur
}
