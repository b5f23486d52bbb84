package collectortest

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// logRow is a row of otlpflat.LogsTable, for the exporters of this package. A cell that is 0, empty text or nil is NULL. Parquet files have the JSON
// columns as STRING, which costs the same, because the library panics when it writes a JSON field of a struct that is optional.
type logRow struct {
	Timestamp            int64  `parquet:",optional,timestamp(microsecond),delta"`
	TimeUnixNano         int64  `parquet:",optional,delta"`
	ObservedTimestamp    int64  `parquet:",optional,timestamp(microsecond),delta"`
	ObservedTimeUnixNano int64  `parquet:",optional,delta"`
	TraceId              []byte `parquet:",optional,string"`
	SpanId               []byte `parquet:",optional,string"`
	TraceFlags           *int64 `parquet:",optional,dict"`
	SeverityText         string `parquet:",optional,dict"`
	SeverityNumber       *int64 `parquet:",optional,dict"`
	ServiceName          string `parquet:",optional,dict"`
	Body                 []byte `parquet:",optional,string"`
	ResourceSchemaUrl    string `parquet:",optional,dict"`
	ResourceAttributes   []byte `parquet:",optional,string,dict"`
	ScopeSchemaUrl       string `parquet:",optional,dict"`
	ScopeName            string `parquet:",optional,dict"`
	ScopeVersion         string `parquet:",optional,dict"`
	ScopeAttributes      []byte `parquet:",optional,string,dict"`
	LogAttributes        []byte `parquet:",optional,string"`
	EventName            string `parquet:",optional,dict"`

	numbers [2]int64 // the values that the pointers point to
}

const logColumns = 19

// rowBatch makes the rows of a batch. Its memory is used for the next one.
type rowBatch struct {
	rows []logRow
	text []byte // of the cells that are slices
}

// fill returns the rows of a batch, which must not change meanwhile. They are valid until the next call.
func (b *rowBatch) fill(batch plog.Logs) []logRow {
	n := batch.LogRecordCount()
	b.rows = slices.Grow(b.rows[:0], n)[:n]
	b.text = b.text[:0]
	next := 0
	for _, rl := range batch.ResourceLogs().All() {
		shared := logRow{ResourceSchemaUrl: rl.SchemaUrl(), ResourceAttributes: b.attributes(rl.Resource().Attributes())}
		if name, ok := rl.Resource().Attributes().Get("service.name"); ok {
			shared.ServiceName = name.AsString()
		}
		for _, sl := range rl.ScopeLogs().All() {
			shared.ScopeSchemaUrl, shared.ScopeName, shared.ScopeVersion = sl.SchemaUrl(), sl.Scope().Name(), sl.Scope().Version()
			shared.ScopeAttributes = nil
			if sl.Scope().Attributes().Len() > 0 {
				shared.ScopeAttributes = b.attributes(sl.Scope().Attributes())
			}
			for _, r := range sl.LogRecords().All() {
				row := &b.rows[next]
				next++
				*row = shared
				at := int64(cmp.Or(r.Timestamp(), r.ObservedTimestamp()))
				row.Timestamp, row.TimeUnixNano = at/1000, at
				row.ObservedTimestamp, row.ObservedTimeUnixNano = int64(r.ObservedTimestamp())/1000, int64(r.ObservedTimestamp())
				trace, span := r.TraceID(), r.SpanID()
				if !trace.IsEmpty() {
					row.TraceId = b.hex(trace[:])
				}
				if !span.IsEmpty() {
					row.SpanId = b.hex(span[:])
				}
				row.numbers = [2]int64{int64(r.Flags()), int64(r.SeverityNumber())}
				row.TraceFlags, row.SeverityNumber = &row.numbers[0], &row.numbers[1]
				row.SeverityText, row.EventName = r.SeverityText(), r.EventName()
				row.Body, row.LogAttributes = b.body(r.Body()), b.attributes(r.Attributes())
			}
		}
	}
	return b.rows
}

// since returns the text that was appended since a place.
func (b *rowBatch) since(from int) []byte { return b.text[from:len(b.text):len(b.text)] }

func (b *rowBatch) hex(id []byte) []byte {
	from := len(b.text)
	b.text = hex.AppendEncode(b.text, id)
	return b.since(from)
}

func (b *rowBatch) attributes(m pcommon.Map) []byte {
	from := len(b.text)
	b.text = appendMap(b.text, m)
	return b.since(from)
}

// body is a text as it is, and other values as JSON.
func (b *rowBatch) body(v pcommon.Value) []byte {
	from := len(b.text)
	switch v.Type() {
	case pcommon.ValueTypeEmpty:
		return nil
	case pcommon.ValueTypeStr:
		b.text = append(b.text, v.Str()...)
	default:
		b.text = appendValue(b.text, v)
	}
	return b.since(from)
}

func appendMap(dst []byte, m pcommon.Map) []byte {
	dst = append(dst, '{')
	first := true
	for k, v := range m.All() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(jsontext.AppendString(dst, k, false), ':')
		dst = appendValue(dst, v)
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v pcommon.Value) []byte {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return jsontext.AppendString(dst, v.Str(), false)
	case pcommon.ValueTypeInt:
		return strconv.AppendInt(dst, v.Int(), 10)
	case pcommon.ValueTypeBool:
		return strconv.AppendBool(dst, v.Bool())
	case pcommon.ValueTypeMap:
		return appendMap(dst, v.Map())
	case pcommon.ValueTypeSlice:
		dst = append(dst, '[')
		for i, e := range v.Slice().All() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, e)
		}
		return append(dst, ']')
	}
	text, err := json.Marshal(v.AsRaw()) // floats, bytes and nothing, which are rare
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}
