// Package parquettest reads the parts of Parquet tables, for the tests of targets that write them.
package parquettest

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strings"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
)

// ReadPart returns the rows of a part in the order of columns, as the canonical texts of their types, [buffertest.Null] for NULL and for a
// column that the part lacks. A part with another column, or with another type than the table has, is an error or a text that says so.
func ReadPart(path string, columns []datatype.Column) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p, err := pq.OpenFile(f, info.Size())
	if err != nil {
		return nil, err
	}
	rows := make([][]string, p.NumRows())
	for i := range rows {
		rows[i] = slices.Repeat([]string{buffertest.Null}, len(columns))
	}
	for at, field := range p.Schema().Fields() {
		place := slices.IndexFunc(columns, func(c datatype.Column) bool { return c.Name == field.Name() })
		if place < 0 {
			return nil, fmt.Errorf("the table has no column %q", field.Name())
		}
		first := 0
		for _, g := range p.RowGroups() {
			pages := g.ColumnChunks()[at].Pages()
			i := first
			for {
				page, err := pages.ReadPage()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return nil, err
				}
				values := make([]pq.Value, page.NumValues())
				if n, err := page.Values().ReadValues(values); n != len(values) || err != nil && !errors.Is(err, io.EOF) {
					return nil, fmt.Errorf("%d of %d values, %w", n, len(values), err)
				}
				for _, v := range values {
					if !v.IsNull() {
						rows[i][place] = canonical(field.Type(), columns[place].Type, v)
					}
					i++
				}
				pq.Release(page)
			}
			if err := pages.Close(); err != nil {
				return nil, err
			}
			if first += int(g.NumRows()); i != first {
				return nil, fmt.Errorf("column %q has %d values in %d rows", field.Name(), i, first)
			}
		}
	}
	return rows, nil
}

// canonical returns the text of a value by its type in the file, which must agree with the type of the column.
func canonical(physical pq.Type, typ datatype.Type, v pq.Value) string {
	logical := ""
	if l := physical.LogicalType(); l != nil {
		logical = l.String()
	}
	name, _, _ := strings.Cut(string(typ), "(")
	switch want := map[string]string{
		"": "STRING", "string": "STRING", "json": "JSON", "uuid": "UUID", "date": "DATE", "int64": "INT(64,true)",
		"timestamp": "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)", "bool": "", "float64": "", "bytes": "",
	}[name]; {
	case name == "decimal":
		p, s, _ := typ.DecimalOf()
		if want := fmt.Sprintf("DECIMAL(%d,%d)", p, s); logical != want {
			return "not " + want + " but " + logical
		}
		var n *big.Int
		switch v.Kind() {
		case pq.Int32, pq.Int64:
			n = big.NewInt(v.Int64())
		default:
			b := v.ByteArray()
			if n = new(big.Int).SetBytes(b); b[0] >= 0x80 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		digits := new(big.Int).Abs(n).String()
		if len(digits) <= s {
			digits = strings.Repeat("0", s+1-len(digits)) + digits
		}
		if s > 0 {
			digits = digits[:len(digits)-s] + "." + digits[len(digits)-s:]
		}
		if n.Sign() < 0 {
			digits = "-" + digits
		}
		return digits
	case logical != want:
		return "not " + want + " but " + logical
	}
	switch name {
	case "bool":
		return fmt.Sprint(v.Boolean())
	case "int64":
		return fmt.Sprint(v.Int64())
	case "float64":
		return string(datatype.AppendFloat64(nil, v.Double()))
	case "timestamp":
		return time.UnixMicro(v.Int64()).UTC().Format("2006-01-02T15:04:05.000000Z")
	case "date":
		return time.Unix(int64(v.Int32())*24*60*60, 0).UTC().Format(time.DateOnly)
	case "uuid":
		h := hex.EncodeToString(v.ByteArray())
		return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
	case "bytes":
		return base64.StdEncoding.EncodeToString(v.ByteArray())
	}
	return string(v.ByteArray())
}
