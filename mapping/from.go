package mapping

import (
	"bytes"
	"encoding/json"
)

// From returns a record whose body is the JSON of a Go value, for events that are born in the program: a struct, a map, or
// anything else that [encoding/json] takes. The other fields of the record may be set as for one of bytes.
//
//	p, err := engine.Submit(ctx, "orders", mapping.From(order))
//
// The value is encoded when the first mapper needs it, once for all mappers of the record, by the rules of encoding/json but
// without its HTML escapes; keys of maps are sorted, so equal values give equal rows. The cost is that of encoding/json, with
// an allocation for the record and what the encoder takes, and then that of mapping a JSON body: whoever has the bytes
// already passes them to [JSON].
//
// The record holds v itself. It, and what it points to, must not change until Ingest, IngestBatch or Submit has returned, which
// is when all rows of the record are made; then it is the caller's again.
//
// A value that cannot be encoded, such as a channel, NaN or one whose MarshalJSON fails, makes a record that is rejected with
// [InvalidBody] by every column that reads the body and has no default; the cause can be told with errors.As. Columns that
// do not read the body take it.
func From(v any) *Record { return &Record{Document: goValue{v}} }

// goValue is the document of a Go value.
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
