package otlpflat

import (
	"cmp"
	"iter"

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
			d.setResource(r.Resource(), r.SchemaUrl())
			scopes := r.ScopeLogs()
			for k := range scopes.Len() {
				s := scopes.At(k)
				d.setScope(s.Scope(), s.SchemaUrl())
				records := s.LogRecords()
				for n := range records.Len() {
					d.log = records.At(n)
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
	log plog.LogRecord
}

// At returns when the record happened or, without that, when it was observed, in Unix nanoseconds; 0 if neither is set.
func (d *logDocument) At() uint64 {
	return uint64(cmp.Or(d.log.Timestamp(), d.log.ObservedTimestamp()))
}

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
		return uint64(d.log.Timestamp())
	}
	return uint64(d.log.ObservedTimestamp())
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
	w, r := &d.w, d.log
	switch number {
	case logTimestamp:
		w.memberTime("timestamp", r.Timestamp())
	case logObserved:
		w.memberTime("observed_timestamp", r.ObservedTimestamp())
	case logSeverityNumber:
		if w.member("severity_number") {
			w.int(int64(r.SeverityNumber()))
		}
	case logSeverityText:
		w.memberText("severity_text", r.SeverityText())
	case logBody:
		if w.member("body") {
			w.value(r.Body())
		}
	case logFlags:
		w.memberUint("flags", uint64(r.Flags()))
	case logTraceID:
		id := r.TraceID()
		w.optionalID("trace_id", id[:])
	case logSpanID:
		id := r.SpanID()
		w.optionalID("span_id", id[:])
	case logAttributes:
		w.memberAttributes("attributes", r.Attributes())
	case logEventName:
		w.optionalText("event_name", r.EventName())
	case logDropped:
		w.dropped("dropped_attributes_count", r.DroppedAttributesCount())
	default:
		d.writeShared(w, number-logShared)
	}
}
