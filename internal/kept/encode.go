package kept

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/mapping"
)

// Encoder encodes records without an allocation for each of them. The zero value is ready. It is for one goroutine at a time.
type Encoder struct {
	names   []string // of the headers, sorted
	removed []string
	text    []byte // the head
	body    []byte // of a document
}

// encode returns the head of a record as encoding/json writes an archivedHead, without its first two members if version is 0. The result is
// valid until the next call. ok is false for a record with texts that are not UTF-8, or with a time that JSON has no form for. [head.encodable]
// is for those.
func (e *Encoder) encode(version int, signal string, rec *mapping.Record, by *Redactor) (head []byte, ok bool) {
	if y := rec.Received.Year(); y < 0 || y > 9999 {
		return nil, false
	}
	dst := append(e.text[:0], '{')
	member := func(name string) {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), '"', ':')
	}
	ok = true
	text := func(s string) {
		ok = ok && utf8.ValidString(s)
		dst = jsontext.AppendString(dst, s, true)
	}
	optional := func(name, s string) {
		if s != "" {
			member(name)
			text(s)
		}
	}
	if version != 0 {
		member("v")
		dst = strconv.AppendInt(dst, int64(version), 10)
		optional("signal", signal)
	}
	if rec.Document != nil {
		member("document")
		dst = append(dst, "true"...)
	}
	if rec.Format != 0 {
		member("format")
		dst = strconv.AppendUint(dst, uint64(rec.Format), 10)
	}
	e.names, e.removed = e.names[:0], e.removed[:0]
	for name := range rec.Header {
		e.names = append(e.names, name)
	}
	slices.Sort(e.names)
	open := false
	for _, name := range e.names {
		values := rec.Header[name]
		if !by.keepsValues(name, values) {
			e.removed = append(e.removed, name)
			continue
		}
		if !open {
			open = true
			member("header")
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		text(name)
		dst = append(dst, ':')
		if values == nil {
			dst = append(dst, "null"...)
			continue
		}
		dst = append(dst, '[')
		for i, v := range values {
			if i > 0 {
				dst = append(dst, ',')
			}
			text(publicText(v))
		}
		dst = append(dst, ']')
	}
	if open {
		dst = append(dst, '}')
	}
	for i, name := range e.removed {
		if i == 0 {
			member("removed")
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		text(name)
	}
	if len(e.removed) > 0 {
		dst = append(dst, ']')
	}
	optional("host", rec.Host)
	optional("method", rec.Request.Method)
	optional("path", by.withoutSecrets(publicText(rec.Request.Path)))
	optional("query", by.withoutSecrets(publicText(rec.Request.Query)))
	if rec.ClientIP.IsValid() {
		member("clientIP")
		dst = append(rec.ClientIP.AppendTo(append(dst, '"')), '"')
	}
	if !rec.Received.IsZero() {
		member("received")
		var err error
		if dst, err = rec.Received.AppendText(append(dst, '"')); err != nil {
			ok = false
		}
		dst = append(dst, '"')
	}
	e.text = append(dst, '}')
	clear(e.names) // the names belong to the caller
	clear(e.removed)
	return e.text, ok
}

// bodyOf returns the body of a record, or its document as JSON. The result is valid until the next call.
func (e *Encoder) bodyOf(rec *mapping.Record) ([]byte, error) {
	if rec.Document == nil {
		return rec.Body, nil
	}
	if cap(e.body) > maxEncoderBody {
		e.body = nil
	}
	var err error
	e.body, err = rec.Document.AppendJSON(e.body[:0])
	return e.body, err
}

// maxEncoderBody is the capacity from which the memory of a document is not used for the next one.
const maxEncoderBody = 64 << 10
