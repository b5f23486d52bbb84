package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/spantest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

func openTraced(t *testing.T, change ...func(*forebay.Options)) (*forebay.Engine, *buffertest.Memory, *spantest.Tracer) {
	t.Helper()
	tracer := new(spantest.Tracer)
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
		list := tracer.Named("forebay.ingest")
		if len(list) != n {
			t.Fatalf("there are %d spans of calls, want %d: %v", len(list), n, list)
		}
		s := list[n-1]
		sinks := s.Attributes["forebay.sinks"].AsStringSlice()
		if s.Parent.SpanID() != caller.SpanContext().SpanID() || s.Ends != 1 || s.Attributes["forebay.source"].AsString() != "web" || (s.Status == codes.Error) != failed ||
			s.Attributes["forebay.outcome"].AsString() != outcome || s.Attributes["forebay.records"].AsInt64() != records || records > 0 && !slices.Equal(sinks, []string{"users", "raw"}) {
			t.Errorf("got the span %v, want %d records with outcome %s", s, records, outcome)
		}
		for _, c := range tracer.Named("forebay.commit") {
			if c.Ends != 1 || !c.Parent.IsValid() {
				t.Errorf("got the commit %v of %v", c, c.Parent.SpanID())
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
	if list := tracer.Named("forebay.ingest"); err == nil || list[7].Ends != 1 || list[7].Status != codes.Error || list[7].Attributes["forebay.outcome"].AsString() != "failed" {
		t.Errorf("got %v for a source that is not defined", list[7])
	}
	if n := len(tracer.Named("forebay.commit")); n != 6 {
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
		must(t, e.Flush(t.Context(), "web"))
	}
	mustIngest(t, e, "web", record)
	flush()
	call := tracer.Named("forebay.ingest")[0].Context
	uploads, imports := tracer.Named("forebay.upload"), tracer.Named("forebay.import")
	if len(uploads) != 1 || len(imports) != 2 {
		t.Fatalf("got %v and %v, want an upload, a failed import and an import", uploads, imports)
	}
	for _, s := range slices.Concat(uploads, imports) {
		if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != call.SpanID() || s.Ends != 1 || s.Parent.IsValid() || s.Attributes["forebay.sink"].AsString() != "users" ||
			s.Attributes["forebay.rows"].AsInt64() != 1 || s.Attributes["forebay.file"].AsString() == "" || s.Begin.IsZero() || s.Ended.Before(s.Begin) {
			t.Errorf("got %v, want a link to the call", s)
		}
	}
	if imports[0].Status != codes.Error || imports[1].Status == codes.Error {
		t.Errorf("got %v, want a failure and then a success", imports)
	}

	// The rows of the next file have nothing to do with the first call.
	for now := time.Now().UnixMilli(); time.Now().UnixMilli() == now; { // times of acceptance are milliseconds
		runtime.Gosched()
	}
	for range 100 {
		mustIngest(t, e, "web", record)
	}
	tracer.Unsampled.Store(true)
	for range 5 {
		mustIngest(t, e, "web", record)
	}
	flush()
	imports = tracer.Named("forebay.import")
	last := imports[len(imports)-1]
	if len(last.Links) != 32 || last.Attributes["forebay.rows"].AsInt64() != 105 || last.Attributes["forebay.linked_of"].AsInt64() != 100 {
		t.Errorf("got %v, want 32 links of 100 sampled calls", last)
	}
	seen := make(map[trace.SpanID]bool)
	for _, l := range last.Links {
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
			mustIngest(t, e, "web", large)
		}
		done := make(chan error, 1)
		go func() { _, err := e.WaitForRoom().Ingest(t.Context(), "web", large); done <- err }()
		flushed := make(chan error, 1)
		go func() { flushed <- e.Flush(t.Context(), "web") }()
		synctest.Wait()
		time.Sleep(3 * time.Second)
		close(release)
		must(t, errors.Join(<-done, <-flushed))
		calls := tracer.Named("forebay.ingest")
		if waited := calls[2].Attributes["forebay.room.wait"].AsFloat64(); len(calls) != 3 || waited < 3 || waited > 60 {
			t.Errorf("the calls are %v, want that the third has waited for 3 s or a little more", calls)
		}
		if waited := calls[0].Attributes["forebay.room.wait"].AsFloat64(); waited > 1 {
			t.Errorf("the first call has waited for %v s, want none", waited)
		}
	})
}

// traceColumns are the recipe of docs/metrics.md.
func traceColumns() mapping.Columns {
	const part = `local p = std.split(Header("traceparent", ""), "-"); if std.length(p) > 3 && std.length(p[%d]) == %d then p[%[1]d] else null`
	return mapping.Columns{
		mapping.Template("trace_id", fmt.Sprintf(part, 1, 32), mapping.DataType(datatype.String)),
		mapping.Template("span_id", fmt.Sprintf(part, 2, 16), mapping.DataType(datatype.String)),
	}
}

func TestTraceOfTheSenderAsColumns(t *testing.T) {
	docs, err := os.ReadFile("docs/metrics.md")
	must(t, err)
	for _, c := range traceColumns() {
		if !strings.Contains(string(docs), c.Template.Content) {
			t.Errorf("docs/metrics.md lacks the template of %s", c.Name)
		}
	}
	m, err := mapping.Compile(traceColumns(), mapping.Options{})
	must(t, err)
	for header, want := range map[string][2]string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"},
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more": {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"},
		"":        {},
		"garbage": {},
		"00-0af7651916cd43dd8448eb211c80319-b7ad6b716920333-01": {},
		"---": {},
	} {
		r := mapping.JSON([]byte(`{}`))
		if header != "" {
			r.Header = http.Header{"Traceparent": {header}}
		}
		for i, c := range m.Cells(r) {
			if c.Err != nil || c.Null != (want[i] == "") || c.Value != want[i] {
				t.Errorf("header %q: got %+v, want %q", header, c, want[i])
			}
		}
	}
}

// A record without headers, such as a Go value, has the span of the caller in the columns of the sender, with and without a tracer. The columns
// ask for it. Other sources have no header. The record of the caller stays as it is, and a record with headers has its own.
func TestTraceOfTheCallerAsColumns(t *testing.T) {
	type order struct {
		N int `json:"n"`
	}
	for _, tracer := range []trace.Tracer{nil, new(spantest.Tracer)} {
		e, mem := openMemory(t, func(o *forebay.Options) { o.Tracer = tracer })
		columns := append(traceColumns(), mapping.Path("n", "n"))
		all := forebay.Sink{ID: "all", Table: forebay.Table{ID: "all", Columns: mapping.Columns{mapping.Headers("headers")}}}
		mustDefine(t, e, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "rows", Table: forebay.Table{ID: "rows", Columns: columns}}}})
		mustDefine(t, e, forebay.Source{ID: "other", Sinks: []forebay.Sink{all}})
		orders, err := forebay.Typed[order](e, "web")
		must(t, err)
		ctx, caller := new(spantest.Tracer).Start(t.Context(), "caller")
		span := caller.SpanContext()
		bare, own := mapping.JSON([]byte(`{"n":2}`)), mapping.JSON([]byte(`{"n":3}`))
		own.Header = http.Header{}
		records := []*mapping.Record{bare, own}
		_, err1 := orders.Ingest(ctx, order{1})
		_, err2 := e.IngestBatch(ctx, "web", records)
		_, err3 := e.IngestAtomic(ctx, "web", forebay.Batch{Records: slices.Values(records)})
		_, err4 := e.Ingest(t.Context(), "web", mapping.From(order{4}))
		_, err5 := e.Ingest(ctx, "other", mapping.From(order{5}))
		must(t, errors.Join(err1, err2, err3, err4, err5, e.FlushAll(t.Context())))
		if bare.Header != nil || len(own.Header) != 0 {
			t.Errorf("the headers are %v and %v after the call", bare.Header, own.Header)
		}
		for _, row := range mem.Rows("rows") {
			want := [2]string{span.TraceID().String(), span.SpanID().String()}
			if row[2] == "3" || row[2] == "4" {
				want = [2]string{buffertest.Null, buffertest.Null}
			}
			if row[0] != want[0] || row[1] != want[1] {
				t.Errorf("tracer %v: row %q, want %q", tracer != nil, row, want)
			}
		}
		if rows := mem.Rows("rows"); len(rows) != 6 {
			t.Errorf("rows %q, want 6", rows)
		}
		if rows := mem.Rows("other"); len(rows) > 0 || mem.Rows("all")[0][0] != "{}" {
			t.Errorf("rows %q of a source that does not ask", mem.Rows("all"))
		}
	}
}

// The sampled calls of a sink are listed, oldest first, and the last ones if there are many.
func TestTracedCalls(t *testing.T) {
	e, _, tracer := openTraced(t)
	mustDefine(t, e, events())
	if list := e.Sink("web", "users").TracedCalls(); len(list) != 0 {
		t.Errorf("got %v before the first call", list)
	}
	record, begin := mapping.JSON([]byte(`{"id":"a","user":{"name":"Ada"}}`)), time.Now().Truncate(time.Millisecond)
	for range 300 {
		mustIngest(t, e, "web", record)
	}
	list, calls := e.Sink("web", "users").TracedCalls(), tracer.Named("forebay.ingest")
	if len(list) != 256 {
		t.Fatalf("%d calls are known, want 256", len(list))
	}
	for i, c := range list {
		if !c.Span.Equal(calls[i+44].Context) || c.At.Before(begin) || c.At.After(time.Now()) {
			t.Fatalf("call %d is %v", i, c)
		}
	}
	without, _ := openMemory(t)
	if list := without.Sink("web", "users").TracedCalls(); list != nil {
		t.Errorf("got %v without a tracer", list)
	}
}

// A call is a child of the span of the caller. Programs pass the tracer of their SDK in place of this tracer.
func ExampleOptions_tracer() {
	tracer := new(spantest.Tracer)
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
	for _, s := range tracer.All() {
		fmt.Println(s.Name, len(s.Links))
	}

	// Output:
	// forebay.ingest 0
	// forebay.commit 0
	// forebay.upload 1
	// forebay.import 1
}

// After Forget no data of a sink stays in memory, so that sources may be added and removed for years.
func TestTracedSinkIsForgotten(t *testing.T) {
	e, _ := openMemory(t, func(o *forebay.Options) { o.Tracer = new(spantest.Tracer) })
	mustDefine(t, e, fan(""))
	if _, err := ingestText(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	must(t, errors.Join(e.Flush(t.Context(), "web"), e.Remove(t.Context(), "web"), e.Forget(t.Context(), "web", "sink-0")))
	if n := e.TracedSinks(); n != 0 {
		t.Errorf("%d sinks are kept, want none", n)
	}
}
