package shadow

import (
	"bytes"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
)

// side is one of the two mappings, with its result for the last record.
type side struct {
	mapper rowMapper // nil without columns
	row    []byte
	err    error
	took   time.Duration
	feed   feed
	reader *driver.RowReader
}

type rowMapper interface {
	AppendRow(dst []byte, rec *mapping.Record) ([]byte, error)
}

func sideOf(m *mapping.Mapper) (s side) {
	if m != nil {
		s.mapper = m
	}
	return s
}

// feed is a reader of one row after the other.
type feed struct{ rest []byte }

func (f *feed) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// run maps a record. A side without columns accepts it.
func (m *side) run(rec *mapping.Record, maxRow int) {
	m.row, m.err = m.row[:0], nil
	if m.mapper == nil {
		return
	}
	began := time.Now()
	m.row, m.err = m.mapper.AppendRow(m.row, rec)
	m.took = time.Since(began)
	if size := len(m.row); m.err == nil && size > maxRow {
		m.err = &mapping.RowTooLargeError{Size: size, Limit: maxRow}
	}
}

// cells returns the cells of the row. They are valid until the next call.
func (m *side) cells() [][]byte {
	if m.reader == nil {
		m.reader = driver.NewRowReader(&m.feed)
	}
	if m.mapper == nil {
		return nil
	}
	m.feed.rest = m.row
	if !m.reader.Next() {
		panic(m.reader.Err()) // a mapper writes rows that a reader can read
	}
	return m.reader.Cells()
}

// sides are two mappings, and the columns that both have.
type sides struct {
	current, changed side
	columns          []pair
}

// run maps a record with both.
func (x *sides) run(rec *mapping.Record, maxRow int) {
	x.current.run(rec, maxRow)
	rec.Release() // so that the other mapping reads the body too
	x.changed.run(rec, maxRow)
	rec.Release()
}

func find(columns mapping.Columns, name string) int {
	return slices.IndexFunc(columns, func(c mapping.Column) bool { return strings.EqualFold(c.Name, name) })
}

// Differing returns the columns of both mappings that may have different cells, and the columns that only changed has. All other columns of changed have
// the cells of current, or are UUIDs, in each record.
func Differing(current, changed mapping.Columns) (ofCurrent, ofChanged mapping.Columns) {
	for _, c := range changed {
		i := find(current, c.Name)
		if i < 0 {
			ofChanged = append(ofChanged, c)
			continue
		}
		old := current[i]
		if old.Name = c.Name; generated(old, c) || reflect.DeepEqual(old, c) {
			continue
		}
		ofCurrent, ofChanged = append(ofCurrent, current[i]), append(ofChanged, c)
	}
	return notAlone(ofCurrent, current), notAlone(ofChanged, changed)
}

// notAlone adds one of the other columns to a single column, because a mapping of one column cannot be NULL.
func notAlone(part, all mapping.Columns) mapping.Columns {
	if len(part) != 1 {
		return part
	}
	if i := slices.IndexFunc(all, func(c mapping.Column) bool { return c.Name != part[0].Name }); i >= 0 {
		part = append(part, all[i])
	}
	return part
}

// generated reports whether the values of a column always differ.
func generated(a, b mapping.Column) bool {
	return a.Type == mapping.TypeUUID && b.Type == mapping.TypeUUID
}

// columnsOf returns the columns of the report.
func columnsOf(current, changed mapping.Columns) (columns []Column) {
	for _, c := range changed {
		i := find(current, c.Name)
		columns = append(columns, Column{Name: c.Name, New: i < 0, Generated: i >= 0 && generated(current[i], c)})
	}
	for _, c := range current {
		if find(changed, c.Name) < 0 {
			columns = append(columns, Column{Name: c.Name, Missing: true})
		}
	}
	return columns
}

// pairs finds the columns that belong together and are compared. report has the columns of the report.
func pairs(current, changed mapping.Columns, report []Column) (all []pair) {
	for k, c := range report {
		i, j := find(current, c.Name), find(changed, c.Name)
		if i >= 0 && j >= 0 && !c.Generated {
			all = append(all, pair{current: i, changed: j, report: k, secret: current[i].Secret || changed[j].Secret})
		}
	}
	return all
}

// count adds the results for a record to the report.
func (x *sides) count(r *Report, rec *mapping.Record) {
	current, changed := &x.current, &x.changed
	switch {
	case current.err == nil && changed.err == nil:
		x.countCells(r, rec)
		return
	case changed.err == nil:
		r.OnlyChanged++
	case current.err == nil:
		r.OnlyCurrent++
	default:
		r.Neither++
		a, b := rejectionOf(current.err), rejectionOf(changed.err)
		if a.Reason == b.Reason && strings.EqualFold(a.Column, b.Column) {
			return
		}
	}
	if current.err != nil {
		r.countError(rejectionOf(current.err), false)
	}
	if changed.err != nil {
		r.countError(rejectionOf(changed.err), true)
	}
}

// countCells compares the rows of a record that both mappings accept.
func (x *sides) countCells(r *Report, rec *mapping.Record) {
	different := false
	if len(x.columns) > 0 {
		old, now := x.current.cells(), x.changed.cells()
		for _, c := range x.columns {
			a, b := old[c.current], now[c.changed]
			if bytes.Equal(a, b) && (a == nil) == (b == nil) {
				continue
			}
			different = true
			col := &r.Columns[c.report]
			if col.Different++; len(col.Examples) < maxExamples {
				col.Examples = append(col.Examples, Example{Received: rec.Received, Current: c.show(a), Changed: c.show(b)})
			}
		}
	}
	if different {
		r.Different++
	} else {
		r.Equal++
	}
}

// show returns a cell of the report.
func (c pair) show(cell []byte) Cell {
	switch {
	case c.secret: // NULL is hidden too
		return Cell{Text: "***"}
	case cell == nil:
		return Cell{Null: true}
	}
	return Cell{Text: textcut.Short(cell, exampleBytes)}
}

// rejectionOf describes the error of a mapper. Which definition it is of does not count.
func rejectionOf(err error) kept.Rejection { return kept.RejectionOf(err, kept.DefinitionName{}) }

func (r *Report) countError(kind kept.Rejection, changed bool) {
	for i := range r.Errors {
		e := &r.Errors[i]
		if e.Changed == changed && e.Reason == kind.Reason && e.Column == kind.Column {
			e.Records++
			return
		}
	}
	if len(r.Errors) == maxErrors {
		r.OtherErrors++
		return
	}
	r.Errors = append(r.Errors, Rejection{
		Changed: changed, Reason: kind.Reason, Column: kind.Column, Records: 1, Message: kind.Message,
	})
}
