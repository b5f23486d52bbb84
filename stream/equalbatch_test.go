package stream_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// serve serves a handler and returns its URL.
func serve(t *testing.T, h http.Handler) string {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// exportLogs sends a batch to the source of telemetry.
func (s *service) exportLogs(batch []byte, header ...string) (status int, replayed string) {
	s.t.Helper()
	status, h, _ := s.export("/otlp/1/app/"+webSecret+"/v1/logs", batch, append([]string{"Content-Type", protobuf}, header...)...)
	return status, h.Get("Idempotent-Replayed")
}

// Batches whose responses have arrived are different batches, equal or not. A loop logs one line many times within a millisecond, and hosts send
// one body.
func TestEqualBatchesAreStoredEach(t *testing.T) {
	s := newService(t, nil, telemetry())
	s.url = serve(t, stream.Ingest(s.eng, stream.Options{}))
	batch := recentLogs(t, "tick")
	const loop, hosts = 20, 8
	for i := range loop {
		if status, again := s.exportLogs(batch); status != 200 || again != "" {
			t.Errorf("batch %d: status %d, replayed %q, want 200 and none", i, status, again)
		}
	}
	var all sync.WaitGroup
	for host := range hosts {
		all.Go(func() {
			if status, again := s.exportLogs(batch); status != 200 || again != "" {
				t.Errorf("host %d: status %d, replayed %q, want 200 and none", host, status, again)
			}
		})
	}
	all.Wait()
	if n := s.tables()["logs"]; n != loop+hosts {
		t.Errorf("got %d rows, want %d", n, loop+hosts)
	}
}

// lost is a ResponseWriter on a connection that has broken.
type lost struct{ http.ResponseWriter }

func (lost) WriteHeader(int)           {}
func (lost) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A batch whose response could not be written is repeated once. The next equal batch is a new batch.
func TestBatchWhoseAnswerFailed(t *testing.T) {
	s := newService(t, nil, telemetry())
	h := stream.Ingest(s.eng, stream.Options{})
	var breaks atomic.Bool
	s.url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if breaks.Load() {
			h.ServeHTTP(lost{httptest.NewRecorder()}, r)
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	batch := recentLogs(t, "tick")
	for i, want := range []string{"", "true", ""} {
		breaks.Store(i == 0)
		if i == 0 {
			if resp, err := http.Post(s.url+"/otlp/1/app/"+webSecret+"/v1/logs", protobuf, bytes.NewReader(batch)); err == nil {
				t.Fatalf("the connection has not broken: %s", resp.Status)
			}
			continue
		}
		if status, again := s.exportLogs(batch); status != 200 || again != want {
			t.Errorf("attempt %d: status %d, replayed %q, want 200 and %q", i, status, again, want)
		}
	}
	if n := s.tables()["logs"]; n != 2 {
		t.Errorf("got %d rows, want 2: one of the batch and its repetition, one of the next", n)
	}
}

// A client gives up while the disk is slow, and sends its batch again. The first batch is stored in the end, so the second is its repetition. An equal
// batch after that is a new batch.
func TestBatchWhoseSenderHasGone(t *testing.T) {
	var slow atomic.Bool
	stuck, free := make(chan struct{}, 100), make(chan struct{})
	disk := disktest.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if slow.Load() && strings.HasSuffix(op.Path, ".log") {
				stuck <- struct{}{}
				<-free
			}
		}
		return nil
	}))
	s := newService(t, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, disk) }, telemetry())
	h := stream.Ingest(s.eng, stream.Options{})
	left := make(chan struct{}, 1)
	s.url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Forwarded-For") != "" {
			go func() {
				<-r.Context().Done()
				left <- struct{}{}
			}()
		}
		h.ServeHTTP(w, r)
	}))
	batch := recentLogs(t, "tick")
	slow.Store(true)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprintf("POST /otlp/1/app/%s/v1/logs HTTP/1.1\r\nHost: x\r\nUser-Agent: Go-http-client/1.1\r\n"+
		"Accept-Encoding: gzip\r\nX-Forwarded-For: 1.1.1.1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", webSecret, protobuf, len(batch))
	if _, err := conn.Write(append([]byte(head), batch...)); err != nil {
		t.Fatal(err)
	}
	<-stuck
	conn.Close()
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Fatalf("the handler does not learn that the client has left")
	}
	type outcome struct {
		status int
		again  string
	}
	repeated := make(chan outcome, 1)
	go func() {
		status, again := s.exportLogs(batch)
		repeated <- outcome{status, again}
	}()
	slow.Store(false)
	close(free)
	if got, want := <-repeated, (outcome{200, "true"}); got != want {
		t.Errorf("the repetition got %v, want %v", got, want)
	}
	if status, again := s.exportLogs(batch); status != 200 || again != "" {
		t.Errorf("the next equal batch: status %d, replayed %q, want 200 and none", status, again)
	}
	if n := s.tables()["logs"]; n != 2 {
		t.Errorf("got %d rows, want 2", n)
	}
}

// A batch that some sinks refuse as a whole gets a response like any other batch. The other sinks store the next equal batch.
func TestEqualBatchesOfWhichASinkRejectsAll(t *testing.T) {
	src := telemetry()
	for i := range src.Sinks {
		if src.Sinks[i].ID == "logs" {
			src.Sinks[i].Table.Columns = mapping.Columns{mapping.Path("v", "no.such.path")}
		}
	}
	s := newService(t, nil, src)
	batch := recentLogs(t, "tick")
	for i := range 2 {
		if status, again := s.exportLogs(batch); status != 422 || again != "" {
			t.Errorf("batch %d: status %d, replayed %q, want 422 and none", i, status, again)
		}
	}
	if n := s.tables(); n["logs"] != 0 || n["all"] != 2 {
		t.Errorf("rows %v, want none of logs and 2 of all", n)
	}
}
