package mapping

import (
	"errors"
	"fmt"
	"sync"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// recordState is what mappers have parsed of a record. It belongs to that record alone, so only a missing reset could carry a
// value from one record to another.
type recordState struct {
	owner *Record // a copy of a record must not use or release what belongs to the original

	parsedAs Format // how the body was parsed, FormatFromHeader if it was not
	html     bool   // whether a form was written as JSON for Compat
	parseErr *Error // why the body cannot be read
	tape     tape.Tape
	text     []byte // JSON text made of a form or a document
	textErr  *Error
	hasText  bool

	headers         []byte      // the headers as a cell
	headerStyle     headerStyle // how that cell was written, zero if it was not
	headersRepaired bool        // it has U+FFFD for bytes that are not UTF-8
	fields          []headerField

	event   event     // what templates read
	found   []uint32  // scratch of the path walk of the mapper that is at work
	scratch []byte    // scratch of one cell
	quoted  []byte    // scratch of one text that becomes a JSON string or is parsed
	inner   tape.Tape // of a text that is a document, for typed columns
}

// states is a separate pool because many records wait while few are mapped. With a state in each record, a thousand callers
// would never find theirs in the processor's caches.
var states = sync.Pool{New: func() any { return new(recordState) }}

func (r *Record) parsed() *recordState {
	if s := r.state; s != nil && s.owner == r {
		return s
	}
	s := states.Get().(*recordState)
	s.owner, r.state = r, s
	return s
}

func (s *recordState) reset() {
	s.parsedAs, s.parseErr, s.textErr, s.hasText = FormatFromHeader, nil, nil, false
	s.tape.Reset()
	s.text = tape.Keep(s.text)
	s.headers, s.headerStyle = tape.Keep(s.headers), 0
	s.event = event{}
	clear(s.fields)
	s.fields = s.fields[:0]
	s.scratch = tape.Keep(s.scratch)
	s.quoted = tape.Keep(s.quoted)
	s.inner.Reset()
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

var (
	errOpaque = errors.New("the body has no fields: its Content-Type is neither JSON nor a form; send Content-Type: application/json if the body is JSON")
	// errNoFormat is about a record of a program, which has no header.
	errNoFormat = errors.New("the body has no fields: the record has neither a Content-Type nor a Format; set Format: mapping.FormatJSON, or use mapping.JSON")
)

// parse makes the tape of the body, once.
func (r *Record) parse(compat bool) (*tape.Tape, *Error) {
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
			s.parseErr = &Error{Reason: InvalidBody, Err: err}
			return &s.tape, s.parseErr
		}
		text = s.text
	case f == FormatOpaque:
		s.parseErr = &Error{Reason: UnsupportedBody, Err: errOpaque}
		if r.Header == nil && r.Format == FormatFromHeader {
			s.parseErr.Err = errNoFormat
		}
		return &s.tape, s.parseErr
	}
	if err := s.tape.Parse(text); err != nil {
		s.parseErr = &Error{Reason: InvalidBody, Err: err}
	}
	return &s.tape, s.parseErr
}

// documentText writes the document, once.
func (r *Record) documentText() ([]byte, *Error) {
	s := r.parsed()
	if !s.hasText {
		s.hasText = true
		var err error
		if s.text, err = r.Document.AppendJSON(s.text[:0]); err != nil {
			s.textErr = &Error{Reason: InvalidBody, Err: fmt.Errorf("the document cannot be written as JSON: %w", err)}
		}
	}
	return s.text, s.textErr
}

// rawBody returns the bytes of the body as they were received.
func (r *Record) rawBody() ([]byte, *Error) {
	if r.Document != nil {
		return r.documentText()
	}
	return r.Body, nil
}
