package forebay

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay/internal/callspans"
)

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
	var list []TracedCall
	for at, span := range h.e.spans.Recent(h.id()) {
		list = append(list, TracedCall{At: at, Span: span})
	}
	return list
}

// traced returns the intake of one call with its span.
func (in Intake) traced(ctx context.Context, sourceID string) (context.Context, Intake) {
	ctx, in.span = in.engine.spans.Begin(ctx, sourceID)
	return ctx, in
}

// endResults ends the span of a call with the results of its records. The outcome is the worst of them.
func (in Intake) endResults(results []Result, err error) {
	if in.span == nil {
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
	in.span.End(callspans.Outcome{Records: len(results), Sinks: sinks, Word: outcome, Err: err})
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

// endBatch ends the span of a batch that was stored together.
func (in Intake) endBatch(res BatchResult, source *source, err error) {
	if in.span == nil {
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
	in.span.End(callspans.Outcome{Records: res.Records, Rejected: res.Rejected, Sinks: sinks, Word: outcome, Err: err})
}
