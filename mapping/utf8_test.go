package mapping

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
)

// With Limits.UTF8 an untyped column rejects bytes that are not UTF-8, in rows, cells and tests of cells. Without it they are stored unchanged.
func TestUntypedTextIsUTF8(t *testing.T) {
	const body = "{\"a\":\"é\xff\",\"b\":1}"
	cols := func(c Column) Columns { return Columns{UUID("id"), c} }
	for name, c := range map[string]Column{
		"body": Body("c"), "path": Path("c", "a", RawString()), "whole": Path("c", ""), "headers": Headers("c"), "template": Template("c", `BodyStr() + HeaderStr()`),
	} {
		for _, format := range []Format{FormatJSON, FormatForm} {
			rec := &Record{Body: []byte(body), Format: format, Header: http.Header{"X-A": {"\xff"}}}
			free, err := Compile(cols(c), Options{})
			must(t, err)
			strict, err := Compile(cols(c), Options{Limits: datatype.Limits{UTF8: true}})
			must(t, err)
			row, err := free.AppendRow(nil, rec)
			want := err == nil && len(row) > 0 && name == "body"
			_, err = strict.AppendRow(nil, rec)
			var cause *Error
			if rejected := errors.As(err, &cause) && cause.Reason == NotUTF8 && cause.Column == "c"; rejected != want {
				t.Errorf("got %s, format %v: %v, rejected %v, want %v", name, format, err, rejected, want)
			}
			if cell := strict.Cell(1, rec); want && !errors.As(cell.Err, &cause) {
				t.Errorf("%s: the cell is %+v", name, cell)
			}
		}
	}
	secret, err := Compile(cols(Body("c", Secret())), Options{Limits: datatype.Limits{UTF8: true}})
	must(t, err)
	if _, err := secret.AppendRow(nil, &Record{Body: []byte("canary\xff")}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a secret column: %v", err)
	}
	good := &Record{Body: []byte(`{"a":"é"}`), Format: FormatJSON}
	m, err := Compile(cols(Body("c")), Options{Limits: datatype.Limits{UTF8: true}})
	must(t, err)
	var row []byte
	if n := testing.AllocsPerRun(100, func() { row, err = m.AppendRow(row[:0], good) }); n != 0 && !raceEnabled || err != nil {
		t.Errorf("a row allocates %v times, error %v", n, err)
	}
}

// An untyped column rejects NUL and long cells where the target cannot store them. The quotes of CSV do not count.
func TestUntypedCellsThatATargetCannotStore(t *testing.T) {
	for _, c := range []struct {
		column Column
		limits datatype.Limits
		body   string
		format Format
		want   Reason // 0 means stored
	}{
		{Path("c", "a", RawString()), datatype.Limits{NoNUL: true}, `{"a":"x\u0000"}`, FormatJSON, HasNUL},
		{Path("c", "a", RawString()), datatype.Limits{}, `{"a":"x\u0000"}`, FormatJSON, 0},
		{Path("c", "a"), datatype.Limits{NoNUL: true}, `{"a":"x\u0000"}`, FormatJSON, 0}, // the escape stays
		{Body("c"), datatype.Limits{NoNUL: true}, "x\x00", FormatOpaque, HasNUL},
		{Template("c", `Body("a")`, RawString()), datatype.Limits{NoNUL: true}, `{"a":"\u0000"}`, FormatJSON, HasNUL},
		{Body("c"), datatype.Limits{MaxCell: 5}, `"""""`, FormatOpaque, 0},
		{Body("c"), datatype.Limits{MaxCell: 5}, `""""""`, FormatOpaque, TooLong},
	} {
		m, err := Compile(Columns{UUID("id"), c.column}, Options{Limits: c.limits})
		must(t, err)
		rec := &Record{Body: []byte(c.body), Format: c.format}
		_, err = m.AppendRow(nil, rec)
		cause, _ := errors.AsType[*Error](err)
		if (cause == nil) != (c.want == 0) || cause != nil && (cause.Reason != c.want || cause.Column != "c") {
			t.Errorf("%v column, body %q, limits %+v: got %v, want %v", c.column.Type, c.body, c.limits, err, c.want)
		}
		if cell := m.Cell(1, rec); (cell.Err == nil) != (c.want == 0) {
			t.Errorf("%v column, body %q, limits %+v: the cell is %+v", c.column.Type, c.body, c.limits, cell)
		}
	}
}
