package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/forebay/forebay/internal/program/web"
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
			cfg := &serveConfig{otlpGRPC: tt.grpc, otlpHTTP: tt.http, needsOTLP: tt.needs}
			cfg.MaxConnections, cfg.Optional = 10, tt.optional
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
	cfg.Addr, cfg.APIAddr, cfg.Optional = "127.0.0.1:8080", "127.0.0.1:8081", map[string]bool{"addr": true, "api-addr": true}
	got := cfg.ports("ready api=127.0.0.1:5000 ingest=127.0.0.1:8080 otlp-http=127.0.0.1:4318\n")
	const want = `
Ports:

  OTLP over gRPC   not open: 127.0.0.1:4317 is in use, choose another address with -otlp-grpc
  OTLP over HTTP   127.0.0.1:4318
  events over HTTP 127.0.0.1:8080
  Stream API       127.0.0.1:5000, because 127.0.0.1:8081 is in use: choose an address with -api-addr
`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Each default port may be in use, except the port that receives the events of serve. The server says so once for each, and
// serves on free ones.
func TestDefaultPortsInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().String()
	for _, tt := range []struct {
		verb string
		set  func(cfg *serveConfig)
		want int      // status
		log  []string // of standard error
		out  []string
	}{
		{
			"otlp", func(cfg *serveConfig) { cfg.Addr, cfg.APIAddr, cfg.otlpHTTP = busy, busy, busy }, 0,
			[]string{"flag=-addr address=" + busy + " taken=127.0.0.1:", "flag=-api-addr address=" + busy + " taken=127.0.0.1:", "flag=-otlp-http address=" + busy},
			[]string{"because " + busy + " is in use: choose an address with -addr", "with -api-addr", "not open: " + busy + " is in use, choose another address with -otlp-http"},
		},
		{"serve", func(cfg *serveConfig) { cfg.Addr, cfg.APIAddr = "127.0.0.1:0", busy }, 0, []string{"flag=-api-addr address=" + busy + " taken=127.0.0.1:"}, nil},
		{
			"serve", func(cfg *serveConfig) { cfg.Addr, cfg.APIAddr = busy, "127.0.0.1:0" }, failed,
			[]string{"forebay serve: -addr: ", "another program listens there, perhaps a second forebay or a collector", "choose another address with -addr"},
			nil,
		},
	} {
		ctx, end := context.WithCancel(t.Context())
		var out, log bytes.Buffer
		p := process{stdout: &afterLine{out: &out, text: func(string) string { end(); return "" }}, stderr: &log, getenv: func(string) (string, bool) { return "", false }}
		var f telemetryFlags
		verb := verbFlags{}
		if tt.verb == "otlp" {
			verb = verbFlags{register: f.register, complete: f.complete}
		}
		args := []string{"-dir", t.TempDir()}
		cfg, err := p.parse(tt.verb, args, verb)
		if err != nil {
			t.Fatal(err)
		}
		cfg.otlpGRPC, cfg.otlpHTTP = "127.0.0.1:0", "127.0.0.1:0"
		tt.set(cfg)
		if tt.verb == "otlp" {
			err = p.serveTelemetry(ctx, args, cfg, &f)
		} else {
			err = p.serveConfig(ctx, args, cfg)
		}
		if status := p.end(tt.verb, err, failed); status != tt.want {
			t.Errorf("got %s: status %d, want %d\n%s", tt.verb, status, tt.want, &log)
		}
		for _, want := range tt.log {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("%s: want %q once in the log, got\n%s", tt.verb, want, &log)
			}
		}
		for _, want := range tt.out {
			if !strings.Contains(out.String(), want) {
				t.Errorf("got %s: want %q in\n%s", tt.verb, want, &out)
			}
		}
		end()
	}
}

// A program that is stopped while it starts ends in order, although its server of gRPC is stopped before it has served.
func TestGRPCStoppedBeforeItServes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpcServer{grpc.NewServer()}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	server := web.Start(l, s)
	<-server.Done
	if err := server.Err(); err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}
