package sdk

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"github.com/linuxarena/ctis/server"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/gateway"
)

const (
	openaiKey    = "sk-proj-canary-41d07be2f35a869c"
	anthropicKey = "sk-ant-canary-9d41c07be2f35a86"
	agentsKey    = "sk-the-agents-own"
)

// vendor plays both APIs, and keeps what it was asked.
type vendor struct {
	mu   sync.Mutex
	seen []asked
}

type asked struct {
	host, path, authorization, apiKey, body, contentType string
}

// ServeHTTP answers as the two APIs document it. Paths below /flaky fail once, as an
// overloaded API does.
func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // cut short it has no end that the test knows
	v.mu.Lock()
	before := 0
	for _, a := range v.seen {
		if a.path == r.URL.Path {
			before++
		}
	}
	v.seen = append(v.seen, asked{r.Host, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), string(body), r.Header.Get("Content-Type")})
	v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	events := func(list ...string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range list {
			_, _ = io.WriteString(w, e+"\n\n") // who left is not missed
			_ = http.NewResponseController(w).Flush()
		}
	}
	stream := strings.Contains(string(body), `"stream":true`)
	if strings.HasPrefix(r.URL.Path, "/flaky/") && before == 0 {
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"slow down","type":"rate_limit"}}`)
		return
	}
	switch _, last, _ := strings.Cut(r.URL.Path, "/v1/"); {
	case strings.HasPrefix(r.URL.Path, "/wrong/"): // the real one repeats a part of the key; this one all of it
		w.WriteHeader(http.StatusUnauthorized)
		key := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, _ = fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s","type":"invalid_request_error","code":"invalid_api_key"}}`, key)
	case last == "chat/completions" && stream:
		events(`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hel"}}]}`,
			`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"lo"}}]}`, `data: [DONE]`)
	case last == "chat/completions":
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hello"}}]}`)
	case last == "files":
		_, _ = io.WriteString(w, `{"id":"file-1","object":"file","filename":"train.jsonl","bytes":300000,"purpose":"fine-tune"}`)
	case last == "messages" && stream:
		events("event: message_start\n"+`data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
			"event: content_block_start\n"+`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			"event: ping\n"+`data: {"type":"ping"}`,
			"event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`,
			"event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}`,
			"event: content_block_stop\n"+`data: {"type":"content_block_stop","index":0}`,
			"event: message_stop\n"+`data: {"type":"message_stop"}`)
	case last == "messages":
		_, _ = io.WriteString(w, `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (v *vendor) asked(path string) []asked {
	v.mu.Lock()
	defer v.mu.Unlock()
	var list []asked
	for _, a := range v.seen {
		if a.path == path {
			list = append(list, a)
		}
	}
	return list
}

// world gives the way to the vendor through simulator and gateway, as an agent has it:
// names lead to the simulator, whose authority is trusted.
func world(t *testing.T) (*vendor, *http.Client) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"api.openai.com", "api.anthropic.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	must(err)
	v := &vendor{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	upstream := &http.Server{Handler: v, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
	go func() { _ = upstream.ServeTLS(l, "", "") }() // it ends with the test
	t.Cleanup(func() { _ = upstream.Close() })

	dir, err := os.MkdirTemp("", "ctis") // short: paths of unix sockets are limited
	must(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	so := server.Options{StateDir: filepath.Join(dir, "s"), HTTP: []string{"127.0.0.1:0"}, HTTPS: []string{"127.0.0.1:0"}, AdminSocket: filepath.Join(dir, "sa")}
	s, err := server.New(so)
	must(err)
	g, err := gateway.New(gateway.Options{
		StateDir: filepath.Join(dir, "g"), Listen: "127.0.0.1:0", AdminSocket: filepath.Join(dir, "ga"), Allow: []netip.Prefix{loopback},
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{loopback.Addr().Next()}, nil },
	})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("simulator: %v", err)
		}
	})
	running.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Errorf("gateway: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })

	dial := func(path string) *api.Client {
		return api.NewClient(func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		})
	}
	sim, gate := dial(so.AdminSocket), api.NewGatewayClient(dial(filepath.Join(dir, "ga")))
	t.Cleanup(func() { sim.Close(); gate.Close() })
	here, err := sim.Status(ctx)
	must(err)
	there, err := gate.Status(ctx)
	must(err)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	upstreams := []api.Upstream{
		{Host: "api.openai.com", Scheme: "https", Port: port, Authorities: authority, KeyEnv: "OPENAI_API_KEY", AuthHeader: "Authorization", AuthPrefix: "Bearer "},
		{Host: "api.anthropic.com", Scheme: "https", Port: port, Authorities: authority, KeyEnv: "ANTHROPIC_API_KEY", AuthHeader: "x-api-key"},
	}
	must(gate.SetPeer(ctx, api.Peering{Simulator: here.Identity}))
	must(sim.SetGateway(ctx, api.Gateway{Address: g.Addr().(*net.TCPAddr).AddrPort(), Identity: there.Identity}))
	_, err = gate.SetKeys(ctx, api.Keys{"OPENAI_API_KEY": openaiKey, "ANTHROPIC_API_KEY": anthropicKey})
	must(err)
	_, err = gate.Claim(ctx, api.Claims{Trajectory: "sdk", Upstreams: upstreams})
	must(err)
	_, err = sim.Register(ctx, &api.Registration{
		Trajectory: "sdk", Environment: "sdk", Settings: fmt.Sprintf("%064d", 0), Upstreams: upstreams, Personas: []api.Persona{},
		Networks: []api.Network{{Name: "external", ID: "sdk", Subnets: []netip.Prefix{loopback}, Addresses: []netip.Addr{loopback.Addr().Next()}, Peers: []api.Peer{}}},
	})
	must(err)
	ca, err := sim.CA(ctx)
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	_, secure := s.Addrs()
	return v, &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", secure[0].String())
		},
	}}
}

func TestTheLibraryOfOpenAIFindsItsAPI(t *testing.T) {
	v, way := world(t)
	at := func(base string) openai.Client {
		return openai.NewClient(openaioption.WithAPIKey(agentsKey), openaioption.WithHTTPClient(way), openaioption.WithBaseURL("https://api.openai.com"+base+"/v1/"))
	}
	hello := openai.ChatCompletionNewParams{Model: "gpt-x", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	for _, base := range []string{"", "/flaky"} { // which its own retries get over
		c := at(base)
		done, err := c.Chat.Completions.New(t.Context(), hello)
		if err != nil || done.Choices[0].Message.Content != "Hello" {
			t.Errorf("%q: %v, %+v", base, err, done)
		}
	}
	if got := v.asked("/v1/chat/completions"); len(got) != 1 || got[0].authorization != "Bearer "+openaiKey || !strings.HasPrefix(got[0].host, "api.openai.com:") {
		t.Errorf("%+v", got)
	}
	if got := v.asked("/flaky/v1/chat/completions"); len(got) != 2 {
		t.Errorf("asked %d times", len(got))
	}
	c := at("")
	stream := c.Chat.Completions.NewStreaming(t.Context(), hello)
	said, pieces := "", 0
	for stream.Next() {
		said, pieces = said+stream.Current().Choices[0].Delta.Content, pieces+1
	}
	if stream.Err() != nil || said != "Hello" || pieces != 2 {
		t.Errorf("%v, %q in %d", stream.Err(), said, pieces)
	}
	line := `{"prompt":"p","completion":"c"}` + "\n"
	content := strings.Repeat(line, 10000)
	file, err := c.Files.New(t.Context(), openai.FileNewParams{File: openai.File(strings.NewReader(content), "train.jsonl", "application/jsonl"), Purpose: openai.FilePurposeFineTune})
	if err != nil || file.ID != "file-1" {
		t.Errorf("%v, %+v", err, file)
	}
	if got := v.asked("/v1/files"); len(got) != 1 || !strings.HasPrefix(got[0].contentType, "multipart/form-data") || !strings.Contains(got[0].body, content) {
		t.Errorf("%d uploads", len(got))
	}
	wrong := at("/wrong")
	_, err = wrong.Chat.Completions.New(t.Context(), hello)
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusUnauthorized || refused.Message != "Incorrect API key provided: "+strings.Repeat("*", len(openaiKey)) {
		t.Errorf("%v", err)
	}
	if got := v.asked("/wrong/v1/chat/completions"); len(got) != 1 {
		t.Errorf("asked %d times", len(got))
	}
}

func TestTheLibraryOfAnthropicFindsItsAPI(t *testing.T) {
	v, way := world(t)
	at := func(base string) anthropic.Client {
		return anthropic.NewClient(anthropicoption.WithAPIKey(agentsKey), anthropicoption.WithHTTPClient(way), anthropicoption.WithBaseURL("https://api.anthropic.com"+base+"/"))
	}
	hello := anthropic.MessageNewParams{Model: "claude-x", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}}
	for _, base := range []string{"", "/flaky"} {
		c := at(base)
		done, err := c.Messages.New(t.Context(), hello)
		if err != nil || done.Content[0].Text != "Hello" {
			t.Errorf("%q: %v, %+v", base, err, done)
		}
	}
	if got := v.asked("/v1/messages"); len(got) != 1 || got[0].apiKey != anthropicKey || got[0].authorization != "" {
		t.Errorf("%+v", got)
	}
	if got := v.asked("/flaky/v1/messages"); len(got) != 2 {
		t.Errorf("asked %d times", len(got))
	}
	c := at("")
	// Several at once over one connection, as programs that wait for many do.
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			stream := c.Messages.NewStreaming(t.Context(), hello)
			whole := anthropic.Message{}
			for stream.Next() {
				if err := whole.Accumulate(stream.Current()); err != nil {
					t.Error(err)
				}
			}
			if stream.Err() != nil || len(whole.Content) != 1 || whole.Content[0].Text != "Hello" {
				t.Errorf("%v, %+v", stream.Err(), whole)
			}
		})
	}
	all.Wait()
	wrong := at("/wrong")
	_, err := wrong.Messages.New(t.Context(), hello)
	var refused *anthropic.Error
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusUnauthorized || !strings.Contains(refused.Error(), strings.Repeat("*", len(anthropicKey))) || strings.Contains(refused.Error(), anthropicKey) {
		t.Errorf("%v", err)
	}
}
