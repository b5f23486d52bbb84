package otlptest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

const secret = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"

// service is an engine in memory with a server of each protocol.
type service struct {
	t    *testing.T
	eng  *forebay.Engine
	mem  *buffertest.Memory
	http string // URL without a path
	grpc string // address
	// refused gets a value when a response said that its request can be repeated.
	refused chan struct{}
}

// notice is called for a request that was refused.
func (s *service) notice() {
	select {
	case s.refused <- struct{}{}:
	default:
	}
}

// statusWriter notes the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// newService defines the source "app", which keeps each signal in its own table.
func newService(t *testing.T, tune func(*forebay.Options)) *service {
	t.Helper()
	mem := buffertest.NewMemory()
	opts := forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.NewMem())}
	if tune != nil {
		tune(&opts)
	}
	eng, err := forebay.Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	src := forebay.Source{ID: "app", Type: forebay.OTLP, Secret: secret}
	for _, signal := range []forebay.Signal{forebay.SignalLogs, forebay.SignalMetrics, forebay.SignalTraces} {
		src.Sinks = append(src.Sinks, forebay.Sink{
			ID:    string(signal),
			Table: forebay.Table{ID: "in.c-app." + string(signal), Columns: mapping.Columns{mapping.Body("body"), mapping.IP("ip")}},

			AllowedSignals: []forebay.Signal{signal},
		})
	}
	if err := eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, eng: eng, mem: mem, refused: make(chan struct{}, 1)}
	handler := stream.Ingest(eng, stream.Options{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw := &statusWriter{ResponseWriter: w}
		handler.ServeHTTP(sw, r)
		if sw.status == http.StatusServiceUnavailable {
			s.notice()
		}
	}))
	t.Cleanup(web.Close)
	srv := otlpgrpc.Server(eng, otlpgrpc.Options{}, grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			res, err := handler(ctx, req)
			if status.Code(err) == codes.Unavailable {
				s.notice()
			}
			return res, err
		}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // a test that sends no gRPC may stop it before it serves
			t.Errorf("the gRPC server ended with %v, want no error", err)
		}
	})
	s.http, s.grpc = web.URL, listener.Addr().String()
	return s
}

// records returns the records in the table of a signal once everything accepted so far is there.
func (s *service) records(signal string) []map[string]any {
	s.t.Helper()
	if err := s.eng.Flush(s.t.Context(), "app"); err != nil {
		s.t.Fatal(err)
	}
	var records []map[string]any
	for _, row := range s.mem.Rows("in.c-app." + signal) {
		var r map[string]any
		if err := json.Unmarshal([]byte(row[0]), &r); err != nil {
			s.t.Fatal(err)
		}
		if row[1] != "127.0.0.1" {
			s.t.Errorf("the sender has the address %q", row[1])
		}
		records = append(records, r)
	}
	return records
}
