// Package callspans makes the spans of an engine. A call that brings records has one, with a child for its commit. Uploads and imports have one each,
// which links to the calls whose rows it carries.
package callspans

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay/buffer"
)

// Spans makes the spans of an engine. Calls are recent while their rows may not be imported yet. Uploads and imports find them by sink and time.
// Nil makes no spans, at no cost. It is safe for concurrent use.
type Spans struct {
	tracer trace.Tracer
	recent sync.Map // *recentCalls by name of the sink in the buffer
}

// New returns the spans for a tracer, or nil without one.
func New(tracer trace.Tracer) *Spans {
	if tracer == nil {
		return nil
	}
	return &Spans{tracer: tracer}
}

// calls returns the recent calls of a sink.
func (s *Spans) calls(sinkID string) *recentCalls {
	v, ok := s.recent.Load(sinkID)
	if !ok {
		v, _ = s.recent.LoadOrStore(sinkID, new(recentCalls))
	}
	return v.(*recentCalls)
}

// DriverCall makes the span of an upload or import that has ended.
func (s *Spans) DriverCall(e buffer.DriverEvent) {
	if s == nil || e.Step != "upload" && e.Step != "import" {
		return
	}
	end := time.Now()
	source, sink, _ := strings.Cut(e.SinkID, "/")
	links, calls := s.calls(e.SinkID).links(e.FirstAt, e.LastAt)
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
	_, span := s.tracer.Start(context.Background(), "forebay."+e.Step, trace.WithNewRoot(), trace.WithTimestamp(end.Add(-e.Took)),
		trace.WithLinks(links...), trace.WithAttributes(attributes...), trace.WithSpanKind(trace.SpanKindConsumer))
	fail(span, e.Err)
	span.End(trace.WithTimestamp(end))
}

// Recent returns the last sampled calls that have put rows into a sink and when their rows were accepted, in milliseconds, oldest first.
func (s *Spans) Recent(sinkID string) iter.Seq2[time.Time, trace.SpanContext] {
	if s != nil {
		if calls, ok := s.recent.Load(sinkID); ok {
			return calls.(*recentCalls).all()
		}
	}
	return func(func(time.Time, trace.SpanContext) bool) {}
}

// Sinks returns how many sinks have recent calls.
func (s *Spans) Sinks() (n int) {
	if s != nil {
		s.recent.Range(func(any, any) bool { n++; return true })
	}
	return n
}

// Forget drops the recent calls of a sink.
func (s *Spans) Forget(sinkID string) {
	if s != nil {
		s.recent.Delete(sinkID)
	}
}

// fail sets the error of a span. Errors of this library contain no values of rows beyond what its logs contain.
func fail(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		span.RecordError(err)
	}
}

// Call is the span of a call that brings records. Without a tracer it is nil, and then its methods do nothing. Only one goroutine may use it.
type Call struct {
	spans  *Spans
	ctx    context.Context
	span   trace.Span
	caller trace.SpanContext // the parent of span
	waited time.Duration     // for room
	room   time.Time         // when the current wait began
}

// Begin begins the span of a call, whose context it returns. [Call.End] ends it.
func (s *Spans) Begin(ctx context.Context, sourceID string) (context.Context, *Call) {
	if s == nil {
		return ctx, nil
	}
	c := &Call{spans: s, caller: trace.SpanContextFromContext(ctx)}
	c.ctx, c.span = s.tracer.Start(ctx, "forebay.ingest", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attribute.String("forebay.source", sourceID)))
	return c.ctx, c
}

// Caller returns the span that the caller had in the context of the call.
func (c *Call) Caller(ctx context.Context) trace.SpanContext {
	if c == nil {
		return trace.SpanContextFromContext(ctx)
	}
	return c.caller
}

// Waits begins a possible wait for room, which WaitsNoMore ends.
func (c *Call) Waits() {
	if c != nil {
		c.room = time.Now()
	}
}

// WaitsNoMore ends a wait for room.
func (c *Call) WaitsNoMore() {
	if c != nil {
		c.waited += time.Since(c.room)
	}
}

// Took notes that rows of the call were accepted for a sink.
func (c *Call) Took(sinkID string, at time.Time) {
	if c == nil {
		return
	}
	if span := c.span.SpanContext(); span.IsSampled() {
		c.spans.calls(sinkID).add(at, span)
	}
}

// Commit begins the wait for the disk. The returned function ends it.
func (c *Call) Commit() func(error) {
	if c == nil {
		return func(error) {}
	}
	_, span := c.spans.tracer.Start(c.ctx, "forebay.commit")
	return func(err error) {
		fail(span, err)
		span.End()
	}
}

// Summary is the end of a call, as its span shows it.
type Summary struct {
	// Records is the number of records of the call, Rejected how many of them were rejected if the call tells it.
	Records, Rejected int
	// Sinks are the ids of the sinks that the call was for.
	Sinks []string
	// Word is the outcome in one word.
	Word string
	// Err is the error of the call.
	Err error
}

// End ends the span of a call.
func (c *Call) End(o Summary) {
	if c == nil {
		return
	}
	if o.Rejected > 0 {
		c.span.SetAttributes(attribute.String("forebay.rejected", fmt.Sprint(o.Rejected, " of ", o.Records)))
	}
	c.span.SetAttributes(attribute.Int("forebay.records", o.Records), attribute.StringSlice("forebay.sinks", o.Sinks), attribute.String("forebay.outcome", o.Word))
	if c.waited > 0 {
		c.span.SetAttributes(attribute.Float64("forebay.room.wait", c.waited.Seconds()))
	}
	fail(c.span, o.Err)
	c.span.End()
}
