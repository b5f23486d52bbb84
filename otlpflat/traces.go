package otlpflat

import (
	"cmp"
	"iter"
	"strconv"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay/mapping"
)

// Traces returns the spans of a batch, one document each, in the order of the batch. Events and links are arrays in the
// document of their span. A document is valid until the next one is yielded.
func Traces(batch ptrace.Traces) iter.Seq[mapping.FieldDocument] {
	return func(yield func(mapping.FieldDocument) bool) {
		d := new(spanDocument)
		d.record = d
		resources := batch.ResourceSpans()
		for i := range resources.Len() {
			r := resources.At(i)
			d.setResource(r.Resource(), r.SchemaUrl())
			scopes := r.ScopeSpans()
			for k := range scopes.Len() {
				s := scopes.At(k)
				d.setScope(s.Scope(), s.SchemaUrl())
				spans := s.Spans()
				for n := range spans.Len() {
					d.span = spans.At(n)
					if !yield(d) {
						return
					}
				}
			}
		}
	}
}

type spanDocument struct {
	group
	span ptrace.Span
}

// At returns when the span ended or, without that, when it started, in Unix nanoseconds; 0 if neither is set.
func (d *spanDocument) At() uint64 {
	return uint64(cmp.Or(d.span.EndTimestamp(), d.span.StartTimestamp()))
}

func (d *spanDocument) write() {
	w, s := &d.w, d.span
	w.root()
	w.memberTime("timestamp", s.StartTimestamp())
	w.memberTime("end_timestamp", s.EndTimestamp())
	trace, id, parent := s.TraceID(), s.SpanID(), s.ParentSpanID()
	w.memberID("trace_id", trace[:])
	w.memberID("span_id", id[:])
	w.optionalID("parent_span_id", parent[:])
	w.memberText("trace_state", s.TraceState().AsRaw())
	w.memberText("name", s.Name())
	if w.member("kind") {
		w.plain(enum(s.Kind().String(), int32(s.Kind())))
	}
	w.memberUint("flags", uint64(s.Flags()))
	if w.done { // most paths end above
		return
	}
	if w.member("status_code") {
		w.plain(enum(s.Status().Code().String(), int32(s.Status().Code())))
	}
	w.memberText("status_message", s.Status().Message())
	w.memberAttributes("attributes", s.Attributes())
	if w.done {
		return
	}
	if w.member("events") {
		array(w, s.Events(), (*writer).event)
	}
	if w.member("links") {
		array(w, s.Links(), (*writer).link)
	}
	d.writeGroup(w)
	if w.done {
		return
	}
	if start, end := s.StartTimestamp(), s.EndTimestamp(); start != 0 && end >= start {
		w.memberUint("duration_ns", uint64(end-start))
	}
	w.dropped("dropped_attributes_count", s.DroppedAttributesCount())
	w.dropped("dropped_events_count", s.DroppedEventsCount())
	w.dropped("dropped_links_count", s.DroppedLinksCount())
	d.writeEnd(w)
}

// enum returns the name of a value, or the number of a value that has no name yet.
func enum(name string, value int32) string {
	if name == "" {
		return strconv.Itoa(int(value))
	}
	return name
}

func (w *writer) event(e ptrace.SpanEvent) {
	c := w.open('{')
	w.memberTime("timestamp", e.Timestamp())
	w.memberText("name", e.Name())
	w.memberAttributes("attributes", e.Attributes())
	w.dropped("dropped_attributes_count", e.DroppedAttributesCount())
	w.close(c, '}')
}

func (w *writer) link(l ptrace.SpanLink) {
	c := w.open('{')
	trace, span := l.TraceID(), l.SpanID()
	w.memberID("trace_id", trace[:])
	w.memberID("span_id", span[:])
	w.memberText("trace_state", l.TraceState().AsRaw())
	w.memberAttributes("attributes", l.Attributes())
	w.memberUint("flags", uint64(l.Flags()))
	w.dropped("dropped_attributes_count", l.DroppedAttributesCount())
	w.close(c, '}')
}
