package main

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A busy port of OTLP that the operator has not chosen is left out with a warning. A chosen one, or the last one, ends the server.
func TestBusyPortsOfOTLP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy, free := l.Addr().String(), "127.0.0.1:0"
	byDefault := map[string]bool{"otlp-grpc": true, "otlp-http": true}
	for _, tt := range []struct {
		name       string
		grpc, http string
		optional   map[string]bool
		needs      bool
		servers    int
		want       string // in the error, or in the log if there is none
	}{
		{"one is busy", busy, free, byDefault, true, 1, "flag=-otlp-grpc"},
		{"both are busy", busy, busy, byDefault, true, 0, "no port of OTLP is open"},
		{"both are busy, events have a port", busy, busy, byDefault, false, 0, "flag=-otlp-http"},
		{"a chosen one is busy", busy, free, map[string]bool{"otlp-http": true}, true, 0, "-otlp-grpc: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			cfg := &serveConfig{otlpGRPC: tt.grpc, otlpHTTP: tt.http, optional: tt.optional, needsOTLP: tt.needs}
			cfg.MaxConnections = 10
			servers, err := listenOTLP(cfg, nil, http.NotFoundHandler(), slog.New(slog.NewTextHandler(&log, nil)))
			for _, s := range servers {
				defer s.Close()
			}
			text := log.String()
			if err != nil {
				text = err.Error()
			}
			if len(servers) != tt.servers || !strings.Contains(text, tt.want) {
				t.Errorf("got %d servers and %s, want %d and %q", len(servers), text, tt.servers, tt.want)
			}
		})
	}
}

// The verb otlp says which ports are open, and which one is not.
func TestPortsOfOTLP(t *testing.T) {
	cfg := &serveConfig{otlpGRPC: "127.0.0.1:4317", otlpHTTP: "127.0.0.1:4318"}
	got := cfg.ports("ready api=127.0.0.1:8081 ingest=127.0.0.1:8080 otlp-http=127.0.0.1:4318\n")
	const want = `
Ports:

  OTLP over gRPC   not open: 127.0.0.1:4317 is in use, choose another address with -otlp-grpc
  OTLP over HTTP   127.0.0.1:4318
  events over HTTP 127.0.0.1:8080
  Stream API       127.0.0.1:8081
`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
