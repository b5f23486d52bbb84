package forebay_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// spans is a tracer that keeps its spans.
type spans struct {
	embedded.Tracer
	unsampled atomic.Bool
	mu        sync.Mutex
	all       []*span
}

type span struct {
	noop.Span
	of           *spans
	name         string
	context      trace.SpanContext
	parent       trace.SpanContext
	links        []trace.Link
	attributes   map[attribute.Key]attribute.Value
	status       codes.Code
	begin, ended time.Time
	ends         int
}

func (t *spans) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(opts...)
	s := &span{of: t, name: name, links: c.Links(), attributes: make(map[attribute.Key]attribute.Value), begin: c.Timestamp()}
	if !c.NewRoot() {
		s.parent = trace.SpanContextFromContext(ctx)
	}
	s.set(c.Attributes())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, s)
	config := trace.SpanContextConfig{TraceID: s.parent.TraceID()}
	if !config.TraceID.IsValid() {
		binary.BigEndian.PutUint64(config.TraceID[:], uint64(len(t.all)))
	}
	binary.BigEndian.PutUint64(config.SpanID[:], uint64(len(t.all)))
	if !t.unsampled.Load() {
		config.TraceFlags = trace.FlagsSampled
	}
	s.context = trace.NewSpanContext(config)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *span) set(list []attribute.KeyValue) {
	for _, a := range list {
		s.attributes[a.Key] = a.Value
	}
}

func (s *span) SpanContext() trace.SpanContext { return s.context }
func (s *span) SetAttributes(list ...attribute.KeyValue) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.set(list)
}

func (s *span) SetStatus(c codes.Code, _ string) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.status = c
}

func (s *span) End(opts ...trace.SpanEndOption) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.ends++
	config := trace.NewSpanEndConfig(opts...)
	s.ended = config.Timestamp()
}

// named returns the spans of a name.
func (t *spans) named(name string) (list []*span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.all {
		if s.name == name {
			list = append(list, s)
		}
	}
	return list
}

func (s *span) String() string {
	return fmt.Sprintf("%s %v status %v links %d ends %d", s.name, s.attributes, s.status, len(s.links), s.ends)
}

func openTraced(t *testing.T, change ...func(*forebay.Options)) (*forebay.Engine, *buffertest.Memory, *spans) {
	t.Helper()
	tracer := new(spans)
	e, mem := openMemory(t, append(change, func(o *forebay.Options) { o.Tracer = tracer })...)
	return e, mem, tracer
}

// A call has a span with its outcome. The span is a child of the span of the caller, and has a child for the commit.
func TestTraceOfCalls(t *testing.T) {
	e, _, tracer := openTraced(t)
	mustDefine(t, e, events())
	ctx, caller := tracer.Start(t.Context(), "caller")
	good, bad := mapping.JSON([]byte(`{"id":"a","user":{"name":"Ada"}}`)), mapping.JSON([]byte(`{}`))
	check := func(n int, records int64, outcome string, failed bool) {
		t.Helper()
		list := tracer.named("forebay.ingest")
		if len(list) != n {
			t.Fatalf("there are %d spans of calls, want %d: %v", len(list), n, list)
		}
		s := list[n-1]
		sinks := s.attributes["forebay.sinks"].AsStringSlice()
		if s.parent.SpanID() != caller.SpanContext().SpanID() || s.ends != 1 || s.attributes["forebay.source"].AsString() != "web" || (s.status == codes.Error) != failed ||
			s.attributes["forebay.outcome"].AsString() != outcome || s.attributes["forebay.records"].AsInt64() != records || records > 0 && !slices.Equal(sinks, []string{"users", "raw"}) {
			t.Errorf("got the span %v, want %d records with outcome %s", s, records, outcome)
		}
		for _, c := range tracer.named("forebay.commit") {
			if c.ends != 1 || !c.parent.IsValid() {
				t.Errorf("got the commit %v of %v", c, c.parent.SpanID())
			}
		}
	}
	_, err := e.Ingest(ctx, "web", good)
	check(1, 1, "stored", err != nil)
	_, err = e.IngestBatch(ctx, "web", []*mapping.Record{good, bad})
	check(2, 2, "rejected", err != nil)
	once := forebay.Once{Key: "k"}
	_, err = e.IngestOnce(ctx, "web", once, []*mapping.Record{good})
	check(3, 1, "stored", err != nil)
	_, err = e.IngestOnce(ctx, "web", once, []*mapping.Record{good})
	check(4, 1, "replayed", err != nil)
	_, err = e.IngestAtomic(ctx, "web", forebay.Batch{Records: slices.Values([]*mapping.Record{good, good, good})})
	check(5, 3, "stored", err != nil)
	p, err := e.Submit(ctx, "web", good)
	check(6, 1, "stored", err != nil)
	if _, err := p.Wait(ctx); err != nil {
		t.Error(err)
	}
	_, err = e.WaitForRoom().Ingest(ctx, "web", good)
	check(7, 1, "stored", err != nil)
	_, err = e.WaitForRoom().IngestBatch(ctx, "none", nil)
	if list := tracer.named("forebay.ingest"); err == nil || list[7].ends != 1 || list[7].status != codes.Error || list[7].attributes["forebay.outcome"].AsString() != "failed" {
		t.Errorf("got %v for a source that is not defined", list[7])
	}
	if n := len(tracer.named("forebay.commit")); n != 6 {
		t.Errorf("there are %d spans of commits, want one for each call that waits: 6", n)
	}
}

// Uploads and imports link to the sampled calls whose rows they carry, and to a bounded number of them.
func TestTraceOfUploadsAndImports(t *testing.T) {
	e, mem, tracer := openTraced(t)
	broken := errors.New("the table is away")
	var failed atomic.Bool
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport && failed.CompareAndSwap(false, true) {
			return broken
		}
		return nil
	}
	mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks = s.Sinks[:1] }))
	record := mapping.JSON([]byte(`{"id":"a","user":{"name":"Ada"}}`))
	flush := func() {
		t.Helper()
		if err := e.Flush(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Ingest(t.Context(), "web", record); err != nil {
		t.Fatal(err)
	}
	flush()
	call := tracer.named("forebay.ingest")[0].context
	uploads, imports := tracer.named("forebay.upload"), tracer.named("forebay.import")
	if len(uploads) != 1 || len(imports) != 2 {
		t.Fatalf("got %v and %v, want an upload, a failed import and an import", uploads, imports)
	}
	for _, s := range slices.Concat(uploads, imports) {
		if len(s.links) != 1 || s.links[0].SpanContext.SpanID() != call.SpanID() || s.ends != 1 || s.parent.IsValid() || s.attributes["forebay.sink"].AsString() != "users" ||
			s.attributes["forebay.rows"].AsInt64() != 1 || s.attributes["forebay.file"].AsString() == "" || s.begin.IsZero() || s.ended.Before(s.begin) {
			t.Errorf("got %v, want a link to the call", s)
		}
	}
	if imports[0].status != codes.Error || imports[1].status == codes.Error {
		t.Errorf("got %v, want a failure and then a success", imports)
	}

	// The rows of the next file have nothing to do with the first call.
	for now := time.Now().UnixMilli(); time.Now().UnixMilli() == now; { // times of acceptance are milliseconds
		runtime.Gosched()
	}
	for range 100 {
		if _, err := e.Ingest(t.Context(), "web", record); err != nil {
			t.Fatal(err)
		}
	}
	tracer.unsampled.Store(true)
	for range 5 {
		if _, err := e.Ingest(t.Context(), "web", record); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	imports = tracer.named("forebay.import")
	last := imports[len(imports)-1]
	if len(last.links) != 32 || last.attributes["forebay.rows"].AsInt64() != 105 || last.attributes["forebay.linked_of"].AsInt64() != 100 {
		t.Errorf("got %v, want 32 links of 100 sampled calls", last)
	}
	seen := make(map[trace.SpanID]bool)
	for _, l := range last.links {
		if id := l.SpanContext.SpanID(); seen[id] || id == call.SpanID() || !l.SpanContext.IsSampled() {
			t.Errorf("link to %v is wrong or there twice", id)
		} else {
			seen[id] = true
		}
	}
}

// The span of a call that waits for room has the time of the wait.
func TestTraceOfAWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem, tracer := openTraced(t, func(o *forebay.Options) { o.Buffer.MaxSinkBytes = 64 << 10 })
		release := make(chan struct{})
		mem.Before = func(ctx context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpPut {
				<-release
			}
			return nil
		}
		mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks, s.Settings.Compression = s.Sinks[1:], forebay.CompressionNone }))
		large := mapping.JSON([]byte(`"` + strings.Repeat("x", 40<<10) + `"`))
		for range 2 { // the second row exceeds the limit, so the next call waits
			if _, err := e.Ingest(t.Context(), "web", large); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() { _, err := e.WaitForRoom().Ingest(t.Context(), "web", large); done <- err }()
		flushed := make(chan error, 1)
		go func() { flushed <- e.Flush(t.Context(), "web") }()
		synctest.Wait()
		time.Sleep(3 * time.Second)
		close(release)
		if err := errors.Join(<-done, <-flushed); err != nil {
			t.Fatal(err)
		}
		calls := tracer.named("forebay.ingest")
		if waited := calls[2].attributes["forebay.room.wait"].AsFloat64(); len(calls) != 3 || waited < 3 || waited > 60 {
			t.Errorf("the calls are %v, want that the third has waited for 3 s or a little more", calls)
		}
		if waited := calls[0].attributes["forebay.room.wait"].AsFloat64(); waited > 1 {
			t.Errorf("the first call has waited for %v s, want none", waited)
		}
	})
}

// The recipe of docs/metrics.md for the trace id of the sender.
func TestTraceIDOfTheSenderAsAColumn(t *testing.T) {
	m, err := mapping.Compile(mapping.Columns{mapping.UUID("id"), mapping.Template("trace_id",
		`local h = Header("traceparent", ""); if std.length(h) == 55 then std.substr(h, 3, 32) else null`, mapping.DataType(datatype.String))}, mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := mapping.JSON([]byte(`{}`))
	r.Header = http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	if c := m.Cells(r)[1]; c.Err != nil || c.Value != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("got %+v", c)
	}
	if c := m.Cells(mapping.JSON([]byte(`{}`)))[1]; c.Err != nil || !c.Null {
		t.Errorf("got %+v without the header, want NULL", c)
	}
}

// A call is a child of the span of the caller. Programs pass the tracer of their SDK in place of this tracer.
func ExampleOptions_tracer() {
	tracer := new(spans)
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	e, err := forebay.Open(dir, forebay.Options{Tracer: tracer})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	ctx := context.Background()
	columns := mapping.Columns{mapping.UUID("id"), mapping.Body("body")}
	if err := e.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "raw", Table: forebay.Table{ID: "raw", Columns: columns}}}}); err != nil {
		panic(err)
	}
	if _, err := e.Ingest(ctx, "web", mapping.JSON([]byte(`{}`))); err != nil {
		panic(err)
	}
	if err := e.Flush(ctx, "web"); err != nil {
		panic(err)
	}
	for _, s := range tracer.all {
		fmt.Println(s.name, len(s.links))
	}

	// Output:
	// forebay.ingest 0
	// forebay.commit 0
	// forebay.upload 1
	// forebay.import 1
}

// After Forget no data of a sink stays in memory, so that sources may be added and removed for years.
func TestTracedSinkIsForgotten(t *testing.T) {
	e, _ := openMemory(t, func(o *forebay.Options) { o.Tracer = new(spans) })
	mustDefine(t, e, fan(""))
	if _, err := ingestText(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Flush(t.Context(), "web"), e.Remove(t.Context(), "web"), e.Forget(t.Context(), "web", "sink-0")); err != nil {
		t.Fatal(err)
	}
	if n := e.TracedSinks(); n != 0 {
		t.Errorf("%d sinks are kept, want none", n)
	}
}
