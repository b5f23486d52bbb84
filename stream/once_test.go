package stream_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// restarted is the service with another engine on the same disk.
func (s *service) restarted(fs vfs.FS, opts stream.Options, sources ...forebay.Source) *service {
	s.t.Helper()
	eng, err := forebay.Open("data", forebay.Options{Staging: s.mem, Target: s.mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, fs)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = eng.Close() })
	for _, src := range sources {
		if err := eng.Define(s.t.Context(), src); err != nil {
			s.t.Fatal(err)
		}
	}
	srv := httptest.NewServer(stream.Ingest(eng, opts))
	s.t.Cleanup(srv.Close)
	return &service{s.t, eng, s.mem, srv.URL}
}

// A request with a key is known after a restart, gets the response of the first, and adds nothing.
func TestKeySurvivesARestart(t *testing.T) {
	fs := vfs.NewMem()
	src := source("web", mapping.Path("n", "n"))
	s := newService(t, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, fs) }, src)
	send := func(s *service, key, body string) (int, string, string) {
		status, header, answer := s.export("/stream/1/web/"+webSecret, []byte(body), "Content-Type", jsonBody, "Idempotency-Key", key)
		return status, header.Get("Idempotent-Replayed"), answer
	}
	for i, want := range []string{"", "true", "true"} {
		if i == 2 {
			if err := s.eng.Close(); err != nil {
				t.Fatal(err)
			}
			s = s.restarted(fs, stream.Options{}, src)
		}
		if status, again, answer := send(s, "one", `{"n":1}`); status != http.StatusOK || answer != "OK" || again != want {
			t.Errorf("request %d: %d %q, replayed %q", i, status, answer, again)
		}
		if status, again, answer := send(s, "two", `{"x":1}`); status != http.StatusUnprocessableEntity || again != "" || !strings.Contains(answer, "unprocessableContent") {
			t.Errorf("request %d: %d %q, replayed %q", i, status, answer, again)
		}
	}
	if status, _, answer := send(s, "one", `{"n":2}`); status != http.StatusUnprocessableEntity || !strings.Contains(answer, "another body") {
		t.Errorf("another body under the key of before: %d %q", status, answer)
	}
	if rows := s.rows("web"); len(rows) != 1 {
		t.Errorf("the table has %v", rows)
	}
}

// A response that says that the outcome is unknown can be followed up with the key.
func TestKeyOfAnUnknownOutcome(t *testing.T) {
	var fail atomic.Bool
	disk := disktest.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if fail.Load() && strings.HasSuffix(op.Path, ".log") {
				return syscall.EIO
			}
		}
		return nil
	}))
	s := newService(t, func(o *forebay.Options) {
		o.Buffer = localdisk.On(o.Buffer, disk)
		o.Buffer.Retry = buffer.Retry{Initial: time.Millisecond, Max: time.Millisecond}
	}, source("web", mapping.Path("n", "n")), telemetry())
	batch := recentLogs(t, "one")
	event := func() (int, string, string) {
		status, header, answer := s.export("/stream/1/web/"+webSecret, []byte(`{"n":1}`), "Content-Type", jsonBody, "Idempotency-Key", "k")
		return status, header.Get("Idempotent-Replayed"), answer
	}
	export := func() (int, string, string) {
		status, header, answer := s.export("/otlp/1/app/"+webSecret+"/v1/logs", batch, "Content-Type", protobuf)
		return status, header.Get("Idempotent-Replayed"), answer
	}
	for name, send := range map[string]func() (int, string, string){"event": event, "batch": export} {
		for deadline := time.Now().Add(20 * time.Second); s.eng.Ready() != nil && time.Now().Before(deadline); {
		}
		fail.Store(true)
		if status, _, answer := send(); status != http.StatusServiceUnavailable {
			t.Fatalf("%s: got %d %s, want %v", name, status, answer, http.StatusServiceUnavailable)
		}
		fail.Store(false)
		for deadline := time.Now().Add(20 * time.Second); ; {
			status, again, answer := send()
			if status == http.StatusServiceUnavailable && time.Now().Before(deadline) {
				continue
			}
			if status != http.StatusOK || again != "true" { // the disk had written it
				t.Errorf("%s: got %d %q, replayed %q, want 200, replayed \"true\"", name, status, answer, again)
			}
			break
		}
	}
	if rows := s.rows("web"); len(rows) != 1 {
		t.Errorf("the table of events has %v", rows)
	}
	if n := s.tables(); n["logs"] != 1 || n["all"] != 1 {
		t.Errorf("rows of telemetry: %v", n)
	}
}

// recentLogs encodes log records of this moment.
func recentLogs(t *testing.T, bodies ...string) []byte {
	t.Helper()
	batch := logs(bodies...)
	records := batch.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	for i := range records.Len() {
		records.At(i).SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
	}
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An exporter repeats a batch byte for byte, because its responses do not arrive. The batch is stored once, in every encoding and coding, even
// after a restart.
func TestRepeatedBatchIsStoredOnce(t *testing.T) {
	now := pcommon.NewTimestampFromTime(time.Now())
	metrics := pmetric.NewMetrics()
	m := metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for i := range 5 {
		next := m.AppendEmpty()
		next.SetName("metrics")
		switch i {
		case 0:
			next.SetEmptyGauge().DataPoints().AppendEmpty().SetTimestamp(now)
		case 1:
			next.SetEmptySum().DataPoints().AppendEmpty().SetTimestamp(now)
		case 2:
			next.SetEmptyHistogram().DataPoints().AppendEmpty().SetTimestamp(now)
		case 3:
			next.SetEmptyExponentialHistogram().DataPoints().AppendEmpty().SetTimestamp(now)
		case 4:
			next.SetEmptySummary().DataPoints().AppendEmpty().SetTimestamp(now)
		}
	}
	traces := ptrace.NewTraces()
	span := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName("traces")
	span.SetEndTimestamp(now)
	encode := func(data []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	batches := map[string][]byte{
		"logs": recentLogs(t, "a", "b"), "metrics": encode((&pmetric.ProtoMarshaler{}).MarshalMetrics(metrics)),
		"traces": encode((&ptrace.ProtoMarshaler{}).MarshalTraces(traces)),
	}
	fs := vfs.NewMem()
	s := newService(t, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, fs) }, telemetry())
	// The responses of all attempts but the last are lost on their way to a proxy.
	lossy := func() {
		h := stream.Ingest(s.eng, stream.Options{})
		s.url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(lost{rec}, r)
			maps.Copy(w.Header(), rec.Header())
			w.Header().Del("Content-Length")
			w.WriteHeader(http.StatusBadGateway)
		}))
	}
	lossy()
	for i := range 3 {
		want := http.StatusBadGateway
		if i == 2 {
			if err := s.eng.Close(); err != nil {
				t.Fatal(err)
			}
			s, want = s.restarted(fs, stream.Options{}, telemetry()), http.StatusOK
		}
		for signal, data := range batches {
			coding := []string{"", "gzip", "zstd"}[i]
			status, header, answer := s.export("/otlp/1/app/"+webSecret+"/v1/"+signal, compress(t, coding, data),
				"Content-Type", protobuf, "Content-Encoding", coding, "X-Request-Id", fmt.Sprint(i), "Traceparent", fmt.Sprint(i))
			if again := header.Get("Idempotent-Replayed"); status != want || answer != "" || (again == "true") != (i > 0) {
				t.Errorf("%s, attempt %d: got %d %q, replayed %q, want %d, no body, replayed after attempt 0", signal, i, status, answer, again, want)
			}
		}
	}
	if got, want := fmt.Sprint(s.tables()), fmt.Sprint(map[string]int{"logs": 2, "metrics": 5, "traces": 1, "all": 8}); got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}

// Batches that are not the same telemetry stay apart, whatever they look like.
func TestDifferentBatchesAreNotMerged(t *testing.T) {
	data := recentLogs(t, "a")
	old := exports(t, protobuf)[forebay.SignalLogs]
	untimed := exports(t, protobuf)[forebay.SignalMetrics]
	for _, tt := range []struct {
		name          string
		signal        string
		first, second []byte
		header        [2][]string
		off           bool
		rows          int
	}{
		{"the same", "logs", data, data, [2][]string{}, false, 2},
		{"another record", "logs", data, recentLogs(t, "a"), [2][]string{}, false, 2},
		{"another tenant", "logs", data, data, [2][]string{{"X-Scope-OrgID", "a"}, {"X-Scope-OrgID", "b"}}, false, 2},
		{"no tenant", "logs", data, data, [2][]string{{"X-Scope-OrgID", "a"}, nil}, false, 2},
		{"old records", "logs", old, old, [2][]string{}, false, 2},
		{"records without time", "metrics", untimed, untimed, [2][]string{}, false, 2},
		{"switched off", "logs", data, data, [2][]string{}, true, 2},
		{"keys", "logs", data, data, [2][]string{{"Idempotency-Key", "a"}, {"Idempotency-Key", "b"}}, false, 2},
		{"one key", "metrics", untimed, untimed, [2][]string{{"Idempotency-Key", "a"}, {"Idempotency-Key", "a"}}, false, 1},
		{"one key, switched off", "metrics", untimed, untimed, [2][]string{{"Idempotency-Key", "a"}, {"Idempotency-Key", "a"}}, true, 1},
	} {
		s := newService(t, nil, telemetry())
		if tt.off {
			if err := s.eng.Close(); err != nil {
				t.Fatal(err)
			}
			s = s.restarted(vfs.NewMem(), stream.Options{BatchWindow: -1}, telemetry())
		}
		for i, body := range [][]byte{tt.first, tt.second} {
			status, _, answer := s.export("/otlp/1/app/"+webSecret+"/v1/"+tt.signal, body, append([]string{"Content-Type", protobuf}, tt.header[i]...)...)
			if status != http.StatusOK {
				t.Errorf("%s: got %d %q, want %v", tt.name, status, answer, http.StatusOK)
			}
		}
		if n := s.tables()[tt.signal]; n != tt.rows {
			t.Errorf("%s: got %d rows, want %d", tt.name, n, tt.rows)
		}
	}
	s := newService(t, nil, telemetry())
	for i, body := range [][]byte{data, recentLogs(t, "b")} {
		status, _, answer := s.export("/otlp/1/app/"+webSecret+"/v1/logs", body, "Content-Type", protobuf, "Idempotency-Key", "a")
		if want := []int{200, 422}[i]; status != want {
			t.Errorf("batch %d under one key: %d %q, want %d", i, status, answer, want)
		}
	}
}

// A full sink refuses new batches, and not batches that it has.
func TestKeyAtAFullSink(t *testing.T) {
	s := newService(t, func(o *forebay.Options) { o.Buffer.MaxSinkBytes = 1 << 10 }, telemetry())
	s.mem.Before = nil
	data := recentLogs(t, strings.Repeat("x", 100))
	post := func(data []byte) int {
		status, _, _ := s.export("/otlp/1/app/"+webSecret+"/v1/logs", data, "Content-Type", protobuf, "Idempotency-Key", fmt.Sprintf("%x", sha256.Sum256(data)))
		return status
	}
	if status := post(data); status != http.StatusOK {
		t.Fatal(status)
	}
	for i := 0; ; i++ {
		if status := post(recentLogs(t, fmt.Sprint(i, strings.Repeat("x", 100)))); status == http.StatusServiceUnavailable {
			break
		} else if status != http.StatusOK || i > 1000 {
			t.Fatal(status)
		}
	}
	if status := post(data); status != http.StatusOK {
		t.Errorf("a batch that is stored is answered %d", status)
	}
	if errs := s.eng.FlushAll(t.Context()); errs != nil && !errors.Is(errs, forebay.ErrClosed) {
		t.Error(errs)
	}
}
