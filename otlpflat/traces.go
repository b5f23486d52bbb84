package otlpflat

import (
	"cmp"
	"iter"
	"strconv"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay/internal/members"
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
			d.setResource(resourceOf(r.Resource(), r.SchemaUrl()))
			scopes := r.ScopeSpans()
			for k := range scopes.Len() {
				s := scopes.At(k)
				d.setScope(scopeOf(s.Scope(), s.SchemaUrl()))
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

// The members of a span by number. sharedMembers follow.
const (
	spanStart = iota + 1
	spanEnd
	spanTraceID
	spanID
	spanParent
	spanTraceState
	spanName
	spanKind
	spanFlags
	spanStatusCode
	spanStatusMessage
	spanAttributes
	spanEvents
	spanLinks
	spanDuration
	spanDroppedAttributes
	spanDroppedEvents
	spanDroppedLinks
	spanShared
)

var spanLayout = newLayout(spanEnd, "timestamp", "end_timestamp", "trace_id", "span_id", "parent_span_id", "trace_state", "name", "kind", "flags",
	"status_code", "status_message", "attributes", "events", "links", "duration_ns", "dropped_attributes_count", "dropped_events_count", "dropped_links_count")

func (d *spanDocument) Layout() *members.Layout { return spanLayout }

// Nanos returns a member that is a time.
func (d *spanDocument) Nanos(number int) uint64 {
	if number == spanStart {
		return uint64(d.span.StartTimestamp())
	}
	return uint64(d.span.EndTimestamp())
}

// AppendMember is AppendField for the path to a member.
func (d *spanDocument) AppendMember(dst []byte, number int) ([]byte, mapping.FieldKind) {
	d.w.startMember(dst)
	d.member(number)
	return d.w.dst, d.w.kind
}

func (d *spanDocument) write() {
	d.w.root()
	for n := spanStart; n <= spanLinks && !d.w.done; n++ {
		d.member(n)
	}
	if d.w.done { // most paths end above
		return
	}
	d.writeGroup(&d.w)
	if d.w.done {
		return
	}
	for n := spanDuration; n < spanShared; n++ {
		d.member(n)
	}
	d.writeEnd(&d.w)
}

func (d *spanDocument) member(number int) {
	w, s := &d.w, d.span
	switch number {
	case spanStart:
		w.memberTime("timestamp", s.StartTimestamp())
	case spanEnd:
		w.memberTime("end_timestamp", s.EndTimestamp())
	case spanTraceID:
		id := s.TraceID()
		w.memberID("trace_id", id[:])
	case spanID:
		id := s.SpanID()
		w.memberID("span_id", id[:])
	case spanParent:
		id := s.ParentSpanID()
		w.optionalID("parent_span_id", id[:])
	case spanTraceState:
		w.memberText("trace_state", s.TraceState().AsRaw())
	case spanName:
		w.memberText("name", s.Name())
	case spanKind:
		if w.member("kind") {
			w.plain(enum(s.Kind().String(), int32(s.Kind())))
		}
	case spanFlags:
		w.memberUint("flags", uint64(s.Flags()))
	case spanStatusCode:
		if w.member("status_code") {
			w.plain(enum(s.Status().Code().String(), int32(s.Status().Code())))
		}
	case spanStatusMessage:
		w.memberText("status_message", s.Status().Message())
	case spanAttributes:
		w.memberMap("attributes", s.Attributes())
	case spanEvents:
		if w.member("events") {
			array(w, s.Events(), (*writer).event)
		}
	case spanLinks:
		if w.member("links") {
			array(w, s.Links(), (*writer).link)
		}
	case spanDuration:
		if start, end := s.StartTimestamp(), s.EndTimestamp(); start != 0 && end >= start {
			w.memberUint("duration_ns", uint64(end-start))
		}
	case spanDroppedAttributes:
		w.dropped("dropped_attributes_count", s.DroppedAttributesCount())
	case spanDroppedEvents:
		w.dropped("dropped_events_count", s.DroppedEventsCount())
	case spanDroppedLinks:
		w.dropped("dropped_links_count", s.DroppedLinksCount())
	default:
		d.writeShared(w, number-spanShared)
	}
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
	w.memberMap("attributes", e.Attributes())
	w.dropped("dropped_attributes_count", e.DroppedAttributesCount())
	w.close(c, '}')
}

func (w *writer) link(l ptrace.SpanLink) {
	c := w.open('{')
	trace, span := l.TraceID(), l.SpanID()
	w.memberID("trace_id", trace[:])
	w.memberID("span_id", span[:])
	w.memberText("trace_state", l.TraceState().AsRaw())
	w.memberMap("attributes", l.Attributes())
	w.memberUint("flags", uint64(l.Flags()))
	w.dropped("dropped_attributes_count", l.DroppedAttributesCount())
	w.close(c, '}')
}
