package sidecar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linuxarena/ctis/server/api"
)

// logged is a line of the access log, as the template's log_format has it. nginx
// escapes what is no JSON, but passes bytes on that are no UTF-8.
type logged struct {
	ID       string `json:"id"`
	End      string `json:"end"`
	Took     string `json:"took"`
	IP       string `json:"ip"`
	Port     string `json:"port"`
	TLS      string `json:"tls"`
	SNI      string `json:"sni"`
	Server   string `json:"server"`
	Proto    string `json:"proto"`
	Method   string `json:"method"`
	Host     string `json:"host"`
	URI      string `json:"uri"`
	Length   string `json:"length"`
	Received string `json:"received"`
	Sent     string `json:"sent"`
	Body     string `json:"body"`
	Status   string `json:"status"`
	Upstream string `json:"upstream"`
}

// nobody is what the template calls the server of hostnames that are not exposed.
const nobody = "_"

// parseLine reads a line of the access log, without its newline: a request, or several,
// for the engine cuts a line of more than 16 KiB into pieces and loses its end (driver
// "local"). It returns those that are whole, and an error where something else is there;
// of a line that is cut off, [io.ErrUnexpectedEOF].
func parseLine(line []byte) ([]api.ExposedRequest, error) {
	var all []api.ExposedRequest
	d := json.NewDecoder(bytes.NewReader(line))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("a line of the sidecar's log is no request: %w", err)
		}
		q, err := parseRequest(raw)
		if err != nil {
			return all, err
		}
		all = append(all, q)
	}
}

func parseRequest(line []byte) (api.ExposedRequest, error) {
	var l logged
	latin1 := !utf8.Valid(line)
	if latin1 {
		line = eachByte(line)
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return api.ExposedRequest{}, fmt.Errorf("a line of the sidecar's log is no request: %w", err)
	}
	var bad []string
	number := func(name, s string, least int64) int64 {
		if s == "" {
			return least
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			bad = append(bad, name)
			return least
		}
		return n
	}
	seconds := func(name, s string) time.Duration {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f < 0 || f > math.MaxInt64/float64(time.Second) {
			bad = append(bad, name)
			return 0
		}
		return time.Duration(math.Round(f*1000)) * time.Millisecond
	}
	q := api.ExposedRequest{
		ID: l.ID, Ended: api.Time{Time: time.Unix(0, 0).Add(seconds("end", l.End)).UTC()},
		DurationMS: float64(seconds("took", l.Took).Milliseconds()),
		IP:         l.IP, Port: uint16(min(number("port", l.Port, 0), math.MaxUint16)),
		TLS: l.TLS, SNI: l.SNI, Host: l.Server, Method: l.Method, Asked: l.Host, Target: l.URI, Proto: l.Proto, Latin1: latin1,
		Length: contentLength(l.Length), Received: number("received", l.Received, 0), Sent: number("sent", l.Sent, 0),
		Body: number("body", l.Body, 0), Status: int(min(number("status", l.Status, 0), 999)),
		Upstream: lastUpstream(l.Upstream),
	}
	if q.Host == nobody {
		q.Host = ""
	}
	if len(bad) > 0 {
		return q, fmt.Errorf("a line of the sidecar's log has no valid %s", strings.Join(bad, ", "))
	}
	return q, nil
}

// contentLength reads what the client wrote there, which may be anything.
func contentLength(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// lastUpstream is where a request was sent in the end: nginx lists each try. A name in
// place of an address is one that was not found.
func lastUpstream(s string) string {
	if i := strings.LastIndexAny(s, ", "); i >= 0 {
		s = s[i+1:]
	}
	if !strings.Contains(s, ":") {
		return ""
	}
	return s
}

// eachByte spells each byte as the code point of the same number.
func eachByte(b []byte) []byte {
	out := make([]byte, 0, len(b)+16)
	for _, c := range b {
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}
