package mapping

import (
	"errors"
	"fmt"
	"sync"
)

// recordState is what mappers have found out about a record. Everything in it belongs to the record alone, so nothing
// can pass from one record to another but through a missing reset.
type recordState struct {
	owner *Record // whose it is: a copy of a record must not use or release what belongs to the original

	parsedAs Format // the format in which the body was parsed, FormatFromHeader if it was not
	html     bool   // the reading in which a form was written as JSON
	parseErr *cause // the outcome
	tape     tape
	text     []byte // JSON text made of a form or a document
	textErr  *cause
	hasText  bool

	headers     []byte      // the headers as a cell
	headerStyle headerStyle // how that cell was written, zero if it was not
	fields      []headerField

	found   []uint32 // scratch of the path walk of the mapper that is at work
	scratch []byte   // scratch of one cell
	quoted  []byte   // scratch of one text that becomes a JSON string
}

// states is apart from the records because many of these may be waiting while few are being mapped: with a state in each,
// a thousand callers in turn would never find theirs in the caches.
var states = sync.Pool{New: func() any { return new(recordState) }}

// parsed returns the state of the record.
func (r *Record) parsed() *recordState {
	if s := r.state; s != nil && s.owner == r {
		return s
	}
	s := states.Get().(*recordState)
	s.owner, r.state = r, s
	return s
}

// maxKeptBytes bounds each buffer that the pool keeps after an unusually large event.
const maxKeptBytes = 256 << 10

func (s *recordState) reset() {
	s.parsedAs, s.parseErr, s.textErr, s.hasText = FormatFromHeader, nil, nil, false
	s.tape.reset()
	s.text = keep(s.text)
	s.headers, s.headerStyle = keep(s.headers), 0
	clear(s.fields)
	s.fields = s.fields[:0]
	s.scratch = keep(s.scratch)
	s.quoted = keep(s.quoted)
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
	spot   Spot // in the template
}

func (c *cause) error(column string) *Error { return &Error{column, c.reason, c.err, c.spot} }

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
	s := r.parsed()
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
			s.parseErr = &cause{reason: InvalidBody, err: err}
			return &s.tape, s.parseErr
		}
		text = s.text
	case f == FormatOpaque:
		s.parseErr = &cause{reason: UnsupportedBody, err: errOpaque}
		return &s.tape, s.parseErr
	}
	if err := s.tape.parse(text); err != nil {
		s.parseErr = &cause{reason: InvalidBody, err: err}
	}
	return &s.tape, s.parseErr
}

// documentText writes the document, once.
func (r *Record) documentText() ([]byte, *cause) {
	s := r.parsed()
	if !s.hasText {
		s.hasText = true
		var err error
		if s.text, err = r.Document.AppendJSON(s.text[:0]); err != nil {
			s.textErr = &cause{reason: InvalidBody, err: fmt.Errorf("the document cannot be written as JSON: %w", err)}
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
