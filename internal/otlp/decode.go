package otlp

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// Encoding is the encoding of a request and of its response.
type Encoding uint8

// The encodings of the protocol.
const (
	Protobuf Encoding = iota
	JSON
)

// Decode returns the records of an export request, see [otlpflat], and their number. It keeps no reference to data. The
// request must have passed [Check] with the same headers, because decoding has no bounds of its own.
func Decode(signal forebay.Signal, enc Encoding, data []byte, headers int) (docs iter.Seq[mapping.FieldDocument], records int, err error) {
	size := len(data)
	deep := false
	if enc == JSON {
		deep = bracketsAbove(data, 3*MaxNesting)
		data = plain(make([]byte, 0, size), data)
	}
	// The service requests have the fields of the data that they carry, so the decoders of the data can read them.
	switch signal {
	case forebay.SignalLogs:
		var batch plog.Logs
		if enc == JSON {
			batch, err = (&plog.JSONUnmarshaler{}).UnmarshalLogs(data)
			if err == nil {
				err = checkDecoded(signal, deep, size, headers, batch.LogRecordCount(), func() ([]byte, error) { return (&plog.ProtoMarshaler{}).MarshalLogs(batch) })
			}
		} else {
			batch, err = (&plog.ProtoUnmarshaler{}).UnmarshalLogs(data)
		}
		if err == nil {
			docs, records = otlpflat.Logs(batch), batch.LogRecordCount()
		}
	case forebay.SignalMetrics:
		var batch pmetric.Metrics
		if enc == JSON {
			batch, err = (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(data)
			if err == nil {
				err = checkDecoded(signal, deep, size, headers, batch.DataPointCount(), func() ([]byte, error) { return (&pmetric.ProtoMarshaler{}).MarshalMetrics(batch) })
			}
		} else {
			batch, err = (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(data)
		}
		if err == nil {
			docs, records = otlpflat.Metrics(batch), batch.DataPointCount()
		}
	case forebay.SignalTraces:
		var batch ptrace.Traces
		if enc == JSON {
			batch, err = (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data)
			if err == nil {
				err = checkDecoded(signal, deep, size, headers, batch.SpanCount(), func() ([]byte, error) { return (&ptrace.ProtoMarshaler{}).MarshalTraces(batch) })
			}
		} else {
			batch, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
		}
		if err == nil {
			docs, records = otlpflat.Traces(batch), batch.SpanCount()
		}
	default:
		return nil, 0, fmt.Errorf("unknown signal %q", signal)
	}
	switch {
	case errors.Is(err, ErrRequest):
		return nil, 0, err
	case err != nil && enc == JSON: // the decoder quotes surrounding bytes, which can be anything
		return nil, 0, fmt.Errorf("%w of %s: a member has a value that is not one of its type", ErrRequest, signal)
	case err != nil:
		return nil, 0, fmt.Errorf("%w of %s: %w", ErrRequest, signal, err)
	}
	return docs, records, nil
}

// checkDecoded bounds the copies of a JSON request and, if it is deep, its nesting, in its protobuf form. Both encodings
// thus have the same bounds.
func checkDecoded(signal forebay.Signal, deep bool, size, headers, records int, marshal func() ([]byte, error)) error {
	if !deep && (size+headers)*records <= freeCopies { // even if all of it were copied
		return nil
	}
	data, err := marshal()
	if err != nil {
		return err
	}
	c := checker{limit: math.MaxInt}
	if err := c.message(data, roots[signal], 0); err != nil {
		return err
	}
	return c.checkCopies(size, headers)
}
