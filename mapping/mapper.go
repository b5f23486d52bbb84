package mapping

import (
	"bytes"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/mapping/internal/tape"
	"github.com/forebay/forebay/mapping/internal/template"
)

// Mapper turns records into CSV rows with the columns of one sink. It is immutable and safe for concurrent use. A record belongs
// to one goroutine at a time.
type Mapper struct {
	cells  []cell
	paths  tape.Paths
	uuids  uuidSource
	compat bool
	plans  memberPlans
}

// cell is the plan of one column.
type cell struct {
	typ     Type
	name    string
	inTable datatype.Column
	path    tape.Path
	node    int // of the path in Mapper.paths
	raw     bool
	onNull  bool
	def     []byte // text of the default, nil if there is none
	prog    *template.Program
	secret  bool
	limits  *datatype.Limits // of the target, if this untyped column may produce values beyond them
	typed   *typedCell       // nil for an untyped column
	other   *cell            // of ElsePath, nil without it
}

// Columns returns the columns of the table in the order of the cells, each as [Column.InTable]. The caller owns the slice.
func (m *Mapper) Columns() []datatype.Column {
	columns := make([]datatype.Column, len(m.cells))
	for i := range m.cells {
		columns[i] = m.cells[i].inTable
	}
	return columns
}

// Headers returns which request headers the mapper may read, by their canonical names, sorted, or all of them. The Content-Type, which may say how a
// body is parsed, is not among them unless a column reads it.
func (m *Mapper) Headers() (names []string, all bool) {
	for i := range m.cells {
		switch c := &m.cells[i]; {
		case c.typ == TypeHeaders:
			return nil, true
		case c.prog != nil:
			reads := c.prog.Headers()
			if reads.All {
				return nil, true
			}
			names = append(names, reads.Names...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), false
}

// Cell is the value of one column, as a payload test shows it.
type Cell struct {
	// Column is the name of the column, and Type the type of its values.
	Column string
	Type   datatype.Type
	// Value is the text before CSV quoting, empty if Err or Null is set. It is *** in a [Column.Secret].
	Value string
	// Null is set for NULL.
	Null bool
	// Err is nil or an [*Error].
	Err error
}

// Cells returns all cells of a record, each with its value or its own error.
func (m *Mapper) Cells(r *Record) []Cell {
	cells := make([]Cell, len(m.cells))
	for i := range m.cells {
		cells[i] = m.Cell(i, r)
	}
	return cells
}

// Cell returns cell i of a record, as [Mapper.Cells] does, for callers that bound the time of a whole row.
func (m *Mapper) Cell(i int, r *Record) Cell {
	text, null, err := m.appendCell(nil, i, r)
	c := &m.cells[i]
	out := Cell{Column: c.name, Value: string(text), Null: null, Err: err}
	if c.typed != nil {
		out.Type = c.typed.typ
	}
	if c.secret && err == nil && !null {
		out.Value = hidden
	}
	return out
}

// AppendCell appends the text of column i, before CSV quoting, and returns the extended slice. NULL has no text: [Mapper.Cells]
// tells it from the empty text. When it fails it returns dst as it was and an [*Error].
func (m *Mapper) AppendCell(dst []byte, i int, r *Record) ([]byte, error) {
	dst, _, err := m.appendCell(dst, i, r)
	return dst, err
}

func (m *Mapper) appendCell(dst []byte, i int, r *Record) (_ []byte, null bool, err error) {
	w := rowWriter{m: m, r: r, s: r.parsed(), plain: true}
	out, fail := w.append(dst, &m.cells[i])
	if fail != nil {
		return dst, false, fail.in(&m.cells[i])
	}
	return out, w.null, nil
}

// AppendRow appends one CSV row and returns the extended slice. The row follows RFC 4180, but ends with a bare "\n". NULL is
// nothing at all, and every other cell is quoted. Columns are evaluated from left to right, and the first failure rejects the row:
// AppendRow then returns dst with its old length and an [*Error].
//
// dst must not overlap the record, and is not kept. A zero Mapper returns an error of another type.
func (m *Mapper) AppendRow(dst []byte, r *Record) ([]byte, error) {
	if len(m.cells) == 0 {
		return dst, errors.New("mapping: a zero Mapper has no columns; Compile makes one")
	}
	switch d := r.Document.(type) {
	case memberDocument:
		return m.appendMembers(dst, r, d)
	case fieldsDocument:
		return m.appendFields(dst, r, d)
	}
	w := rowWriter{m: m, r: r, s: r.parsed()}
	out := dst
	for i := range m.cells {
		if i > 0 {
			out = append(out, ',', '"')
		} else {
			out = append(out, '"')
		}
		var fail *Error
		if out, fail = w.append(out, &m.cells[i]); fail != nil {
			return dst, fail.in(&m.cells[i])
		}
		if w.null {
			out, w.null = out[:len(out)-1], false
			continue
		}
		out = append(out, '"')
	}
	return append(out, '\n'), nil
}

// rowWriter writes the cells of one record.
type rowWriter struct {
	m     *Mapper
	r     *Record
	s     *recordState // of r
	plain bool         // no CSV quoting
	null  bool         // the cell that was appended is NULL, and nothing was appended

	looked bool       // the places of the paths are in recordState.found
	tape   *tape.Tape // the parsed body
	unread *Error     // or why it cannot be read
}

// append appends the text of a cell of any type, as it is if plain, else with its quotes doubled, without those around it. After
// a failure the result is of no use.
func (w *rowWriter) append(dst []byte, c *cell) ([]byte, *Error) {
	if c.typed != nil {
		return w.appendTyped(dst, c)
	}
	out, fail := w.appendUntyped(dst, c)
	return w.checkUntyped(len(dst), out, c, fail)
}

// checkUntyped rejects the cell that begins in out if the target cannot store it.
func (w *rowWriter) checkUntyped(begin int, out []byte, c *cell, fail *Error) ([]byte, *Error) {
	if fail != nil || c.limits == nil {
		return out, fail
	}
	text, why := out[begin:], celltype.OK
	size := len(text)
	if !w.plain && c.limits.MaxCell > 0 && size > c.limits.MaxCell {
		size -= bytes.Count(text, []byte(`""`)) // quotes are doubled
	}
	switch {
	case c.limits.MaxCell > 0 && size > c.limits.MaxCell:
		why = celltype.TooLong
	case c.limits.UTF8 && !utf8.Valid(text):
		why = celltype.NotUTF8
	case c.limits.NoNUL && bytes.IndexByte(text, 0) >= 0:
		why = celltype.HasNUL
	default:
		return out, nil
	}
	return out[:begin], misfit(datatype.Untyped, why, celltype.Text, text)
}

func (w *rowWriter) appendUntyped(dst []byte, c *cell) ([]byte, *Error) {
	r := w.r
	switch c.typ {
	case TypeUUID:
		return w.m.uuids.appendText(dst), nil
	case TypeDatetime:
		return appendDatetime(dst, r.Received), nil
	case TypeIP:
		return appendIP(dst, r, w.m.compat), nil
	case TypeBody:
		if _, fields := r.Document.(FieldDocument); !fields && !w.plain && w.m.paths.Len() > 0 {
			// The paths need the tape anyway, and the tape knows where the quotes are.
			if !w.looked {
				w.find()
			}
			if w.unread == nil && w.s.parsedAs == FormatJSON {
				return w.tape.AppendCSV(dst), nil
			}
		}
		body, fail := r.rawBody()
		if fail != nil {
			return dst, fail
		}
		return w.put(dst, body), nil
	case TypeHeaders:
		var style headerStyle
		if w.m.compat {
			style = styleCompat
		}
		if !w.plain {
			style |= styleCSV
		}
		return append(dst, r.headersCell(style)...), nil
	case TypePath:
		return w.appendPath(dst, c)
	}
	w.s.event = event{r: r, compat: w.m.compat}
	text, fail := c.prog.Append(w.s.scratch[:0], &w.s.event, c.raw)
	w.s.scratch = text
	if fail != nil {
		return dst, templateError(fail)
	}
	return w.put(dst, text), nil
}

// put appends a text, and doubles its quotes unless the writer is plain.
func (w *rowWriter) put(dst, text []byte) []byte {
	if w.plain {
		return append(dst, text...)
	}
	return tape.AppendCSV(dst, text)
}

// find parses the body and looks for all paths of the mapper, once for a row.
func (w *rowWriter) find() {
	w.looked = true
	r := w.r
	if w.tape, w.unread = r.parse(w.m.compat); w.unread != nil {
		return
	}
	w.s.found = w.m.paths.Find(w.tape, w.s.found)
}

// appendPath is append for a path column.
func (w *rowWriter) appendPath(dst []byte, c *cell) ([]byte, *Error) {
	if w.r.Document != nil && len(c.path.Steps) > 0 {
		if d, ok := w.r.Document.(FieldDocument); ok {
			return w.appendField(dst, d, c)
		}
	}
	if !w.looked {
		w.find()
	}
	if w.unread != nil {
		if c.def == nil || w.m.compat {
			return dst, w.unread
		}
		return w.put(dst, c.def), nil
	}
	s, t := w.s, w.tape
	at := s.found[c.node]
	if at == 0 {
		if c.def == nil {
			return dst, s.missing(&c.path, pathColumn, false)
		}
		return w.put(dst, c.def), nil
	}
	n := &t.Nodes[at-1]
	switch {
	case n.Kind == tape.Null && c.onNull:
		return w.put(dst, c.def), nil
	case n.Kind == tape.String && n.Flags == 0: // no escape, hence no quote
		switch text := t.Text[n.Start+1 : n.End-1]; {
		case c.raw:
			return append(dst, text...), nil
		case !w.plain:
			return append(append(append(dst, '"', '"'), text...), '"', '"'), nil
		}
		return append(dst, t.Text[n.Start:n.End]...), nil
	case n.Kind == tape.String && c.raw:
		s.scratch = t.AppendText(s.scratch[:0], at-1)
		return w.put(dst, s.scratch), nil
	case n.Kind < tape.String:
		return append(dst, t.Text[n.Start:n.End]...), nil
	case n.Flags&(tape.Spaced|tape.NonASCII) == 0:
		return w.put(dst, t.Text[n.Start:n.End]), nil
	}
	s.scratch = t.AppendValue(s.scratch[:0], at-1)
	return w.put(dst, s.scratch), nil
}

func appendIP(dst []byte, r *Record, compat bool) []byte {
	if !r.ClientIP.IsValid() {
		if compat {
			return append(dst, "<nil>"...)
		}
		return dst
	}
	// An IPv4 sender on a dual-stack listener has an IPv4-mapped address.
	return r.ClientIP.Unmap().WithZone("").AppendTo(dst)
}
