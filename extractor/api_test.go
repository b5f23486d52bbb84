package extractor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// An api is an HTTP server that stands for all hosts. It responds from a list, and keeps the requests.
type api struct {
	mu       sync.Mutex
	answers  []string
	requests []string
	// headers are the names of request headers to keep with each request.
	headers []string
	server  *httptest.Server
}

// newAPI serves responses in order: "[status] [Header: value\n]... body". The last one is repeated. If there is none, the status is 404.
func newAPI(t testing.TB, responses ...string) *api {
	a := &api{answers: responses}
	a.server = httptest.NewServer(a)
	t.Cleanup(a.server.Close)
	return a
}

// transport connects to the server whatever the host is.
func (a *api) transport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, a.server.Listener.Addr().String())
		},
		DisableKeepAlives: true,
	}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	line := r.Method + " http://" + r.Host + r.RequestURI
	for _, name := range a.headers {
		if v := r.Header.Values(name); len(v) > 0 {
			line += " " + name + "=" + strings.Join(v, ",")
		}
	}
	if r.Method != http.MethodGet {
		line += " " + r.Header.Get("Content-Type") + " " + string(body)
	}
	a.mu.Lock()
	answer := "404 nothing left"
	if n := len(a.requests); n < len(a.answers) {
		answer = a.answers[n]
	}
	a.requests = append(a.requests, strings.TrimRight(line, " "))
	a.mu.Unlock()
	writeAnswer(w, answer)
}

func writeAnswer(w http.ResponseWriter, answer string) {
	status := 200
	if first, rest, _ := strings.Cut(answer, " "); len(first) == 3 && first[0] >= '1' && first[0] <= '5' {
		if s, err := strconv.Atoi(first); err == nil {
			status, answer = s, rest
		}
	}
	for {
		line, rest, ok := strings.Cut(answer, "\n")
		name, value, isHeader := strings.Cut(line, ": ")
		if !ok || !isHeader || strings.ContainsAny(name, `{["`) {
			break
		}
		w.Header().Set(name, value)
		answer = rest
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

// asked returns the requests so far, without the host h or the server's own.
func (a *api) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Clone(a.requests)
	for i := range out {
		out[i] = strings.Replace(strings.Replace(out[i], "http://h/", "/", 1), a.server.URL+"/", "/", 1)
	}
	return out
}

// A run is the outcome of a configuration.
type run struct {
	records []string // "type: json"
	log     string
	state   extractor.State
	err     error
}

// config makes a configuration of two sections without braces.
func config(api, config string) string {
	if !strings.Contains(api, `"baseUrl"`) {
		api = strings.TrimSuffix(`"baseUrl": "http://h/", `+api, ", ")
	}
	return fmt.Sprintf(`{"parameters": {"api": {%s}, "config": {%s}}}`, api, config)
}

func extract(t testing.TB, a *api, cfg string, change func(*extractor.State, *extractor.Options)) run {
	t.Helper()
	var r run
	parsed, err := extractor.Parse([]byte(cfg))
	if err != nil {
		r.err = err
		return r
	}
	var log bytes.Buffer
	transport := a.transport()
	defer transport.CloseIdleConnections()
	opts := extractor.Options{
		Transport: transport,
		Logger:    slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Emit: func(_ context.Context, p *extractor.Page) error {
			for rec := range p.Records() {
				r.records = append(r.records, p.DataType+": "+string(rec.JSON()))
			}
			return nil
		},
	}
	var state extractor.State
	if change != nil {
		change(&state, &opts)
	}
	r.state, r.err = extractor.Run(t.Context(), parsed, state, opts)
	r.log = log.String()
	return r
}

// same compares two lists line by line.
func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
