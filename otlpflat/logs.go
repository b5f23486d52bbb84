package otlpflat

import (
	"cmp"
	"iter"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/internal/members"
	"github.com/forebay/forebay/mapping"
)

// Logs returns the log records of a batch, one document each, in the order of the batch. It reads the encoded form of the batch, which it makes first,
// so the batch may change afterwards. A document is valid until the next one is yielded.
func Logs(batch plog.Logs) iter.Seq[mapping.FieldDocument] {
	request, _ := (&plog.ProtoMarshaler{}).MarshalLogs(batch) // always nil, see the encoder of pdata
	return logs(string(request))
}

// EncodedLogs returns the records of an encoded ExportLogsServiceRequest, as [Logs] returns them for the request decoded by pdata, and their
// number. It reads them from one copy of the request, which takes a fraction of the time and no memory for each record.
//
// ok is false for a request that pdata refuses, and for one with anything that exporters do not usually send, that is a field that pdata does not
// know, or one that is set twice. Such a request is for pdata, which decides its meaning.
func EncodedLogs(request []byte) (docs iter.Seq[mapping.FieldDocument], records int, ok bool) {
	text := string(request)
	if !usualLogs.usual(text) {
		return nil, 0, false
	}
	new(group).records(text, func(string) bool { records++; return true })
	return logs(text), records, true
}

func logs(request string) iter.Seq[mapping.FieldDocument] {
	return func(yield func(mapping.FieldDocument) bool) {
		d := new(logDocument)
		d.record = d
		d.records(request, func(record string) bool {
			d.log.read(record)
			return yield(d)
		})
	}
}

type logDocument struct {
	group
	log logRecord
}

// logRecord has the written fields of a record.
type logRecord struct {
	time, observed          uint64
	severityNumber          int32
	flags, dropped          uint32
	severityText, eventName string
	body                    string
	attributes              fields
	trace, span             string
}

const (
	tagTime           = 1<<3 | fixed64
	tagSeverityNumber = 2<<3 | varint
	tagSeverityText   = 3<<3 | content
	tagBody           = 5<<3 | content
	tagAttribute      = 6<<3 | content
	tagDropped        = 7<<3 | varint
	tagFlags          = 8<<3 | fixed32
	tagTraceID        = 9<<3 | content
	tagSpanID         = 10<<3 | content
	tagObserved       = 11<<3 | fixed64
	tagEventName      = 12<<3 | content
)

var usualLogs = usualRequest(once(messageOf(list(tagAttribute, usualAttribute), field(tagBody, usualValue), field(tagTraceID, usualTraceID), field(tagSpanID, usualSpanID)),
	tagTime, tagSeverityNumber, tagSeverityText, tagDropped, tagFlags, tagObserved, tagEventName))

func (r *logRecord) read(s string) {
	*r = logRecord{attributes: fields{tag: tagAttribute}}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagTime:
			r.time = p.number
		case tagObserved:
			r.observed = p.number
		case tagSeverityNumber:
			r.severityNumber = int32(p.number)
		case tagSeverityText:
			r.severityText = p.content
		case tagBody:
			r.body = p.content
		case tagAttribute:
			r.attributes.add(s)
		case tagDropped:
			r.dropped = uint32(p.number)
		case tagFlags:
			r.flags = uint32(p.number)
		case tagTraceID:
			r.trace = p.content
		case tagSpanID:
			r.span = p.content
		case tagEventName:
			r.eventName = p.content
		}
		s = rest
	}
}

// At returns when the record happened or, without that, when it was observed, in Unix nanoseconds; 0 if neither is set.
func (d *logDocument) At() uint64 { return cmp.Or(d.log.time, d.log.observed) }

// The members of a log record by number. sharedMembers follow.
const (
	logTimestamp = iota + 1
	logObserved
	logSeverityNumber
	logSeverityText
	logBody
	logFlags
	logTraceID
	logSpanID
	logAttributes
	logEventName
	logDropped
	logShared
)

var logLayout = newLayout(logObserved, "timestamp", "observed_timestamp", "severity_number", "severity_text", "body", "flags", "trace_id", "span_id",
	"attributes", "event_name", "dropped_attributes_count")

func (d *logDocument) Layout() *members.Layout { return logLayout }

// Nanos returns a member that is a time.
func (d *logDocument) Nanos(number int) uint64 {
	if number == logTimestamp {
		return d.log.time
	}
	return d.log.observed
}

// AppendMember is AppendField for the path to a member.
func (d *logDocument) AppendMember(dst []byte, number int) ([]byte, mapping.FieldKind) {
	d.w.startMember(dst)
	d.member(number)
	return d.w.dst, d.w.kind
}

func (d *logDocument) write() {
	d.w.root()
	for n := logTimestamp; n <= logAttributes && !d.w.done; n++ {
		d.member(n)
	}
	if d.w.done { // most paths end above
		return
	}
	d.writeGroup(&d.w)
	if d.w.done {
		return
	}
	d.member(logEventName)
	d.member(logDropped)
	d.writeEnd(&d.w)
}

func (d *logDocument) member(number int) {
	w, r := &d.w, &d.log
	switch number {
	case logTimestamp:
		w.memberTime("timestamp", r.time)
	case logObserved:
		w.memberTime("observed_timestamp", r.observed)
	case logSeverityNumber:
		if w.member("severity_number") {
			w.int(int64(r.severityNumber))
		}
	case logSeverityText:
		w.memberText("severity_text", r.severityText)
	case logBody:
		if w.member("body") {
			w.value(r.body)
		}
	case logFlags:
		w.memberUint("flags", uint64(r.flags))
	case logTraceID:
		w.optionalID("trace_id", r.trace)
	case logSpanID:
		w.optionalID("span_id", r.span)
	case logAttributes:
		w.memberAttributes("attributes", r.attributes)
	case logEventName:
		w.optionalText("event_name", r.eventName)
	case logDropped:
		w.dropped("dropped_attributes_count", r.dropped)
	default:
		d.writeShared(w, number-logShared)
	}
}
