package mapping

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/mapping/internal/tape"
)

type headerField struct {
	name, value string
	prefix      uint64 // the first bytes of the name, as a number that compares like them
}

// before is the order of names.
func (f *headerField) before(g *headerField) bool {
	return f.prefix < g.prefix || f.prefix == g.prefix && f.name < g.name
}

func prefixOf(name string) (prefix uint64) {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(tape.AsBytes(name))
	}
	for i := range len(name) {
		prefix |= uint64(name[i]) << (56 - 8*i)
	}
	return prefix
}

// headerStyle says how the headers cell was written. It is styleWritten, alone or with the others.
type headerStyle uint8

const (
	styleWritten headerStyle = 1 << iota
	styleCompat              // as the published service does
	styleCSV                 // with quotes doubled
)

// hostName is the header that has its own field in a record.
const hostName = "Host"

// hasHost reports whether the field Host holds the header name.
func (r *Record) hasHost(name string) bool { return r.Host != "" && name == hostName }

// headerFields returns the headers in the order of their names. The slice is valid until the next call.
func (r *Record) headerFields(compat bool) []headerField {
	s := r.parsed()
	fields := s.fields[:0]
	if r.Host != "" {
		fields = append(fields, headerField{hostName, r.Host, prefixOf(hostName)})
	}
	for name, values := range r.Header {
		if len(values) > 0 && !r.hasHost(name) {
			fields = append(fields, headerField{name, headerValue(name, values, compat), prefixOf(name)})
		}
	}
	s.fields = fields
	if len(fields) > 20 {
		slices.SortFunc(fields, func(a, b headerField) int { return strings.Compare(a.name, b.name) })
		return fields
	}
	for i := 1; i < len(fields); i++ {
		if !fields[i].before(&fields[i-1]) {
			continue
		}
		f := fields[i]
		k := i
		for ; k > 0 && f.before(&fields[k-1]); k-- {
			fields[k] = fields[k-1]
		}
		fields[k] = f
	}
	return fields
}

// headerValue returns the value of one header. The values of a repeated one are joined, as RFC 9110 section 5.3 allows.
func headerValue(name string, values []string, compat bool) string {
	switch {
	case len(values) == 1 || compat && name != "Cookie":
		return values[0]
	case name == "Cookie":
		return strings.Join(values, "; ")
	}
	return strings.Join(values, ", ")
}

// header returns the value of a header by its canonical name.
func (r *Record) header(name string, compat bool) (string, bool) {
	if r.hasHost(name) {
		return r.Host, true
	}
	values := r.Header[name]
	if len(values) == 0 {
		return "", false
	}
	return headerValue(name, values, compat), true
}

// headersCell returns the headers as a compact JSON object with sorted names, written as style says. The slice is valid
// until the record is released.
//
// The design that lost keeps the cell for the next record with equal headers. Only tests send equal headers. Real ones differ
// in a length, a date or an id.
func (r *Record) headersCell(style headerStyle) []byte {
	s := r.parsed()
	style |= styleWritten
	if s.headerStyle == style {
		return s.headers
	}
	compat := style&styleCompat != 0
	s.headersRepaired = false
	b := append(s.headers[:0], '{')
	for i, f := range r.headerFields(compat) {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendHeaderText(b, f.name, style)
		b = append(b, ':')
		b = s.appendHeaderText(b, f.value, style)
	}
	s.headers, s.headerStyle = append(b, '}'), style
	return s.headers
}

func (s *recordState) appendHeaderText(dst []byte, text string, style headerStyle) []byte {
	compat := style&styleCompat != 0
	if !compat && style&styleCSV != 0 && jsontext.IsPlain(text) {
		dst = append(dst, '"', '"')
		dst = append(dst, text...)
		return append(dst, '"', '"')
	}
	s.headersRepaired = s.headersRepaired || !utf8.ValidString(text)
	if style&styleCSV == 0 {
		return jsontext.AppendString(dst, text, compat)
	}
	s.scratch = jsontext.AppendString(s.scratch[:0], text, compat)
	return tape.AppendCSV(dst, s.scratch)
}

// headersText returns one "name: value" line for each value, sorted, each with its line end.
func (r *Record) headersText(compat bool) string {
	var lines []string
	size := 0
	if r.Host != "" {
		lines = append(lines, hostName+": "+r.Host+"\n")
		size += len(lines[0])
	}
	for name, values := range r.Header {
		if r.hasHost(name) {
			continue
		}
		if compat && name == "Cookie" && len(values) > 1 {
			values = []string{headerValue(name, values, compat)}
		}
		for _, v := range values {
			if compat {
				v = values[0]
			}
			lines = append(lines, name+": "+v+"\n")
			size += len(name) + len(v) + 3
		}
	}
	slices.Sort(lines)
	var b strings.Builder
	b.Grow(size)
	for _, l := range lines {
		b.WriteString(l)
	}
	return b.String()
}
