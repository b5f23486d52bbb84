package otlpflat

import (
	"cmp"
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/internal/members"
	"github.com/forebay/forebay/mapping"
)

// Logs returns the log records of a batch, one document each, in the order of the batch. A document is valid until the next
// one is yielded.
func Logs(batch plog.Logs) iter.Seq[mapping.FieldDocument] {
	return func(yield func(mapping.FieldDocument) bool) {
		d := new(logDocument)
		d.record = d
		resources := batch.ResourceLogs()
		for i := range resources.Len() {
			r := resources.At(i)
			d.setResource(resourceOf(r.Resource(), r.SchemaUrl()))
			scopes := r.ScopeLogs()
			for k := range scopes.Len() {
				s := scopes.At(k)
				d.setScope(scopeOf(s.Scope(), s.SchemaUrl()))
				records := s.LogRecords()
				for n := range records.Len() {
					d.log = recordOf(records.At(n))
					if !yield(d) {
						return
					}
				}
			}
		}
	}
}

type logDocument struct {
	group
	log logRecord
}

// logRecord has what is written of a record.
type logRecord struct {
	time, observed          uint64
	severityNumber          int32
	flags, dropped          uint32
	severityText, eventName string
	body                    value
	attributes              attributes
	trace                   pcommon.TraceID
	span                    pcommon.SpanID
}

func recordOf(r plog.LogRecord) logRecord {
	return logRecord{
		time: uint64(r.Timestamp()), observed: uint64(r.ObservedTimestamp()), severityNumber: int32(r.SeverityNumber()), flags: uint32(r.Flags()),
		dropped: r.DroppedAttributesCount(), severityText: r.SeverityText(), eventName: r.EventName(), body: value{pdata: r.Body()},
		attributes: attributes{pdata: r.Attributes()}, trace: r.TraceID(), span: r.SpanID(),
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
		w.memberTime("timestamp", pcommon.Timestamp(r.time))
	case logObserved:
		w.memberTime("observed_timestamp", pcommon.Timestamp(r.observed))
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
		w.optionalID("trace_id", r.trace[:])
	case logSpanID:
		w.optionalID("span_id", r.span[:])
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
