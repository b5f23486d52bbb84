package otlpflat

import (
	"cmp"
	"iter"

	"go.opentelemetry.io/collector/pdata/plog"

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

func (d *logDocument) write() {
	w, r := &d.w, d.log
	w.root()
	w.memberTime("timestamp", r.Timestamp())
	w.memberTime("observed_timestamp", r.ObservedTimestamp())
	if w.member("severity_number") {
		w.int(int64(r.SeverityNumber()))
	}
	w.memberText("severity_text", r.SeverityText())
	if w.member("body") {
		w.value(r.Body())
	}
	if w.done { // most paths end above
		return
	}
	w.memberUint("flags", uint64(r.Flags()))
	trace, span := r.TraceID(), r.SpanID()
	w.optionalID("trace_id", trace[:])
	w.optionalID("span_id", span[:])
	w.memberAttributes("attributes", r.Attributes())
	if w.done {
		return
	}
	d.writeGroup(w)
	if w.done {
		return
	}
	w.optionalText("event_name", r.EventName())
	w.dropped("dropped_attributes_count", r.DroppedAttributesCount())
	d.writeEnd(w)
}
