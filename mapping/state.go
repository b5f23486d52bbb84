package mapping

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// recordState is what mappers have found out about a record. Everything in it belongs to the record alone, so nothing
// can pass from one record to another but through a missing reset.
type recordState struct {
	parsedAs Format // the format in which the body was parsed, FormatFromHeader if it was not
	html     bool   // the reading in which a form was written as JSON
	parseErr *cause // the outcome
	tape     tape
	text     []byte // JSON text made of a form or a document
	textErr  *cause
	hasText  bool

	headers       []byte // the headers as JSON
	headersCompat bool   // the reading in which headers was made
	hasHeaders    bool
	names         []string // scratch of the header code

	found   []uint32 // scratch of the path walk of the mapper that is at work
	scratch []byte   // scratch of one cell
}

// maxKeptBytes bounds each buffer that a reused record keeps after an unusually large event.
const maxKeptBytes = 256 << 10

func (s *recordState) reset() {
	s.parsedAs, s.parseErr, s.textErr, s.hasText = FormatFromHeader, nil, nil, false
	s.tape.reset()
	s.text = keep(s.text)
	s.headers, s.hasHeaders = keep(s.headers), false
	clear(s.names)
	s.names = s.names[:0]
	s.scratch = keep(s.scratch)
}

func keep(b []byte) []byte {
	if cap(b) > maxKeptBytes {
		return nil
	}
	return b[:0]
}

// cause is the failure of a cell before the column is known.
type cause struct {
	reason Reason
	err    error
}

func (r *Record) format(compat bool) Format {
	switch {
	case r.Document != nil:
		return FormatJSON
	case r.Format != FormatFromHeader:
		return r.Format
	}
	var contentType string
	if v := r.Header["Content-Type"]; len(v) > 0 {
		contentType = v[0]
	}
	if compat {
		return compatFormatOf(contentType)
	}
	return FormatOf(contentType)
}

var errOpaque = errors.New("the body has no fields: its Content-Type is neither JSON nor a form")

// parse makes the tape of the body, once.
func (r *Record) parse(compat bool) (*tape, *cause) {
	s := &r.state
	f := r.format(compat)
	if s.parsedAs == f && (f != FormatForm || s.html == compat) {
		return &s.tape, s.parseErr
	}
	s.parsedAs, s.parseErr, s.html = f, nil, compat
	text := r.Body
	switch {
	case r.Document != nil:
		if text, s.parseErr = r.documentText(); s.parseErr != nil {
			return &s.tape, s.parseErr
		}
	case f == FormatForm:
		var err error
		if s.text, err = appendForm(s.text[:0], r.Body, compat); err != nil {
			s.parseErr = &cause{InvalidBody, err}
			return &s.tape, s.parseErr
		}
		text = s.text
	case f == FormatOpaque:
		s.parseErr = &cause{UnsupportedBody, errOpaque}
		return &s.tape, s.parseErr
	}
	if err := s.tape.parse(text); err != nil {
		s.parseErr = &cause{InvalidBody, err}
	}
	return &s.tape, s.parseErr
}

// documentText writes the document, once.
func (r *Record) documentText() ([]byte, *cause) {
	s := &r.state
	if !s.hasText {
		s.hasText = true
		var err error
		if s.text, err = r.Document.AppendJSON(s.text[:0]); err != nil {
			s.textErr = &cause{InvalidBody, fmt.Errorf("the document cannot be written as JSON: %w", err)}
		}
	}
	return s.text, s.textErr
}

// rawBody returns the bytes of the body as they were received.
func (r *Record) rawBody() ([]byte, *cause) {
	if r.Document != nil {
		return r.documentText()
	}
	return r.Body, nil
}

// headerNames returns the names of the headers in order. The slice is valid until the next call.
func (r *Record) headerNames() []string {
	names := r.state.names[:0]
	for name, values := range r.Header {
		if len(values) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	r.state.names = names
	return names
}

// headerValue returns the value of one header: the values of a repeated one are joined, as RFC 9110 section 5.3 allows.
func headerValue(name string, values []string, compat bool) string {
	switch {
	case len(values) == 1 || compat && name != "Cookie":
		return values[0]
	case name == "Cookie":
		return strings.Join(values, "; ")
	}
	return strings.Join(values, ", ")
}

// header returns the value of a header by its name in any case.
func (r *Record) header(name string, compat bool) (string, bool) {
	values, ok := r.Header[name]
	if !ok {
		name = http.CanonicalHeaderKey(name)
		values = r.Header[name]
	}
	if len(values) == 0 {
		return "", false
	}
	return headerValue(name, values, compat), true
}

// headersJSON returns the headers as a compact JSON object with sorted names. The slice is valid until the next reset.
func (r *Record) headersJSON(compat bool) []byte {
	s := &r.state
	if s.hasHeaders && s.headersCompat == compat {
		return s.headers
	}
	b := append(s.headers[:0], '{')
	for i, name := range r.headerNames() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONString(b, name, compat)
		b = append(b, ':')
		b = appendJSONString(b, headerValue(name, r.Header[name], compat), compat)
	}
	s.headers, s.hasHeaders, s.headersCompat = append(b, '}'), true, compat
	return s.headers
}

// headersText returns one "name: value" line for each value, sorted, each with its line end.
func (r *Record) headersText(compat bool) string {
	var lines []string
	size := 0
	for name, values := range r.Header {
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
