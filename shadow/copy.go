package shadow

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/mapping"
)

// recordOverhead is about the memory of the copy of a record in addition to its bytes.
const recordOverhead = 512

// headers are the request headers that the mappings read. The others are not copied.
type headers struct {
	names []string
	all   bool
}

// headersOf returns the headers that mappers read.
func headersOf(mappers ...*mapping.Mapper) (h headers) {
	h.names = []string{"Content-Type"} // it says how a body is parsed
	for _, m := range mappers {
		names, all := m.Headers()
		h.all = h.all || all
		h.names = append(h.names, names...)
	}
	slices.Sort(h.names)
	h.names = slices.Compact(h.names)
	return h
}

// sizeOf is the memory of the copy of a record, without the JSON of structured data.
func (h headers) sizeOf(rec *mapping.Record) int64 {
	size := recordOverhead + len(rec.Body) + len(rec.Host)
	add := func(name string, values []string) {
		size += 64 + len(name)
		for _, v := range values {
			size += 16 + len(v)
		}
	}
	if h.all {
		for name, values := range rec.Header {
			add(name, values)
		}
		return int64(size)
	}
	for _, name := range h.names {
		if values, ok := rec.Header[name]; ok {
			add(name, values)
		}
	}
	return int64(size)
}

// copy makes r a copy that shares no memory with rec. It uses the memory of the record that r was before, and its texts if they are equal.
// Structured data has become its JSON. ok is false if it has no JSON form.
func (h headers) copy(r *waitingRecord, rec *mapping.Record) (ok bool) {
	host := r.rec.Host
	if host != rec.Host {
		host = strings.Clone(rec.Host) // a server may reuse the memory of its texts
	}
	r.rec = mapping.Record{Format: rec.Format, Host: host, ClientIP: rec.ClientIP, Received: rec.Received}
	if rec.Header != nil {
		h.copyHeader(r, rec.Header)
		r.rec.Header = r.head
	}
	if rec.Document == nil {
		r.body = append(r.body[:0], rec.Body...)
		r.rec.Body = r.body
		return true
	}
	text, err := appendDocument(r.body[:0], rec.Document)
	r.body, r.rec.Body, r.rec.Format = text, text, mapping.FormatJSON
	return err == nil
}

func (h headers) copyHeader(r *waitingRecord, from http.Header) {
	if r.head == nil {
		r.head = http.Header{}
	}
	if h.all {
		if !maps.EqualFunc(r.head, from, slices.Equal[[]string]) {
			clear(r.head)
			for name, values := range from {
				r.head[strings.Clone(name)] = cloneTexts(values)
			}
		}
		return
	}
	for _, name := range h.names {
		values, ok := from[name]
		switch have, had := r.head[name]; {
		case !ok:
			delete(r.head, name)
		case !had || !slices.Equal(have, values):
			r.head[name] = cloneTexts(values)
		}
	}
}

func cloneTexts(texts []string) []string {
	own := make([]string, len(texts))
	for i, v := range texts {
		own[i] = strings.Clone(v)
	}
	return own
}

// appendDocument is d.AppendJSON for data that the current mapping may not read. A panic of its code must not end the caller. On an error it returns
// dst.
func appendDocument(dst []byte, d mapping.Document) (text []byte, err error) {
	defer func() {
		if recover() != nil {
			text, err = dst, errors.New("forebay: the document panicked")
		}
	}()
	return d.AppendJSON(dst)
}
