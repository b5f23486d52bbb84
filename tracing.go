package forebay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/recentcalls"
)

// tracing makes the spans of [Options.Tracer]. Calls are recent while their rows may not be imported yet. Uploads and imports find them by sink and time.
type tracing struct {
	tracer trace.Tracer
	recent sync.Map // *recentcalls.Calls by name of the sink in the buffer
}

// TracedCall is a call that has put rows into a sink. See [SinkHandle.TracedCalls].
type TracedCall struct {
	// At is when the rows of the call were accepted, in milliseconds.
	At time.Time
	// Span is the span of the call. Its trace is the trace of the caller or sender, if there is one.
	Span trace.SpanContext
}

// TracedCalls returns the last sampled calls that have put rows into the sink since the engine was opened, oldest first: 256 at most. Rows that were
// accepted at the time of a call are in the files and slices whose Level has that time between FirstAt and LastAt. Without
// Options.Tracer there are none. The caller owns the list.
func (h SinkHandle) TracedCalls() []TracedCall {
	if h.e.tracing == nil {
		return nil
	}
	calls, ok := h.e.tracing.recent.Load(h.id())
	if !ok {
		return nil
	}
	var list []TracedCall
	for at, span := range calls.(*recentcalls.Calls).All() {
		list = append(list, TracedCall{At: at, Span: span})
	}
	return list
}

// driverCall makes the span of an upload or import that has ended.
func (t *tracing) driverCall(e buffer.DriverEvent) {
	if e.Step != "upload" && e.Step != "import" {
		return
	}
	end := time.Now()
	source, sink, _ := strings.Cut(e.SinkID, "/")
	links, calls := load[recentcalls.Calls](&t.recent, e.SinkID).Links(e.FirstAt, e.LastAt)
	attributes := []attribute.KeyValue{
		attribute.String("forebay.source", source), attribute.String("forebay.sink", sink), attribute.String("forebay.file", e.FileID),
		attribute.Int64("forebay.rows", e.Rows), attribute.Int64("forebay.bytes", e.Bytes),
	}
	if e.SliceID != "" {
		attributes = append(attributes, attribute.String("forebay.slice", e.SliceID))
	}
	if calls > len(links) {
		attributes = append(attributes, attribute.Int("forebay.linked_of", calls))
	}
	_, span := t.tracer.Start(context.Background(), "forebay."+e.Step, trace.WithNewRoot(), trace.WithTimestamp(end.Add(-e.Took)),
		trace.WithLinks(links...), trace.WithAttributes(attributes...), trace.WithSpanKind(trace.SpanKindConsumer))
	fail(span, e.Err)
	span.End(trace.WithTimestamp(end))
}

// forget drops the recent calls of a sink. It does nothing on nil.
func (t *tracing) forget(sinkID string) {
	if t != nil {
		t.recent.Delete(sinkID)
	}
}

// fail sets the error of a span. Errors of this library contain no values of rows beyond what its logs contain.
func fail(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		span.RecordError(err)
	}
}

// callSpan is the span of a call that brings records. It is nil for an engine without a tracer, and then its methods do nothing.
type callSpan struct {
	*tracing
	ctx    context.Context
	span   trace.Span
	caller trace.SpanContext // the parent of span
	waited time.Duration     // for room
	room   time.Time         // when the current wait began
}

// traced returns the intake of one call with its span.
func (in Intake) traced(ctx context.Context, sourceID string) (context.Context, Intake) {
	t := in.engine.tracing
	if t == nil {
		return ctx, in
	}
	s := &callSpan{tracing: t, caller: trace.SpanContextFromContext(ctx)}
	s.ctx, s.span = t.tracer.Start(ctx, "forebay.ingest", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attribute.String("forebay.source", sourceID)))
	in.span = s
	return s.ctx, in
}

// waits begins a possible wait for room, which waitsNoMore ends.
func (s *callSpan) waits() {
	if s != nil {
		s.room = time.Now()
	}
}

func (s *callSpan) waitsNoMore() {
	if s != nil {
		s.waited += time.Since(s.room)
	}
}

// took notes that rows of the call were accepted for a sink.
func (s *callSpan) took(sinkID string, at time.Time) {
	if s == nil {
		return
	}
	if c := s.span.SpanContext(); c.IsSampled() {
		load[recentcalls.Calls](&s.recent, sinkID).Add(at, c)
	}
}

// commit begins the wait for the disk. The returned function ends it.
func (s *callSpan) commit() func(error) {
	if s == nil {
		return func(error) {}
	}
	_, span := s.tracer.Start(s.ctx, "forebay.commit")
	return func(err error) {
		fail(span, err)
		span.End()
	}
}

// end ends the span of a call. count is the number of its records, and outcomes are the statuses with their numbers.
func (s *callSpan) end(records int, sinks []string, outcome string, err error) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attribute.Int("forebay.records", records), attribute.StringSlice("forebay.sinks", sinks), attribute.String("forebay.outcome", outcome))
	if s.waited > 0 {
		s.span.SetAttributes(attribute.Float64("forebay.room.wait", s.waited.Seconds()))
	}
	fail(s.span, err)
	s.span.End()
}

// endResults is end for the results of records. The outcome is the worst of them.
func (s *callSpan) endResults(results []Result, err error) {
	if s == nil {
		return
	}
	var sinks []string
	worst, replayed := Status(0), len(results) > 0
	for i, r := range results {
		for _, out := range r.Sinks {
			if i == 0 {
				sinks = append(sinks, out.Sink)
			}
			replayed = replayed && out.Replayed
			if order(out.Status) > order(worst) {
				worst = out.Status
			}
		}
	}
	outcome := worst.String()
	switch {
	case worst == 0 && err != nil:
		outcome = Failed.String()
	case worst == 0:
		outcome = "dropped"
	case replayed && err == nil:
		outcome = "replayed"
	}
	s.end(len(results), sinks, outcome, err)
}

// order ranks outcomes from good to bad.
func order(s Status) int {
	switch s {
	case Queued:
		return 1
	case Stored:
		return 2
	case Quarantined:
		return 3
	case Rejected:
		return 4
	case Failed:
		return 5
	}
	return 0
}

// endBatch is end for a batch that was stored together.
func (s *callSpan) endBatch(res BatchResult, source *source, err error) {
	if s == nil {
		return
	}
	var sinks []string
	if source != nil {
		for _, k := range source.sinks {
			sinks = append(sinks, k.id)
		}
	}
	outcome := Stored.String()
	switch {
	case err != nil:
		outcome = Failed.String()
	case res.Sinks == 0:
		outcome = "dropped"
	case res.Rejected > 0:
		outcome = Rejected.String()
	case res.Quarantined > 0:
		outcome = Quarantined.String()
	}
	if res.First != nil {
		s.span.SetAttributes(attribute.String("forebay.rejected", fmt.Sprint(res.Rejected, " of ", res.Records)))
	}
	s.end(res.Records, sinks, outcome, err)
}
