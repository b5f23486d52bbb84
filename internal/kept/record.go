package kept

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// A kept record is a version byte, the length of the head as a varint, the head as JSON, and the body as it is. An edit replaces the
// body alone.
const keptVersion = 1

// head is a record without its body.
type head struct {
	Document bool           `json:"document,omitempty"` // the body was structured data, which is kept as its JSON
	Format   mapping.Format `json:"format,omitempty"`
	Header   http.Header    `json:"header,omitempty"`
	Removed  []string       `json:"removed,omitempty"` // names of headers that are not kept
	Host     string         `json:"host,omitempty"`
	Method   string         `json:"method,omitempty"`
	Path     string         `json:"path,omitempty"`
	Query    string         `json:"query,omitempty"`
	ClientIP netip.Addr     `json:"clientIP,omitzero"`
	Received time.Time      `json:"received,omitzero"`
	// Raw are the texts above that are not UTF-8, which JSON alters, by the names of their members. RawHeader are the headers with a name
	// or a value that is not UTF-8.
	Raw       map[string][]byte `json:"raw,omitempty"`
	RawHeader []rawHeader       `json:"rawHeader,omitempty"`
	// Unix takes the place of a Received that JSON has no form for, such as the year 10000.
	Unix *unixTime `json:"unix,omitempty"`
}

type rawHeader struct {
	Name   []byte   `json:"name"`
	Values [][]byte `json:"values"`
}

type unixTime struct {
	Seconds     int64 `json:"s"`
	Nanoseconds int64 `json:"ns,omitempty"`
}

// texts are the members that Raw may have.
func (h *head) texts() map[string]*string {
	return map[string]*string{"host": &h.Host, "method": &h.Method, "path": &h.Path, "query": &h.Query}
}

// noteRaw moves what JSON would alter or refuse to Raw, RawHeader and Unix.
func (h *head) noteRaw() {
	for name, text := range h.texts() {
		if !utf8.ValidString(*text) {
			if h.Raw == nil {
				h.Raw = map[string][]byte{}
			}
			h.Raw[name] = []byte(*text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Header)) {
		if utf8.ValidString(name) && !slices.ContainsFunc(h.Header[name], func(v string) bool { return !utf8.ValidString(v) }) {
			continue
		}
		raw := rawHeader{Name: []byte(name)}
		for _, v := range h.Header[name] {
			raw.Values = append(raw.Values, []byte(v))
		}
		h.RawHeader = append(h.RawHeader, raw)
		delete(h.Header, name)
	}
	if _, err := h.Received.MarshalJSON(); err != nil {
		h.Unix, h.Received = &unixTime{h.Received.Unix(), int64(h.Received.Nanosecond())}, time.Time{}
	}
}

// restoreRaw undoes noteRaw.
func (h *head) restoreRaw() {
	for name, text := range h.texts() {
		if raw, ok := h.Raw[name]; ok {
			*text = string(raw)
		}
	}
	for _, raw := range h.RawHeader {
		if h.Header == nil {
			h.Header = http.Header{}
		}
		values := make([]string, len(raw.Values))
		for i, v := range raw.Values {
			values[i] = string(v)
		}
		h.Header[string(raw.Name)] = values
	}
	if h.Unix != nil {
		h.Received = time.Unix(h.Unix.Seconds, h.Unix.Nanoseconds).UTC()
	}
	h.Raw, h.RawHeader, h.Unix = nil, nil, nil
}

// Reject returns the entry of a quarantine for a record that a mapper has rejected. It shares no memory with the record. A document without a
// JSON form is an error.
func Reject(rec *mapping.Record, cause error, definition DefinitionName, by *Redactor) (buffer.Reject, error) {
	data, err := keep(rec, by)
	if err != nil {
		return buffer.Reject{}, err
	}
	return buffer.Reject{Info: RejectionOf(cause, definition).Encode(), Data: data}, nil
}

// keep encodes a record without what may be a secret.
func keep(rec *mapping.Record, by *Redactor) ([]byte, error) {
	var e Encoder
	text, ok := e.encode(0, "", rec, by)
	if !ok {
		h := headOf(rec, by).encodable()
		var err error
		if text, err = json.Marshal(h); err != nil {
			panic(fmt.Sprintf("forebay: encode %T: %v", h, err)) // it holds texts, an address and a time that has a form
		}
	}
	data := binary.AppendUvarint([]byte{keptVersion}, uint64(len(text)))
	data = append(data, text...)
	if rec.Document == nil {
		return append(data, rec.Body...), nil
	}
	return rec.Document.AppendJSON(data)
}

// headOf returns the head of a record, without what may be a secret.
func headOf(rec *mapping.Record, by *Redactor) head {
	h := head{
		Document: rec.Document != nil, Format: rec.Format, Host: rec.Host, ClientIP: rec.ClientIP, Received: rec.Received, Method: rec.Request.Method,
		Path: by.withoutSecrets(publicText(rec.Request.Path)), Query: by.withoutSecrets(publicText(rec.Request.Query)),
	}
	h.Header, h.Removed = by.headers(rec.Header)
	return h
}

// encodable returns the head in a form that JSON does not alter.
func (h head) encodable() head {
	h.Header = maps.Clone(h.Header)
	h.noteRaw()
	return h
}

// Parse reads a kept record. The record aliases data. removed are the names of headers that were not kept.
func Parse(data []byte) (rec *mapping.Record, removed []string, err error) {
	text, body, err := split(data)
	if err != nil {
		return nil, nil, err
	}
	var h head
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, nil, fmt.Errorf("forebay: the head of the kept record cannot be read: %w", err)
	}
	h.restoreRaw()
	return h.record(body), h.Removed, nil
}

// WithBody returns a kept record with a different body. It does not change data.
func WithBody(data, body []byte) ([]byte, error) {
	_, old, err := split(data)
	if err != nil {
		return nil, err
	}
	return slices.Concat(data[:len(data)-len(old)], body), nil
}

// split returns the parts of a kept record.
func split(data []byte) (head, body []byte, err error) {
	if len(data) == 0 || data[0] != keptVersion {
		return nil, nil, errors.New("forebay: the record was kept by a later version of the library")
	}
	size, n := binary.Uvarint(data[1:])
	rest := data[1+max(n, 0):]
	if n <= 0 || size > uint64(len(rest)) {
		return nil, nil, errors.New("forebay: the kept record is cut short")
	}
	return rest[:size], rest[size:], nil
}

// record returns a record with this head. It aliases both.
func (h *head) record(body []byte) *mapping.Record {
	rec := &mapping.Record{
		Format: h.Format, Header: h.Header, Host: h.Host, ClientIP: h.ClientIP, Received: h.Received,
		Request: mapping.RequestLine{Method: h.Method, Path: h.Path, Query: h.Query}, Body: body,
	}
	if h.Document {
		rec.Format = mapping.FormatJSON
	}
	return rec
}
