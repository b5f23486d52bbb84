package callspans

import (
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/spantest"
	"github.com/forebay/forebay/internal/synctest"
)

// Without a tracer all methods do nothing.
func TestWithoutATracer(t *testing.T) {
	s := New(nil)
	ctx, c := s.Begin(t.Context(), "web")
	if s != nil || c != nil || ctx != t.Context() {
		t.Fatalf("without a tracer there are spans %v and the call %v, want none and the context of the caller", s, c)
	}
	c.Waits()
	c.WaitsNoMore()
	c.Took("web/events", time.Now())
	c.Commit()(nil)
	c.End(Summary{})
	s.DriverCall(buffer.DriverEvent{Step: "import"})
	s.Forget("web/events")
	for range s.Recent("web/events") {
		t.Error("a call is recent without a tracer")
	}
	if n := s.Sinks(); n != 0 || c.Caller(ctx).IsValid() {
		t.Errorf("%d sinks have recent calls and the caller is %v, want none", n, c.Caller(ctx))
	}
}

func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer := new(spantest.Tracer)
		s := New(tracer)
		outer, parent := tracer.Start(t.Context(), "request")
		ctx, c := s.Begin(outer, "web")
		if got := c.Caller(ctx); !got.Equal(parent.SpanContext()) {
			t.Errorf("the caller is %v, want %v", got, parent.SpanContext())
		}
		c.Waits()
		time.Sleep(time.Second)
		c.WaitsNoMore()
		c.Commit()(errors.New("the disk failed"))
		c.End(Summary{Records: 3, Rejected: 2, Sinks: []string{"events"}, Word: "rejected"})
		span, commit := tracer.Named("forebay.ingest")[0], tracer.Named("forebay.commit")[0]
		want := map[attribute.Key]attribute.Value{
			"forebay.source": attribute.StringValue("web"), "forebay.records": attribute.IntValue(3), "forebay.rejected": attribute.StringValue("2 of 3"),
			"forebay.sinks": attribute.StringSliceValue([]string{"events"}), "forebay.outcome": attribute.StringValue("rejected"),
			"forebay.room.wait": attribute.Float64Value(1),
		}
		if len(span.Attributes) != len(want) {
			t.Errorf("the span has the attributes %v, want %v", span.Attributes, want)
		}
		for k, v := range want {
			if got := span.Attributes[k]; got.String() != v.String() {
				t.Errorf("the span has %s = %s, want %s", k, got.String(), v.String())
			}
		}
		if span.Status != codes.Unset || commit.Status != codes.Error || span.Ends != 1 || commit.Ends != 1 || !commit.Parent.Equal(span.Context) {
			t.Errorf("the span of the call is %v, and of its commit %v; want each ended once, and the commit failed below the call", span, commit)
		}
	})
}

// An import links to the sampled calls of its sink that were accepted in the time of its rows, until the sink is forgotten.
func TestDriverCall(t *testing.T) {
	tracer := new(spantest.Tracer)
	s := New(tracer)
	at := time.Now()
	took := func(sink string, at time.Time) {
		_, c := s.Begin(t.Context(), "web")
		c.Took(sink, at)
		c.End(Summary{})
	}
	for i := range maxCalls + 10 { // the first ones are forgotten
		took("web/events", at.Add(time.Duration(i)*time.Second))
	}
	took("web/other", at)
	tracer.Unsampled.Store(true)
	took("web/events", at)
	tracer.Unsampled.Store(false)
	for n, c := range []struct {
		sink         string
		first, last  int // seconds after at
		links, calls int // calls is the attribute
	}{{"web/events", 0, 9, 0, 0}, {"web/events", 9, 12, 3, 0}, {"web/events", 0, 1000, maxLinks, maxCalls}, {"web/other", 0, 0, 1, 0}} {
		s.DriverCall(buffer.DriverEvent{
			Step: "import", SinkID: c.sink, FirstAt: at.Add(time.Duration(c.first) * time.Second), LastAt: at.Add(time.Duration(c.last) * time.Second),
		})
		span := tracer.Named("forebay.import")[n]
		if linked := span.Attributes["forebay.linked_of"]; len(span.Links) != c.links || int(linked.AsInt64()) != c.calls {
			t.Errorf("%+v: got %d links of %d, want %d of %d", c, len(span.Links), linked.AsInt64(), c.links, c.calls)
		}
	}
	s.DriverCall(buffer.DriverEvent{Step: "cleanup", SinkID: "web/events"})
	if n := len(tracer.Named("forebay.cleanup")); n > 0 {
		t.Errorf("a clean-up has %d spans, want none", n)
	}
	if n := s.Sinks(); n != 2 {
		t.Errorf("%d sinks have recent calls, want 2", n)
	}
	s.Forget("web/events")
	for range s.Recent("web/events") {
		t.Error("a forgotten sink has a recent call")
	}
}
