package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

func newEnv(t *testing.T) *env {
	t.Helper()
	dir := t.TempDir()
	e := &env{dir: dir, duration: 30 * time.Millisecond, ring: newSharedRing(dir)}
	t.Cleanup(func() {
		if err := e.ring.close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Every variant counts its rows after the run, so that one that skips the work cannot give a figure.
func TestIngestionsStoreWhatTheyCount(t *testing.T) {
	w := workloads()[0]
	for name, run := range map[string]ingestion{
		"sync":   {workload: w, callers: 8},
		"batch":  {workload: w, callers: 4, batch: 10, settings: forebay.Settings{Compression: forebay.CompressionNone}},
		"nosync": {workload: w, callers: 8, settings: forebay.Settings{Sync: forebay.SyncUnsafe, Compression: forebay.CompressionZstd}},
		"flow":   {workload: w, callers: 8, flow: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := run.run(t.Context(), newEnv(t))
			if err != nil {
				t.Fatal(err)
			}
			if s.Rows == 0 || s.Total < s.Rows || s.Bytes < s.Rows*int64(w.bodyBytes) {
				t.Errorf("got %d rows of %d bytes in the window and %d in total, want some, whole ones, and no fewer in total", s.Rows, s.Bytes, s.Total)
			}
		})
	}
}

func TestVerifyFindsALoss(t *testing.T) {
	for _, flow := range []bool{false, true} {
		eng, err := setup{flow: flow}.open(t.Context(), newEnv(t))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if _, err := eng.Ingest(t.Context(), sourceID, mapping.JSON(workloads()[0].body(1))); err != nil {
				t.Fatal(err)
			}
		}
		if err := verify(t.Context(), eng, 5, flow); err != nil {
			t.Errorf("flow %v: %v", flow, err)
		}
		for _, acknowledged := range []int64{4, 6} {
			if err := verify(t.Context(), eng, acknowledged, flow); err == nil {
				t.Errorf("flow %v: 5 rows are stored, and %d acknowledged ones pass", flow, acknowledged)
			}
		}
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckStored(t *testing.T) {
	good := buffer.SinkReport{Accepted: 10, Local: 5, Staging: 3, Imported: 2}
	difference := good
	difference.Differences = []string{"chunk 7"}
	for _, tt := range []struct {
		name  string
		sinks []buffer.SinkReport
		span  span
		want  string
	}{
		{"nothing stored", nil, span{10, 10}, "0 sinks"},
		{"a difference", []buffer.SinkReport{difference}, span{0, 100}, "chunk 7"},
		{"expired", []buffer.SinkReport{{Accepted: 10, Expired: 10}}, span{10, 10}, "0 rows are stored"},
		{"too few", []buffer.SinkReport{good}, span{11, 12}, "10 rows are stored"},
		{"too many", []buffer.SinkReport{good}, span{8, 9}, "10 rows are stored"},
		{"all stored", []buffer.SinkReport{good}, span{10, 10}, ""},
		{"within the span", []buffer.SinkReport{good}, span{8, 12}, ""},
	} {
		err := checkStored(buffer.Report{Sinks: tt.sinks}, 1, tt.span)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error is %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestKeptCountsStoredRecordsAlone(t *testing.T) {
	for _, tt := range []struct {
		res forebay.Result
		ok  bool
	}{
		{forebay.Result{}, false},
		{forebay.Result{Sinks: []forebay.SinkResult{{Status: forebay.Rejected}}}, false},
		{forebay.Result{Sinks: []forebay.SinkResult{{Status: forebay.Failed}}}, false},
		{forebay.Result{Sinks: []forebay.SinkResult{{Status: forebay.Stored}}}, true},
		{forebay.Result{Sinks: []forebay.SinkResult{{Status: forebay.Queued}}}, true},
	} {
		if n, err := kept(tt.res); (err == nil) != tt.ok || (n == 1) != tt.ok {
			t.Errorf("%v: got %d, %v, want it to count: %t", tt.res, n, err, tt.ok)
		}
	}
}

func TestBackOffHidesOverloadsAlone(t *testing.T) {
	var overloads atomic.Int64
	if err := backOff(&forebay.SinkError{Err: &buffer.OverloadError{}}, &overloads); err != nil || overloads.Load() != 1 {
		t.Errorf("an overload gives %v and is counted %d times", err, overloads.Load())
	}
	if err := backOff(errors.New("disk is gone"), &overloads); err == nil || overloads.Load() != 1 {
		t.Errorf("another error gives %v and %d overloads", err, overloads.Load())
	}
}

func TestHTTPScenarios(t *testing.T) {
	w := workloads()[1]
	for name, run := range map[string]func() (*sample, error){
		"engine":  func() (*sample, error) { return httpSingle(w.traffic(), fast)(t.Context(), newEnv(t)) },
		"usual":   func() (*sample, error) { return httpSingle(w.traffic(), netHTTP)(t.Context(), newEnv(t)) },
		"lines":   func() (*sample, error) { return httpLines(w)(t.Context(), newEnv(t)) },
		"discard": func() (*sample, error) { return httpDiscard(w.traffic(), fast)(t.Context(), newEnv(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := run()
			if err != nil {
				t.Fatal(err)
			}
			if s.Rows == 0 || s.Latency.Total == 0 || s.Elapsed < 30*time.Millisecond {
				t.Errorf("got %d rows with %d latencies in %v, want some in at least 30 ms", s.Rows, s.Latency.Total, s.Elapsed)
			}
			if processCPU() >= 0 && (s.Client <= 0 || s.CPU <= 0) {
				t.Errorf("CPU is %v here and %v in the client", s.CPU, s.Client)
			}
		})
	}
}

func TestHTTPScenarioFailsWithItsServer(t *testing.T) {
	e := newEnv(t)
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	if _, err := measureHTTP(t.Context(), e, workloads()[0].traffic(), fast, refuse); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("error is %v, want the status", err)
	}
}

func TestConnectionReadsAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != ingestPath || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("X-Other", "value")
		if r.Header.Get("User-Agent") != "" {
			_, _ = w.Write([]byte("a longer answer"))
		}
	}))
	defer server.Close()
	one := workloads()[0].traffic()
	one.connections = 1
	open, err := connect(t.Context(), new(net.Dialer).DialContext, server.Listener.Addr().String(), one)
	if err != nil {
		t.Fatal(err)
	}
	c := open[0]
	defer c.conn.Close()
	for range 100 {
		if n, err := c.post(); n != 1 || err != nil {
			t.Fatalf("post gives %d, %v", n, err)
		}
	}
}

// However long it takes to encode the requests, no connection waits meanwhile. The server would close an idle one.
func TestRequestsAreEncodedBeforeConnections(t *testing.T) {
	encoded := 0
	tr := traffic{requests: 3, connections: 2, request: func(string, int) []byte {
		encoded++
		return nil
	}}
	failure := errors.New("no more")
	here, there := net.Pipe()
	defer there.Close()
	dialed := 0
	open, err := connect(t.Context(), func(context.Context, string, string) (net.Conn, error) {
		if dialed++; encoded != 6 {
			t.Errorf("connection %d is dialed after %d requests are encoded, want all 6", dialed, encoded)
		}
		if dialed == 2 {
			return nil, failure
		}
		return here, nil
	}, "server:80", tr)
	if !errors.Is(err, failure) || len(open) != 1 || open[0].conn != here {
		t.Errorf("connections %v, error %v, want the one that is open and %v", open, err, failure)
	}
	here.Close()
}
