package shadow

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
)

// side is one of the two mappings, with its result for the last record.
type side struct {
	mapper *mapping.Mapper
	row    []byte
	err    error
	took   time.Duration
	feed   feed
	reader *driver.RowReader
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

// run maps a record.
func (m *side) run(rec *mapping.Record, maxRow int) {
	began := time.Now()
	m.row, m.err = m.mapper.AppendRow(m.row[:0], rec)
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
	m.feed.rest = m.row
	if !m.reader.Next() {
		panic(m.reader.Err()) // a mapper writes rows that a reader can read
	}
	return m.reader.Cells()
}

// align finds the columns that belong together.
func (s *Shadow) align(current, changed mapping.Columns) {
	find := func(columns mapping.Columns, name string) int {
		return slices.IndexFunc(columns, func(c mapping.Column) bool { return strings.EqualFold(c.Name, name) })
	}
	for j, c := range changed {
		i := find(current, c.Name)
		col := pair{current: i, changed: j, secret: c.Secret}
		out := Column{Name: c.Name, New: i < 0}
		if i >= 0 {
			col.secret = c.Secret || current[i].Secret
			out.Generated = c.Type == mapping.TypeUUID && current[i].Type == mapping.TypeUUID
		}
		s.columns = append(s.columns, col)
		s.report.Columns = append(s.report.Columns, out)
	}
	for i, c := range current {
		if find(changed, c.Name) < 0 {
			s.columns = append(s.columns, pair{current: i, changed: -1, secret: c.Secret})
			s.report.Columns = append(s.report.Columns, Column{Name: c.Name, Missing: true})
		}
	}
}

// count adds the results for a record to the report. Called with mu held.
func (s *Shadow) count(rec *mapping.Record) {
	r, current, changed := &s.report, &s.current, &s.changed
	r.CurrentTime += current.took
	r.ChangedTime += changed.took
	switch {
	case current.err == nil && changed.err == nil:
		s.countCells(rec)
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
		s.countError(rejectionOf(current.err), false)
	}
	if changed.err != nil {
		s.countError(rejectionOf(changed.err), true)
	}
}

// countCells compares the rows of a record that both mappings accept.
func (s *Shadow) countCells(rec *mapping.Record) {
	old, now := s.current.cells(), s.changed.cells()
	different := false
	for k, c := range s.columns {
		col := &s.report.Columns[k]
		if col.New || col.Missing || col.Generated {
			continue
		}
		a, b := old[c.current], now[c.changed]
		if bytes.Equal(a, b) && (a == nil) == (b == nil) {
			continue
		}
		different = true
		if col.Different++; len(col.Examples) < maxExamples {
			col.Examples = append(col.Examples, Example{Received: rec.Received, Current: c.show(a), Changed: c.show(b)})
		}
	}
	if different {
		s.report.Different++
	} else {
		s.report.Equal++
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
	return Cell{Text: kept.Cut(cell, exampleBytes)}
}

// rejectionOf describes the error of a mapper. Which definition it is of does not count.
func rejectionOf(err error) kept.Rejection { return kept.RejectionOf(err, kept.DefinitionName{}) }

func (s *Shadow) countError(r kept.Rejection, changed bool) {
	for i := range s.report.Errors {
		e := &s.report.Errors[i]
		if e.Changed == changed && e.Reason == r.Reason && e.Column == r.Column {
			e.Records++
			return
		}
	}
	if len(s.report.Errors) == maxErrors {
		s.report.OtherErrors++
		return
	}
	s.report.Errors = append(s.report.Errors, Rejection{
		Changed: changed, Reason: r.Reason, Column: r.Column, Records: 1, Message: r.Message,
	})
}

// recordOverhead is about the memory of the copy of a record in addition to its bytes.
const recordOverhead = 512

// recordSize is the memory of the copy of a record, without the JSON of structured data.
func recordSize(rec *mapping.Record) int64 {
	size := recordOverhead + len(rec.Body) + len(rec.Host)
	for name, values := range rec.Header {
		size += 64 + len(name)
		for _, v := range values {
			size += 16 + len(v)
		}
	}
	return int64(size)
}

// copyRecord returns a record that shares no memory with rec. Structured data has become its JSON. ok is false if it has no JSON form.
func copyRecord(rec *mapping.Record) (copied mapping.Record, ok bool) {
	copied = mapping.Record{
		Format: rec.Format, Host: strings.Clone(rec.Host), ClientIP: rec.ClientIP, Received: rec.Received,
	}
	if rec.Header != nil {
		copied.Header = make(http.Header, len(rec.Header))
		for name, values := range rec.Header {
			own := make([]string, len(values))
			for i, v := range values {
				own[i] = strings.Clone(v) // a server may reuse the memory of its headers
			}
			copied.Header[strings.Clone(name)] = own
		}
	}
	if rec.Document == nil {
		copied.Body = bytes.Clone(rec.Body)
		return copied, true
	}
	text, err := appendDocument(nil, rec.Document)
	copied.Body, copied.Format = text, mapping.FormatJSON
	return copied, err == nil
}

// appendDocument is d.AppendJSON for data that the current mapping may not read. A panic of its code must not end the caller.
func appendDocument(dst []byte, d mapping.Document) (_ []byte, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("forebay: the document panicked")
		}
	}()
	return d.AppendJSON(dst)
}
