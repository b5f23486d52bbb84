package quarantine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
)

// A row that the target has refused is stored as CSV, because its record is gone. It is shown as a JSON object with the cell of each column as
// text, or null.

// bodyOf returns the JSON object of a kept row. Bytes that are not UTF-8 become U+FFFD.
func bodyOf(p *buffer.Poison, row []byte) ([]byte, error) {
	cells, err := kept.Cells(p, row)
	if err != nil {
		return nil, err
	}
	body := []byte{'{'}
	for i, cell := range cells {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, textOf([]byte(p.Columns[i].Name))...), ':')
		body = append(body, textOf(cell)...)
	}
	return append(body, '}'), nil
}

// textOf returns a cell as JSON.
func textOf(cell []byte) []byte {
	if cell == nil {
		return []byte("null")
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(string(cell)) // a string has a JSON form
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// EditError is the error of an edit that does not fit a row that the target has refused. The body is no JSON object, names a column that the
// row does not have, or has a cell that does not fit its type. Nothing was stored.
type EditError struct{ Err error }

func (e *EditError) Error() string { return e.Err.Error() }

func (e *EditError) Unwrap() error { return e.Err }

// editRow returns a kept row with the cells that body names. Cells that it does not name, or leaves as they are shown, keep their bytes. The
// error is an [*EditError], or says that the kept row is damaged.
func editRow(p *buffer.Poison, row, body []byte) ([]byte, error) {
	cells, err := kept.Cells(p, row)
	if err != nil {
		return nil, err
	}
	var edit map[string]*string
	if err := json.Unmarshal(body, &edit); err != nil || edit == nil {
		return nil, &EditError{errors.Join(errors.New("forebay: a row that the target has refused is edited with a JSON object that has a text or null for each column"), err)}
	}
	for name, text := range edit {
		i := slices.IndexFunc(p.Columns, func(c datatype.Column) bool { return c.Name == name })
		if i < 0 {
			return nil, &EditError{fmt.Errorf("forebay: the row has no column %q", name)}
		}
		var cell []byte
		if text != nil {
			cell = []byte(*text)
		}
		if bytes.Equal(textOf(cell), textOf(cells[i])) {
			continue
		}
		if cells[i], err = cellOf(p.Columns[i], cell); err != nil {
			return nil, &EditError{err}
		}
	}
	return kept.AppendCells(nil, cells), nil
}

// cellOf returns the cell of a column for a text, or nil for none. The error is a [*mapping.Error].
func cellOf(c datatype.Column, text []byte) ([]byte, error) {
	switch {
	case text == nil && c.Type != datatype.Untyped && !c.Required:
		return nil, nil
	case text == nil:
		return nil, &mapping.Error{Column: c.Name, Reason: mapping.MissingValue, Type: c.Type, Err: errors.New("the row has no value for it, and the column has no NULL")}
	case c.Type == datatype.Untyped:
		return text, nil
	}
	column := mapping.Path(c.Name, "v", mapping.DataType(c.Type), mapping.Required())
	body := textOf(text)
	if c.Type == datatype.JSON {
		if body = text; !json.Valid(text) {
			return nil, &mapping.Error{Column: c.Name, Reason: mapping.Malformed, Type: c.Type, Err: errors.New("it is no JSON document")}
		}
	}
	m, err := mapping.Compile(mapping.Columns{column}, mapping.Options{})
	if err != nil {
		return nil, err
	}
	return m.AppendCell([]byte{}, 0, mapping.JSON(append(append([]byte(`{"v":`), body...), '}')))
}

// columnOf returns the place of a column in a kept row, -1 if it has none. Names differ in case where the definition has changed. Tables that
// grow treat them as one column.
func columnOf(p *buffer.Poison, name string) int {
	i := slices.IndexFunc(p.Columns, func(c datatype.Column) bool { return c.Name == name })
	if i < 0 {
		i = slices.IndexFunc(p.Columns, func(c datatype.Column) bool { return strings.EqualFold(c.Name, name) })
	}
	return i
}

// refusedRow makes the cells of a kept row for the columns of a sink, by their names.
func (s *Sink) refusedRow(p *buffer.Poison, row []byte) (cells [][]byte, shown []mapping.Cell, err error) {
	have, err := kept.Cells(p, row)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range s.Mapper.Columns() {
		var cell []byte
		i := columnOf(p, c.Name)
		if i >= 0 {
			cell = have[i]
		}
		var cause error
		if i < 0 || p.Columns[i].Type != c.Type || cell == nil {
			cell, cause = cellOf(c, cell)
		}
		err = errors.Join(err, cause)
		cells = append(cells, cell)
		show := mapping.Cell{Column: c.Name, Type: c.Type, Value: string(cell), Null: cell == nil && cause == nil, Err: cause}
		if n := slices.IndexFunc(s.Columns, func(o mapping.Column) bool { return o.Name == c.Name }); n >= 0 && s.Columns[n].Secret && cell != nil {
			show.Value = kept.Masked
		}
		shown = append(shown, show)
	}
	return cells, shown, err
}
