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
// request must have passed [Check] with the same headers, because decoding has no bounds.
func Decode(signal forebay.Signal, enc Encoding, data []byte, headers int) (docs iter.Seq[mapping.FieldDocument], records int, err error) {
	if encoded, ok := inPlace[signal]; ok && enc == Protobuf {
		if docs, records, ok := encoded(data); ok {
			return docs, records, nil
		}
	}
	in := export{signal: signal, enc: enc, data: data, size: len(data), headers: headers}
	if enc == JSON {
		in.deep = bracketsAbove(data, 3*MaxNesting)
		in.data = plain(make([]byte, 0, len(data)), data)
	}
	// The service requests have the fields of the data that they carry, so the decoders of the data can read them.
	switch signal {
	case forebay.SignalLogs:
		docs, records, err = decode(&in, (&plog.ProtoUnmarshaler{}).UnmarshalLogs, (&plog.JSONUnmarshaler{}).UnmarshalLogs,
			(&plog.ProtoMarshaler{}).MarshalLogs, plog.Logs.LogRecordCount, otlpflat.Logs)
	case forebay.SignalMetrics:
		docs, records, err = decode(&in, (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics, (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics,
			(&pmetric.ProtoMarshaler{}).MarshalMetrics, pmetric.Metrics.DataPointCount, otlpflat.Metrics)
	case forebay.SignalTraces:
		docs, records, err = decode(&in, (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces, (&ptrace.JSONUnmarshaler{}).UnmarshalTraces,
			(&ptrace.ProtoMarshaler{}).MarshalTraces, ptrace.Traces.SpanCount, otlpflat.Traces)
	default:
		return nil, 0, fmt.Errorf("unknown signal %q", signal)
	}
	switch {
	case errors.Is(err, ErrRequest):
		return nil, 0, err
	case err != nil && enc == JSON: // the decoder quotes surrounding bytes, which can be anything
		return nil, 0, fmt.Errorf("%w of %s: a member has a value that is not one of its type; encode it as OTLP over JSON, or send protobuf", ErrRequest, signal)
	case err != nil:
		return nil, 0, fmt.Errorf("%w of %s: %w", ErrRequest, signal, err)
	}
	return docs, records, nil
}

// inPlace reads requests as exporters send them.
var inPlace = map[forebay.Signal]func(data []byte) (iter.Seq[mapping.FieldDocument], int, bool){
	forebay.SignalLogs: otlpflat.EncodedLogs, forebay.SignalMetrics: otlpflat.EncodedMetrics, forebay.SignalTraces: otlpflat.EncodedTraces,
}

// export is an export request. size and deep describe its data before any repair.
type export struct {
	signal        forebay.Signal
	enc           Encoding
	data          []byte
	size, headers int
	deep          bool
}

// decode is Decode for the batches of one signal.
func decode[B any](
	in *export, fromProtobuf, fromJSON func([]byte) (B, error), toProtobuf func(B) ([]byte, error),
	count func(B) int, flatten func(B) iter.Seq[mapping.FieldDocument],
) (iter.Seq[mapping.FieldDocument], int, error) {
	from := fromProtobuf
	if in.enc == JSON {
		from = fromJSON
	}
	batch, err := from(in.data)
	if err == nil && in.enc == JSON {
		err = in.check(count(batch), func() ([]byte, error) { return toProtobuf(batch) })
	}
	if err != nil {
		return nil, 0, err
	}
	return flatten(batch), count(batch), nil
}

// check bounds the copies of a JSON request and, if it is deep, its nesting. It measures the protobuf form, so that both encodings have the
// same bounds.
func (in *export) check(records int, marshal func() ([]byte, error)) error {
	if !in.deep && (in.size+in.headers)*records <= freeCopies { // even if all of it were copied
		return nil
	}
	data, err := marshal()
	if err != nil {
		return err
	}
	c := checker{limit: math.MaxInt}
	if err := c.message(data, roots[in.signal], 0); err != nil {
		return err
	}
	return c.checkCopies(in.size, in.headers)
}
