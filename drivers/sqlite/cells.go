package sqlite

import (
	sqldriver "database/sql/driver"
	"math"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/celltype"
)

// Reasons of rows that the driver refuses itself.
const (
	nullValue = string(celltype.NullValue) // NULL in a required column
	malformed = string(celltype.Malformed) // no canonical text of the type
	notFinite = string(celltype.NotFinite) // NaN, which SQLite would store as NULL
)

// add adds a row to the batch, or to the refused rows. It returns false if no more refused rows are kept.
func (in *inserter) add(cells [][]byte, number int64) bool {
	args, spans, text := len(in.args), len(in.spans), len(in.text)
	for i, c := range in.columns {
		var cell []byte
		if at := in.places[i]; at >= 0 {
			cell = cells[at]
		}
		value, reason := in.value(c, cell)
		if reason != "" {
			in.args, in.spans, in.text = in.args[:args], in.spans[:spans], in.text[:text]
			return in.refused.Add(driver.RowError{Row: number, Column: c.Name, Reason: reason})
		}
		in.args = append(in.args, sqldriver.NamedValue{Ordinal: len(in.args) + 1, Value: value})
	}
	in.numbers = append(in.numbers, number)
	return true
}

// value returns the value that is bound for a cell. Texts are bound when the batch is complete.
func (in *inserter) value(c datatype.Column, cell []byte) (value any, reason string) {
	if cell == nil {
		if c.Required {
			return nil, nullValue
		}
		return nil, ""
	}
	var err error
	switch c.Type {
	case datatype.Bool:
		var b bool
		if b, err = datatype.ParseBool(cell); b {
			value = int64(1)
		} else {
			value = int64(0)
		}
	case datatype.Int64:
		value, err = datatype.ParseInt64(cell)
	case datatype.Float64:
		var f float64
		if f, err = datatype.ParseFloat64(cell); math.IsNaN(f) {
			return nil, notFinite
		}
		value = f
	case datatype.Bytes:
		value, err = datatype.AppendBytes([]byte{}, cell)
	default:
		from := len(in.text)
		in.text = append(in.text, cell...)
		in.spans = append(in.spans, span{len(in.args), from, len(in.text)})
	}
	if err != nil {
		return nil, malformed
	}
	return value, ""
}
