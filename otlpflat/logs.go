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
					d.record = records.At(n)
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
	w      writer
	record plog.LogRecord
}

// AppendJSON implements [mapping.Document].
func (d *logDocument) AppendJSON(dst []byte) ([]byte, error) {
	d.w.startWrite(dst)
	d.write()
	return append(d.w.dst, '}'), nil
}

// AppendField implements [mapping.FieldDocument].
func (d *logDocument) AppendField(dst []byte, path mapping.FieldPath) ([]byte, mapping.FieldKind) {
	d.w.startSeek(dst, path)
	d.write()
	return d.w.dst, d.w.kind
}

// At returns when the record happened or, without that, when it was observed, in Unix nanoseconds; 0 if neither is set.
func (d *logDocument) At() uint64 {
	return uint64(cmp.Or(d.record.Timestamp(), d.record.ObservedTimestamp()))
}

func (d *logDocument) write() {
	w, r := &d.w, d.record
	w.root()
	if w.member("timestamp") {
		w.time(r.Timestamp())
	}
	if w.member("observed_timestamp") {
		w.time(r.ObservedTimestamp())
	}
	if w.member("severity_number") {
		w.int(int64(r.SeverityNumber()))
	}
	if w.member("severity_text") {
		w.text(r.SeverityText())
	}
	if w.member("body") {
		w.value(r.Body())
	}
	if w.done { // most paths end above
		return
	}
	if w.member("flags") {
		w.uint(uint64(r.Flags()))
	}
	if id := r.TraceID(); !id.IsEmpty() && w.member("trace_id") {
		w.traceID(id)
	}
	if id := r.SpanID(); !id.IsEmpty() && w.member("span_id") {
		w.spanID(id)
	}
	if w.member("attributes") {
		w.attributes(r.Attributes())
	}
	if w.done {
		return
	}
	d.group.write(w)
	if w.done {
		return
	}
	if name := r.EventName(); name != "" && w.member("event_name") {
		w.text(name)
	}
	w.dropped("dropped_attributes_count", r.DroppedAttributesCount())
	d.writeEnd(w)
}
