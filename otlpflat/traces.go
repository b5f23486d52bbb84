package otlpflat

import (
	"cmp"
	"iter"
	"strconv"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay/internal/members"
	"github.com/forebay/forebay/mapping"
)

// Traces returns the spans of a batch, one document each, in the order of the batch. Events and links are arrays in the document of their span. It
// reads the encoded form of the batch, which it makes first, so the batch may change afterwards. A document is valid until the next one is yielded.
func Traces(batch ptrace.Traces) iter.Seq[mapping.FieldDocument] {
	request, _ := (&ptrace.ProtoMarshaler{}).MarshalTraces(batch) // always nil
	return traces(string(request))
}

// EncodedTraces is [EncodedLogs] for the spans of an encoded ExportTraceServiceRequest and [Traces].
func EncodedTraces(request []byte) (docs iter.Seq[mapping.FieldDocument], records int, ok bool) {
	text := string(request)
	if !usualTraces.usual(text) {
		return nil, 0, false
	}
	new(group).records(text, func(string) bool { records++; return true })
	return traces(text), records, true
}

func traces(request string) iter.Seq[mapping.FieldDocument] {
	return func(yield func(mapping.FieldDocument) bool) {
		d := new(spanDocument)
		d.record = d
		d.records(request, func(record string) bool {
			d.span.read(record)
			return yield(d)
		})
	}
}

type spanDocument struct {
	group
	span span
}

// span has the written fields of a span.
type span struct {
	trace, id, parent           string
	state, name                 string
	kind                        int32
	flags                       uint32
	start, end                  uint64
	attributes, events, links   fields
	dropped                     uint32
	droppedEvents, droppedLinks uint32
	code                        int32
	message                     string
}

const (
	tagSpanTraceID       = 1<<3 | content
	tagSpanSpanID        = 2<<3 | content
	tagSpanState         = 3<<3 | content
	tagSpanParent        = 4<<3 | content
	tagSpanName          = 5<<3 | content
	tagSpanKind          = 6<<3 | varint
	tagSpanStart         = 7<<3 | fixed64
	tagSpanEnd           = 8<<3 | fixed64
	tagSpanAttribute     = 9<<3 | content
	tagSpanDropped       = 10<<3 | varint
	tagSpanEvent         = 11<<3 | content
	tagSpanDroppedEvents = 12<<3 | varint
	tagSpanLink          = 13<<3 | content
	tagSpanDroppedLinks  = 14<<3 | varint
	tagSpanStatus        = 15<<3 | content
	tagSpanFlags         = 16<<3 | fixed32

	tagStatusMessage = 2<<3 | content
	tagStatusCode    = 3<<3 | varint

	tagEventTime      = 1<<3 | fixed64
	tagEventSpanName  = 2<<3 | content
	tagEventAttribute = 3<<3 | content
	tagEventDropped   = 4<<3 | varint

	tagLinkTraceID   = 1<<3 | content
	tagLinkSpanID    = 2<<3 | content
	tagLinkState     = 3<<3 | content
	tagLinkAttribute = 4<<3 | content
	tagLinkDropped   = 5<<3 | varint
	tagLinkFlags     = 6<<3 | fixed32
)

var usualTraces = func() *message {
	status := once(messageOf(), tagStatusMessage, tagStatusCode)
	event := once(messageOf(list(tagEventAttribute, usualAttribute)), tagEventTime, tagEventSpanName, tagEventDropped)
	link := once(messageOf(list(tagLinkAttribute, usualAttribute), field(tagLinkTraceID, usualTraceID), field(tagLinkSpanID, usualSpanID)),
		tagLinkState, tagLinkDropped, tagLinkFlags)
	return usualRequest(once(messageOf(field(tagSpanTraceID, usualTraceID), field(tagSpanSpanID, usualSpanID), field(tagSpanParent, usualSpanID),
		list(tagSpanAttribute, usualAttribute), list(tagSpanEvent, event.usual), list(tagSpanLink, link.usual), field(tagSpanStatus, status.usual)),
		tagSpanState, tagSpanName, tagSpanKind, tagSpanStart, tagSpanEnd, tagSpanDropped, tagSpanDroppedEvents, tagSpanDroppedLinks, tagSpanFlags))
}()

func (r *span) read(s string) {
	*r = span{attributes: fields{tag: tagSpanAttribute}, events: fields{tag: tagSpanEvent}, links: fields{tag: tagSpanLink}}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagSpanTraceID:
			r.trace = p.content
		case tagSpanSpanID:
			r.id = p.content
		case tagSpanState:
			r.state = p.content
		case tagSpanParent:
			r.parent = p.content
		case tagSpanName:
			r.name = p.content
		case tagSpanKind:
			r.kind = int32(p.number)
		case tagSpanStart:
			r.start = p.number
		case tagSpanEnd:
			r.end = p.number
		case tagSpanAttribute:
			r.attributes.add(s)
		case tagSpanDropped:
			r.dropped = uint32(p.number)
		case tagSpanEvent:
			r.events.add(s)
		case tagSpanDroppedEvents:
			r.droppedEvents = uint32(p.number)
		case tagSpanLink:
			r.links.add(s)
		case tagSpanDroppedLinks:
			r.droppedLinks = uint32(p.number)
		case tagSpanStatus:
			for s := p.content; s != ""; {
				if p, s, _ = cut(s); p.tag == tagStatusMessage {
					r.message = p.content
				} else if p.tag == tagStatusCode {
					r.code = int32(p.number)
				}
			}
		case tagSpanFlags:
			r.flags = uint32(p.number)
		}
		s = rest
	}
}

// At returns when the span ended or, without that, when it started, in Unix nanoseconds; 0 if neither is set.
func (d *spanDocument) At() uint64 {
	return cmp.Or(d.span.end, d.span.start)
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
		return d.span.start
	}
	return d.span.end
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
	w, s := &d.w, &d.span
	switch number {
	case spanStart:
		w.memberTime("timestamp", s.start)
	case spanEnd:
		w.memberTime("end_timestamp", s.end)
	case spanTraceID:
		w.memberID("trace_id", s.trace)
	case spanID:
		w.memberID("span_id", s.id)
	case spanParent:
		w.optionalID("parent_span_id", s.parent)
	case spanTraceState:
		w.memberText("trace_state", s.state)
	case spanName:
		w.memberText("name", s.name)
	case spanKind:
		if w.member("kind") {
			w.plain(enum(ptrace.SpanKind(s.kind).String(), s.kind))
		}
	case spanFlags:
		w.memberUint("flags", uint64(s.flags))
	case spanStatusCode:
		if w.member("status_code") {
			w.plain(enum(ptrace.StatusCode(s.code).String(), s.code))
		}
	case spanStatusMessage:
		w.memberText("status_message", s.message)
	case spanAttributes:
		w.memberAttributes("attributes", s.attributes)
	case spanEvents:
		if w.member("events") {
			w.array(s.events, (*writer).event)
		}
	case spanLinks:
		if w.member("links") {
			w.array(s.links, (*writer).link)
		}
	case spanDuration:
		if s.start != 0 && s.end >= s.start {
			w.memberUint("duration_ns", s.end-s.start)
		}
	case spanDroppedAttributes:
		w.dropped("dropped_attributes_count", s.dropped)
	case spanDroppedEvents:
		w.dropped("dropped_events_count", s.droppedEvents)
	case spanDroppedLinks:
		w.dropped("dropped_links_count", s.droppedLinks)
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

func (w *writer) event(s string) {
	var time uint64
	var name string
	attributes, dropped := fields{tag: tagEventAttribute}, uint32(0)
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagEventTime:
			time = p.number
		case tagEventSpanName:
			name = p.content
		case tagEventAttribute:
			attributes.add(s)
		case tagEventDropped:
			dropped = uint32(p.number)
		}
		s = rest
	}
	c := w.open('{')
	w.memberTime("timestamp", time)
	w.memberText("name", name)
	w.memberAttributes("attributes", attributes)
	w.dropped("dropped_attributes_count", dropped)
	w.close(c, '}')
}

func (w *writer) link(s string) {
	var trace, span, state string
	var flags, dropped uint32
	attributes := fields{tag: tagLinkAttribute}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagLinkTraceID:
			trace = p.content
		case tagLinkSpanID:
			span = p.content
		case tagLinkState:
			state = p.content
		case tagLinkAttribute:
			attributes.add(s)
		case tagLinkDropped:
			dropped = uint32(p.number)
		case tagLinkFlags:
			flags = uint32(p.number)
		}
		s = rest
	}
	c := w.open('{')
	w.memberID("trace_id", trace)
	w.memberID("span_id", span)
	w.memberText("trace_state", state)
	w.memberAttributes("attributes", attributes)
	w.memberUint("flags", uint64(flags))
	w.dropped("dropped_attributes_count", dropped)
	w.close(c, '}')
}
