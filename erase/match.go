package erase

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/quarantine"
)

// matcher is a compiled [Match].
type matcher struct {
	Match
	lower  []byte // Text in lower case
	header string // canonical
	path   *mapping.Mapper
}

func newMatcher(m Match, opts mapping.Options) (*matcher, error) {
	out := &matcher{Match: m, lower: bytes.ToLower([]byte(m.Text)), header: http.CanonicalHeaderKey(m.Header)}
	if m.Path != "" {
		var err error
		if out.path, err = mapping.Compile(mapping.Columns{mapping.Path("value", m.Path, mapping.RawString())}, opts); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// record reports whether a record meets all conditions. readable is false if its body has no fields, and the path says nothing about it.
func (m *matcher) record(rec *mapping.Record) (found, readable bool) {
	readable = true
	found = true
	if m.path != nil {
		found, readable = m.hasValue(rec)
	}
	return found && (m.Header == "" || m.hasHeader(rec.Header)) && (m.Text == "" || m.hasText(rec)), readable
}

// hasValue reports whether the body has Match.Value at Match.Path.
func (m *matcher) hasValue(rec *mapping.Record) (found, readable bool) {
	rec = &mapping.Record{Body: rec.Body, Format: rec.Format, Header: rec.Header, Document: rec.Document}
	defer rec.Release()
	cell, err := m.path.AppendCell(nil, 0, rec)
	if err == nil {
		return string(cell) == m.Value, true
	}
	e, ok := errors.AsType[*mapping.Error](err)
	if ok && e.Reason == mapping.UnsupportedBody && json.Valid(rec.Body) { // its sender has named another type
		return m.hasValue(mapping.JSON(rec.Body))
	}
	return false, ok && e.Reason == mapping.MissingValue
}

func (m *matcher) hasHeader(header http.Header) bool {
	for name, values := range header {
		if http.CanonicalHeaderKey(name) == m.header && slices.Contains(values, m.HeaderValue) {
			return true
		}
	}
	return false
}

func (m *matcher) hasText(rec *mapping.Record) bool {
	for _, text := range []string{rec.Host, rec.Request.Path, rec.Request.Query} {
		if m.in([]byte(text)) {
			return true
		}
	}
	if rec.ClientIP.IsValid() && m.in([]byte(rec.ClientIP.String())) {
		return true
	}
	for name, values := range rec.Header {
		for _, v := range values {
			if m.in([]byte(name + ": " + v)) {
				return true
			}
		}
	}
	return m.in(rec.Body)
}

// mostEscapes is how many escapes of a text inside of each other are read. A form with JSON whose texts are JSON has three.
const mostEscapes = 4

// in reports whether a text has Match.Text, as it is or within the escapes of JSON and of forms.
func (m *matcher) in(text []byte) bool { return m.within(text, mostEscapes) }

func (m *matcher) within(text []byte, escapes int) bool {
	if bytes.Contains(bytes.ToLower(text), m.lower) {
		return true
	}
	if escapes == 0 {
		return false
	}
	if bytes.IndexByte(text, '\\') >= 0 {
		if plain := unescape(text); !bytes.Equal(plain, text) && m.within(plain, escapes-1) {
			return true
		}
	}
	if bytes.IndexByte(text, '%') >= 0 { // a + is a space in a form, and itself in other places
		if plain := withoutPercent(text); !bytes.Equal(plain, text) && m.within(plain, escapes-1) {
			return true
		}
	}
	if bytes.IndexByte(text, '+') >= 0 && bytes.IndexByte(m.lower, ' ') >= 0 {
		return m.within(bytes.ReplaceAll(text, []byte("+"), []byte(" ")), escapes-1)
	}
	return false
}

// unescape replaces the escapes of JSON strings in a text, one level of them.
func unescape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		n := 2 // bytes of the escape
		if text[i+1] == 'u' {
			n = 6
			if i+12 <= len(text) && text[i+6] == '\\' && text[i+7] == 'u' { // perhaps a pair of surrogates
				n = 12
			}
		}
		var s string
		if i+n <= len(text) && json.Unmarshal(slices.Concat([]byte{'"'}, text[i:i+n], []byte{'"'}), &s) == nil {
			out = append(out, s...)
			i += n - 1
			continue
		}
		out = append(out, text[i])
	}
	return out
}

// withoutPercent decodes the bytes that are written as %XX.
func withoutPercent(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+3 <= len(text) {
			if plain, err := hex.DecodeString(string(text[i+1 : i+3])); err == nil {
				out = append(out, plain...)
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return out
}

// rejected reports whether a rejected record meets all conditions, as it arrived or as it was edited.
func (m *matcher) rejected(c *quarantine.Content, data []byte, rules rowRules) (found, readable bool) {
	if c.Poison != nil {
		cells, err := kept.Cells(c.Poison, data)
		if err == nil && m.row(c.Poison.Columns, cells, rules) {
			return true, true
		}
		// The original row has the same columns.
		var came map[string]*string
		if err != nil || !c.Edited || json.Unmarshal(c.Came, &came) != nil {
			return false, err == nil
		}
		for i, column := range c.Poison.Columns {
			cells[i] = nil
			if text := came[column.Name]; text != nil {
				cells[i] = []byte(*text)
			}
		}
		return m.row(c.Poison.Columns, cells, rules), true
	}
	if found, readable = m.record(c.Record); found || !c.Edited {
		return found, readable
	}
	first := *c.Record
	first.Body = c.Came
	return m.record(&first)
}

// rowRules say which columns of a mapped row contain the fields that the conditions name.
type rowRules struct {
	// values has the cells that stand for Match.Value, by columns that the mapping fills from Match.Path.
	values map[string][]string
	// bodies and headers are columns with the whole body, or all headers.
	bodies, headers []string
	// made are columns that the engine fills, such as the time of the arrival.
	made []string
}

// hasText reports whether Match.Text is looked for in a column. Times and numbers with a point would match by chance, in rows of other people.
func (r rowRules) hasText(c datatype.Column) bool {
	switch c.Type {
	case datatype.Untyped, datatype.String, datatype.JSON, datatype.UUID, datatype.Int64:
		return !slices.Contains(r.made, c.Name)
	}
	return false
}

// rules returns how rows of a sink are matched, by its definition of now.
func (er *Erasure) rules(source, sink string) (r rowRules) {
	src, _ := er.host.Source(source)
	i := slices.IndexFunc(src.Sinks, func(s Sink) bool { return s.ID == sink })
	if i < 0 {
		return r
	}
	return er.match.rulesOf(src.Sinks[i].Columns)
}

func (m *matcher) rulesOf(columns mapping.Columns) (r rowRules) {
	r.values = map[string][]string{}
	for _, c := range columns {
		switch {
		case c.Type == mapping.TypeBody, c.Type == mapping.TypePath && c.Path == "":
			r.bodies = append(r.bodies, c.Name)
		case c.Type == mapping.TypeDatetime, c.Type == mapping.TypeUUID:
			r.made = append(r.made, c.Name)
		case c.Type == mapping.TypeHeaders:
			r.headers = append(r.headers, c.Name)
		case c.Type == mapping.TypePath && m.Path != "" && (samePath(c.Path, m.Path) || c.ElsePath != "" && samePath(c.ElsePath, m.Path)):
			r.values[c.Name] = m.cellsOf(c)
		}
	}
	return r
}

// blind says that mapped rows do not tell whether they meet the conditions. It is empty if they do.
func (m *matcher) blind(r rowRules) string {
	switch {
	case m.Path != "" && len(r.values)+len(r.bodies) == 0:
		return "No column has the path, so no row is found by it. Search by a text too."
	case m.Header != "" && len(r.headers) == 0:
		return "No column has the headers, so no row is found by them. Search by a text too."
	}
	return ""
}

// samePath reports whether two spellings mean one path.
func samePath(a, b string) bool {
	trim := func(path string) string { return strings.Trim(path, ".") }
	return trim(a) == trim(b)
}

// cellsOf returns the cells that a column may have for Match.Value.
func (m *matcher) cellsOf(c mapping.Column) []string {
	text, err := json.Marshal(m.Value)
	if err != nil {
		return nil // a text has a JSON form
	}
	if c.DataType == datatype.Untyped {
		return []string{m.Value, string(text)}
	}
	var cells []string
	c.Path, c.ElsePath, c.Default, c.TypeOptions.Required = "value", "", nil, true
	mapper, err := mapping.Compile(mapping.Columns{c}, mapping.Options{})
	if err != nil {
		return nil
	}
	for _, value := range [][]byte{text, []byte(m.Value)} {
		if !json.Valid(value) {
			continue
		}
		rec := mapping.JSON(slices.Concat([]byte(`{"value":`), value, []byte(`}`)))
		if cell, err := mapper.AppendCell(nil, 0, rec); err == nil && !slices.Contains(cells, string(cell)) {
			cells = append(cells, string(cell))
		}
		rec.Release()
	}
	return cells
}

// row reports whether a mapped row meets all conditions.
func (m *matcher) row(columns []datatype.Column, cells [][]byte, rules rowRules) bool {
	if len(columns) != len(cells) {
		return false
	}
	some := func(meets func(column datatype.Column, cell []byte) bool) bool {
		for i, cell := range cells {
			if cell != nil && meets(columns[i], cell) {
				return true
			}
		}
		return false
	}
	if m.Path != "" && !some(func(c datatype.Column, cell []byte) bool {
		if slices.Contains(rules.values[c.Name], string(cell)) {
			return true
		}
		if !slices.Contains(rules.bodies, c.Name) {
			return false
		}
		found, _ := m.hasValue(bodyRecord(cell))
		return found
	}) {
		return false
	}
	if m.Header != "" && !some(func(c datatype.Column, cell []byte) bool {
		return slices.Contains(rules.headers, c.Name) && m.hasHeader(headersOf(cell))
	}) {
		return false
	}
	return m.Text == "" || some(func(c datatype.Column, cell []byte) bool { return rules.hasText(c) && m.in(cell) })
}

// bodyRecord returns the record of a cell with a body: JSON, or else a form.
func bodyRecord(cell []byte) *mapping.Record {
	if json.Valid(cell) || !utf8.Valid(cell) {
		return mapping.JSON(cell)
	}
	return &mapping.Record{Body: cell, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}
}

// headersOf reads a cell of a column with all headers.
func headersOf(cell []byte) http.Header {
	var texts map[string]json.RawMessage
	if json.Unmarshal(cell, &texts) != nil {
		return nil
	}
	header := http.Header{}
	for name, raw := range texts {
		var one string
		var many []string
		if json.Unmarshal(raw, &one) == nil {
			many = []string{one}
		} else if json.Unmarshal(raw, &many) != nil {
			continue
		}
		header[name] = many
	}
	return header
}
