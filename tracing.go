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
)

// tracing makes the spans of [Options.Tracer]. Calls are recent while their rows may not be imported yet. Uploads and imports find them by sink and time.
type tracing struct {
	tracer trace.Tracer
	recent sync.Map // *recentCalls by name of the sink in the buffer
}

const (
	// maxRecentCalls limits the sampled calls of a sink that uploads and imports can be linked to. Older calls are forgotten.
	maxRecentCalls = 256
	// maxLinks bounds the links of a span. With more calls, the links are spread evenly over them.
	maxLinks = 32
)

// recentCalls are the last sampled calls that have put rows into a sink.
type recentCalls struct {
	mu    sync.Mutex
	calls []recentCall // a ring once it is full
	next  int
}

type recentCall struct {
	at   int64 // when its rows were accepted, in Unix milliseconds
	span trace.SpanContext
}

func (r *recentCalls) add(at time.Time, span trace.SpanContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := recentCall{at.UnixMilli(), span}
	if len(r.calls) < maxRecentCalls {
		r.calls = append(r.calls, call)
		return
	}
	r.calls[r.next] = call
	r.next = (r.next + 1) % maxRecentCalls
}

// links returns links to calls whose rows were accepted between two times, at most maxLinks, and how many calls there are.
func (r *recentCalls) links(first, last time.Time) (links []trace.Link, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.calls {
		c := &r.calls[(r.next+i)%len(r.calls)]
		if c.at < first.UnixMilli() || c.at > last.UnixMilli() {
			continue
		}
		if calls++; calls <= maxRecentCalls {
			links = append(links, trace.Link{SpanContext: c.span})
		}
	}
	if len(links) > maxLinks {
		for i := range maxLinks {
			links[i] = links[i*len(links)/maxLinks]
		}
		links = links[:maxLinks]
	}
	return links, calls
}

// driverCall makes the span of an upload or import that has ended.
func (t *tracing) driverCall(e buffer.DriverEvent) {
	if e.Step != "upload" && e.Step != "import" {
		return
	}
	end := time.Now()
	source, sink, _ := strings.Cut(e.SinkID, "/")
	links, calls := load[recentCalls](&t.recent, e.SinkID).links(e.FirstAt, e.LastAt)
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
	waited time.Duration // for room
	room   time.Time     // when the current wait began
}

// traced returns the intake of one call with its span.
func (in Intake) traced(ctx context.Context, sourceID string) (context.Context, Intake) {
	t := in.engine.tracing
	if t == nil {
		return ctx, in
	}
	s := &callSpan{tracing: t}
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
		load[recentCalls](&s.recent, sinkID).add(at, c)
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

// endResults is end for the results of records: the outcome is the worst of them.
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
