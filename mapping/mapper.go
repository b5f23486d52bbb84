package mapping

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forebay/forebay/internal/jsontext"
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
}

// cell is the plan of one column.
type cell struct {
	typ    Type
	name   string
	path   tape.Path
	node   int // of the path in Mapper.paths
	raw    bool
	onNull bool
	def    []byte // text of the default, nil if there is none
	prog   *template.Program
}

// Compile checks the columns and returns their mapper. The error is a [DefinitionErrors] with every fault, or the error of
// [Options.Validate].
func Compile(cols Columns, opts Options) (*Mapper, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.slots == nil {
		opts = opts.Shared()
	}
	m := &Mapper{cells: make([]cell, len(cols)), compat: opts.Compat}
	var faults DefinitionErrors
	if len(cols) == 0 || len(cols) > MaxColumns {
		faults = append(faults, &DefinitionError{
			Index: -1, Field: "columns",
			Err: fmt.Errorf("a mapping has 1 to %d columns, not %d", MaxColumns, len(cols)),
		})
	}
	names := make(map[string]int, len(cols))
	for i, c := range cols {
		fault := func(field string, line, col int, err error) {
			faults = append(faults, &DefinitionError{i, c.Name, field, line, col, err})
		}
		if c.Name == "" {
			fault("name", 0, 0, errors.New("must not be empty"))
		} else if first, ok := names[c.Name]; ok {
			fault("name", 0, 0, fmt.Errorf("column %d has the same name; names are unique in a mapping", first+1))
		} else {
			names[c.Name] = i
		}
		m.cells[i] = cell{typ: c.Type, name: c.Name, raw: c.RawString, onNull: c.DefaultOnNull}
		m.compileCell(&m.cells[i], c, opts, fault)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	m.paths.Index()
	m.uuids.begin()
	return m, nil
}

// compileCell makes the plan of a column. It reports every fault, also fields that belong to another type.
func (m *Mapper) compileCell(cl *cell, c Column, opts Options, fault func(field string, line, col int, err error)) {
	switch c.Type {
	case TypeUUID, TypeDatetime, TypeIP, TypeBody, TypeHeaders:
		if c.RawString {
			fault("rawString", 0, 0, errors.New("applies to path and template columns only"))
		}
	case TypePath:
		p, err := tape.ParsePath(c.Path, opts.Compat)
		var pe *tape.PathError
		if errors.As(err, &pe) {
			fault("path", 1, pe.Offset+1, errors.New(pe.Msg))
		} else {
			cl.path, cl.node = p, m.paths.Add(p)
		}
		if c.Default != nil {
			if cl.def, err = defaultText(c.Default, c.RawString, opts.Compat); err != nil {
				fault("defaultValue", 0, 0, err)
			}
		}
	case TypeTemplate:
		if c.Template.Language != "jsonnet" {
			fault("template.language", 0, 0, fmt.Errorf("%q is not known; the language is %q", c.Template.Language, "jsonnet"))
			return
		}
		prog, faults := template.Compile(c.Template.Content, template.Options{
			Budget: template.Budget(opts.Budget), Compat: opts.Compat, Slots: opts.slots,
		})
		for _, f := range faults {
			fault("template.content", f.Line, f.Col, errors.New(f.Msg))
		}
		cl.prog = prog
	default:
		fault("type", 0, 0, fmt.Errorf("%q is not a column type; use uuid, datetime, ip, body, headers, path or template", c.Type))
	}
	if c.Type != TypeTemplate && c.Template != (TemplateSource{}) {
		fault("template", 0, 0, errors.New("applies to template columns only"))
	}
	if c.Type != TypePath {
		if c.Path != "" {
			fault("path", 0, 0, errors.New("applies to path columns only"))
		}
		if c.Default != nil {
			fault("defaultValue", 0, 0, errors.New("applies to path columns only"))
		}
		if c.DefaultOnNull {
			fault("defaultOnNull", 0, 0, errors.New("applies to path columns only"))
		}
	} else if c.DefaultOnNull && c.Default == nil {
		fault("defaultOnNull", 0, 0, errors.New("needs a defaultValue"))
	}
}

// defaultText returns the cell text of a default. With compat a string has the escapes of the published service.
func defaultText(def json.RawMessage, raw, compat bool) ([]byte, error) {
	var t tape.Tape
	var se *tape.SyntaxError
	if errors.As(t.Parse(def), &se) {
		return nil, fmt.Errorf("is not a JSON value: %s at byte %d of %.60q", se.Msg, se.Offset, def)
	}
	switch {
	case t.Nodes[0].Kind != tape.String:
	case raw:
		return t.AppendText([]byte{}, 0), nil
	case compat:
		return jsontext.AppendString(nil, string(t.AppendText(nil, 0)), true), nil
	}
	return t.AppendValue(nil, 0), nil
}

// ColumnNames returns the names of the columns in the order of the cells. The caller owns the slice.
func (m *Mapper) ColumnNames() []string {
	names := make([]string, len(m.cells))
	for i := range m.cells {
		names[i] = m.cells[i].name
	}
	return names
}

// Cell is the value of one column, as a payload test shows it.
type Cell struct {
	// Column is the name of the column.
	Column string
	// Value is the text before CSV quoting, empty if Err is set.
	Value string
	// Err is nil or an [*Error].
	Err error
}

// Cells returns all cells of a record, each with its value or its own error.
func (m *Mapper) Cells(r *Record) []Cell {
	cells := make([]Cell, len(m.cells))
	for i := range m.cells {
		text, err := m.AppendCell(nil, i, r)
		cells[i] = Cell{m.cells[i].name, string(text), err}
	}
	return cells
}

// AppendCell appends the text of column i, before CSV quoting, and returns the extended slice. When it fails it returns
// dst as it was and an [*Error].
func (m *Mapper) AppendCell(dst []byte, i int, r *Record) ([]byte, error) {
	w := rowWriter{m: m, r: r, s: r.parsed(), plain: true}
	out, fail := w.append(dst, &m.cells[i])
	if fail != nil {
		return dst, fail.in(m.cells[i].name)
	}
	return out, nil
}

// AppendRow appends one CSV row and returns the extended slice. The row follows RFC 4180, but ends with a bare "\n"; every cell
// is quoted. Columns are evaluated from left to right, and the first failure rejects the row: AppendRow then returns dst with
// its old length and an [*Error].
//
// dst must not overlap the record, and is not kept. A zero Mapper returns an error of another type.
func (m *Mapper) AppendRow(dst []byte, r *Record) ([]byte, error) {
	if len(m.cells) == 0 {
		return dst, errors.New("mapping: a zero Mapper has no columns; Compile makes one")
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
			return dst, fail.in(m.cells[i].name)
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

	looked bool       // the places of the paths are in recordState.found
	tape   *tape.Tape // the parsed body
	unread *Error     // or why it cannot be read
}

// append appends the text of a cell of any type: as it is if plain, else with its quotes doubled, without those around it. After
// a failure the result is of no use.
func (w *rowWriter) append(dst []byte, c *cell) ([]byte, *Error) {
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
	w.s.event = event{r, w.m.compat}
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
			return dst, s.missing(&c.path, false, false)
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
