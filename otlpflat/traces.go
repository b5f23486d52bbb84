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
	w    writer
	span ptrace.Span
}

// AppendJSON implements [mapping.Document].
func (d *spanDocument) AppendJSON(dst []byte) ([]byte, error) {
	d.w.startWrite(dst)
	d.write()
	return append(d.w.dst, '}'), nil
}

// AppendField implements [mapping.FieldDocument].
func (d *spanDocument) AppendField(dst []byte, path mapping.FieldPath) ([]byte, mapping.FieldKind) {
	d.w.startSeek(dst, path)
	d.write()
	return d.w.dst, d.w.kind
}

// At returns when the span ended or, without that, when it started, in Unix nanoseconds; 0 if neither is set.
func (d *spanDocument) At() uint64 {
	return uint64(cmp.Or(d.span.EndTimestamp(), d.span.StartTimestamp()))
}

func (d *spanDocument) write() {
	w, s := &d.w, d.span
	w.root()
	if w.member("timestamp") {
		w.time(s.StartTimestamp())
	}
	if w.member("end_timestamp") {
		w.time(s.EndTimestamp())
	}
	if w.member("trace_id") {
		w.traceID(s.TraceID())
	}
	if w.member("span_id") {
		w.spanID(s.SpanID())
	}
	if id := s.ParentSpanID(); !id.IsEmpty() && w.member("parent_span_id") {
		w.spanID(id)
	}
	if w.member("trace_state") {
		w.text(s.TraceState().AsRaw())
	}
	if w.member("name") {
		w.text(s.Name())
	}
	if w.member("kind") {
		w.plain(enum(s.Kind().String(), int32(s.Kind())))
	}
	if w.member("flags") {
		w.uint(uint64(s.Flags()))
	}
	if w.done { // most paths end above
		return
	}
	if w.member("status_code") {
		w.plain(enum(s.Status().Code().String(), int32(s.Status().Code())))
	}
	if w.member("status_message") {
		w.text(s.Status().Message())
	}
	if w.member("attributes") {
		w.attributes(s.Attributes())
	}
	if w.done {
		return
	}
	if w.member("events") {
		w.events(s.Events())
	}
	if w.member("links") {
		w.links(s.Links())
	}
	d.group.write(w)
	if w.done {
		return
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

func (w *writer) events(events ptrace.SpanEventSlice) {
	array := w.open('[')
	from, to := w.elements(events.Len())
	for i := from; i < to; i++ {
		w.element(i)
		e := events.At(i)
		c := w.open('{')
		if w.member("timestamp") {
			w.time(e.Timestamp())
		}
		if w.member("name") {
			w.text(e.Name())
		}
		if w.member("attributes") {
			w.attributes(e.Attributes())
		}
		w.dropped("dropped_attributes_count", e.DroppedAttributesCount())
		w.close(c, '}')
	}
	w.close(array, ']')
}

func (w *writer) links(links ptrace.SpanLinkSlice) {
	array := w.open('[')
	from, to := w.elements(links.Len())
	for i := from; i < to; i++ {
		w.element(i)
		l := links.At(i)
		c := w.open('{')
		if w.member("trace_id") {
			w.traceID(l.TraceID())
		}
		if w.member("span_id") {
			w.spanID(l.SpanID())
		}
		if w.member("trace_state") {
			w.text(l.TraceState().AsRaw())
		}
		if w.member("attributes") {
			w.attributes(l.Attributes())
		}
		if w.member("flags") {
			w.uint(uint64(l.Flags()))
		}
		w.dropped("dropped_attributes_count", l.DroppedAttributesCount())
		w.close(c, '}')
	}
	w.close(array, ']')
}
