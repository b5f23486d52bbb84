// Package spantest has a tracer for tests that keeps its spans in memory.
package spantest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracer keeps its spans. It is safe for concurrent use.
type Tracer struct {
	embedded.Tracer
	// Unsampled spans are not sampled.
	Unsampled atomic.Bool
	mu        sync.Mutex
	all       []*Span
}

// Span is a span of a [Tracer]. Read its fields after the calls that make it.
type Span struct {
	noop.Span
	of *Tracer
	// Name, Links and Attributes are as in the call of Start. Attributes that were set later are added.
	Name       string
	Links      []trace.Link
	Attributes map[attribute.Key]attribute.Value
	// Context names the span, and Parent its parent. Parent is not valid if there is none.
	Context, Parent trace.SpanContext
	// Status is the last one that was set.
	Status codes.Code
	// Begin and Ended are zero if the caller left them to the tracer. Ends is how often End was called.
	Begin, Ended time.Time
	Ends         int
}

// Start implements [trace.Tracer].
func (t *Tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(opts...)
	s := &Span{of: t, Name: name, Links: c.Links(), Attributes: make(map[attribute.Key]attribute.Value), Begin: c.Timestamp()}
	if !c.NewRoot() {
		s.Parent = trace.SpanContextFromContext(ctx)
	}
	s.set(c.Attributes())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, s)
	config := trace.SpanContextConfig{TraceID: s.Parent.TraceID()}
	if !config.TraceID.IsValid() {
		binary.BigEndian.PutUint64(config.TraceID[:], uint64(len(t.all)))
	}
	binary.BigEndian.PutUint64(config.SpanID[:], uint64(len(t.all)))
	if !t.Unsampled.Load() {
		config.TraceFlags = trace.FlagsSampled
	}
	s.Context = trace.NewSpanContext(config)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *Span) set(list []attribute.KeyValue) {
	for _, a := range list {
		s.Attributes[a.Key] = a.Value
	}
}

// SpanContext implements [trace.Span].
func (s *Span) SpanContext() trace.SpanContext { return s.Context }

// SetAttributes implements [trace.Span].
func (s *Span) SetAttributes(list ...attribute.KeyValue) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.set(list)
}

// SetStatus implements [trace.Span].
func (s *Span) SetStatus(c codes.Code, _ string) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.Status = c
}

// End implements [trace.Span].
func (s *Span) End(opts ...trace.SpanEndOption) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.Ends++
	config := trace.NewSpanEndConfig(opts...)
	s.Ended = config.Timestamp()
}

// All returns the spans in the order of their starts.
func (t *Tracer) All() []*Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}

// Named returns the spans of a name.
func (t *Tracer) Named(name string) (list []*Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.all {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}

// String names the span, for messages of tests.
func (s *Span) String() string {
	return fmt.Sprintf("%s %v status %v links %d ends %d", s.Name, s.Attributes, s.Status, len(s.Links), s.Ends)
}
