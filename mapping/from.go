package mapping

import (
	"bytes"
	"encoding/json"
)

// From returns a record whose body is the JSON of a Go value, which may be a struct, a map, or anything else that [encoding/json] takes. The
// other fields of the record may be set too.
//
//	p, err := engine.Submit(ctx, "orders", mapping.From(order))
//
// The first mapper that needs the value encodes it, once for all mappers of the record. The rules are the rules of encoding/json
// without its HTML escapes. Keys of maps are sorted, so equal values give equal rows. The encoding costs what encoding/json
// costs, before the body is mapped as JSON, so pass bytes that exist already to [JSON].
//
// The record holds v itself. v, and the values it points to, must not change before Ingest, IngestBatch or Submit has
// returned. All rows of the record are made by then.
//
// A value that cannot be encoded, such as a channel, NaN or one whose MarshalJSON fails, is rejected with [InvalidBody] by every
// column that reads the body and has no default. errors.As finds the cause. Other columns take the record.
func From(v any) *Record { return &Record{Document: goValue{v}} }

type goValue struct{ v any }

// AppendJSON implements [Document].
func (d goValue) AppendJSON(dst []byte) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d.v); err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
