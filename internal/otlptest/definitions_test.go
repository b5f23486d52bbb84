package otlptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// While requests arrive over both protocols, sinks come and go and change their signals, and the source is disabled, enabled,
// removed and defined again. A batch is refused and leaves nothing, or succeeds and is stored exactly once, whole, in the sink that
// every definition has. The other sinks store it whole or not at all.
func TestDefinitionsChangeUnderLoad(t *testing.T) {
	s := newService(t, nil)
	sink := func(id string, signals ...forebay.Signal) forebay.Sink {
		return forebay.Sink{
			ID: id, AllowedSignals: signals,
			Table: forebay.Table{ID: "in.c-load." + id, Columns: mapping.Columns{mapping.Path("body", "body", mapping.RawString())}},
		}
	}
	const changes, records = 60, 10
	source := func(n int) forebay.Source {
		src := forebay.Source{ID: "load", Type: forebay.OTLP, Secret: "secret-of-load", Sinks: []forebay.Sink{sink("always")}}
		if n%2 == 0 {
			src.Sinks = append(src.Sinks, sink("coming"))
		}
		if n%3 == 0 {
			src.Sinks = append(src.Sinks, sink("picky", forebay.SignalTraces))
		} else {
			src.Sinks = append(src.Sinks, sink("picky", forebay.SignalLogs))
		}
		src.Disabled = n%5 == 3
		return src
	}
	define := func(n int) {
		if n%7 == 5 {
			if err := s.eng.Remove(t.Context(), "load"); err != nil {
				t.Error(err)
			}
			return
		}
		if err := s.eng.Define(t.Context(), source(n)); err != nil {
			t.Error(err)
		}
	}
	define(0)

	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	overGRPC := func(req plogotlp.ExportRequest) (bool, error) {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer secret-of-load")
		res, err := plogotlp.NewGRPCClient(conn).Export(ctx, req)
		switch status.Code(err) {
		case codes.OK:
			if res.PartialSuccess().ErrorMessage() != "" {
				return false, fmt.Errorf("a partial success: %s", res.PartialSuccess().ErrorMessage())
			}
			return true, nil
		case codes.Unauthenticated: // removed
			return false, nil
		case codes.Unavailable:
			if strings.Contains(err.Error(), "The source is disabled.") {
				return false, nil
			}
		}
		return false, err
	}
	overHTTP := func(req plogotlp.ExportRequest) (bool, error) {
		data, err := req.MarshalProto()
		if err != nil {
			return false, err
		}
		resp, err := http.Post(s.http+"/otlp/1/load/secret-of-load/v1/logs", "application/x-protobuf", bytes.NewReader(data))
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		switch {
		case err == nil && resp.StatusCode == http.StatusOK && len(answer) == 0:
			return true, nil
		case err == nil && resp.StatusCode == http.StatusNotFound: // removed
			return false, nil
		case err == nil && resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(answer), "The source is disabled."):
			return false, nil
		}
		return false, fmt.Errorf("%v, status %d: %q", err, resp.StatusCode, answer)
	}

	var stop atomic.Bool
	var sent atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken, refused := make(map[string]bool), 0
	for w := range 6 {
		export := overHTTP
		if w%2 == 0 {
			export = overGRPC
		}
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				name := fmt.Sprintf("%d-%d", w, n)
				batch := plog.NewLogs()
				all := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
				for range records {
					all.AppendEmpty().Body().SetStr(name)
				}
				ok, err := export(plogotlp.NewExportRequestFromLogs(batch))
				if err != nil {
					t.Errorf("batch %s: %v", name, err)
					return
				}
				sent.Add(1)
				mu.Lock()
				if ok {
					taken[name] = true
				} else {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	for n := range changes {
		for seen := sent.Load(); sent.Load() < seen+8 && !t.Failed(); { // so that there is load between two changes
			runtime.Gosched()
		}
		define(n)
	}
	stop.Store(true)
	wg.Wait()
	for n := range 2 { // the last definitions have every sink
		if err := s.eng.Define(t.Context(), source(n*4)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.eng.Flush(t.Context(), "load"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"always", "coming", "picky"} {
		found := make(map[string]int)
		for _, row := range s.mem.Rows("in.c-load." + id) {
			found[strings.Clone(row[0])]++
		}
		for name, n := range found {
			if n != records || !taken[name] {
				t.Errorf("sink %s has %d rows of batch %s, taken: %v", id, n, name, taken[name])
			}
		}
		if id == "always" && len(found) != len(taken) {
			t.Errorf("%d batches are there, %d were taken", len(found), len(taken))
		}
		t.Logf("sink %s has %d batches of %d, %d were refused", id, len(found), len(taken), refused)
	}
	if len(taken) == 0 || refused == 0 {
		t.Error("one of the two outcomes never came")
	}
}
