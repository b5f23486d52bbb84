package forebay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// rejectInfo is what the engine keeps in buffer.Reject.Info: why a record was rejected. It has no value of a secret column, because
// the errors of a mapper have none.
type rejectInfo struct {
	Reason  string    `json:"reason"`
	Column  string    `json:"column,omitempty"`
	Message string    `json:"message"`
	Mapping string    `json:"mapping"`
	Version int       `json:"version,omitempty"`
	Failed  int       `json:"failed,omitempty"` // replays
	TriedAt time.Time `json:"triedAt,omitzero"` // of the last one
	// EditedAt and EditedBy are of the last edit. Releases before them left both out.
	EditedAt time.Time `json:"editedAt,omitzero"`
	EditedBy string    `json:"editedBy,omitempty"`
}

// maxRejectMessage bounds the message that is kept with a record, in bytes.
const maxRejectMessage = 1 << 10

// infoOf describes a rejection by the definition with this name.
func infoOf(err error, name definitionName) rejectInfo {
	info := rejectInfo{Reason: reasonOf(err), Message: err.Error(), Mapping: name.mapping, Version: name.version}
	if m, ok := errors.AsType[*mapping.Error](err); ok {
		info.Column = m.Column
	}
	info.Message = cutText(info.Message, maxRejectMessage)
	return info
}

// cutText cuts what is longer than so many bytes.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

func (i rejectInfo) encode() []byte {
	text, err := json.Marshal(i)
	if err != nil {
		panic(fmt.Sprintf("forebay: encode %T: %v", i, err)) // it holds texts, a number and a time of this age
	}
	return text
}

// reasonOf is the name of a rejection in [SinkStats.Rejected].
func reasonOf(err error) string {
	if _, ok := errors.AsType[*RowTooLargeError](err); ok {
		return reasonTooLarge
	}
	if m, ok := errors.AsType[*mapping.Error](err); ok && int(m.Reason) < reasons {
		return m.Reason.String()
	}
	return mapping.Reason(0).String()
}

const reasonTooLarge = "rowTooLarge"

// definitionName names a definition of a sink.
type definitionName struct {
	mapping string // fingerprint of the columns
	version int    // Sink.Version
}

func nameOf(s *Sink) definitionName { return definitionName{fingerprint(s.Table.Columns), s.Version} }

// label is what the buffer keeps with rows, for those that the target refuses.
func (n definitionName) label() string {
	if n.version == 0 {
		return n.mapping
	}
	return fmt.Sprintf("%s.%d", n.mapping, n.version)
}

// parseLabel is empty for rows of a release that gave no label.
func parseLabel(label string) (n definitionName) {
	mapping, version, _ := strings.Cut(label, ".")
	n.mapping = mapping
	n.version, _ = strconv.Atoi(version)
	return n
}

// fingerprint names columns: equal columns have equal names.
func fingerprint(columns mapping.Columns) string {
	text, err := json.Marshal(columns)
	if err != nil {
		return "" // columns that were compiled have a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// A kept record is a version byte, the length of the head as a varint, the head as JSON, and the body as it is. An edit replaces the
// body alone.
const keptVersion = 1

// keptHead is a record without its body.
type keptHead struct {
	Document bool           `json:"document,omitempty"` // the body was structured data: it is kept as its JSON
	Format   mapping.Format `json:"format,omitempty"`
	Header   http.Header    `json:"header,omitempty"`
	Removed  []string       `json:"removed,omitempty"` // names of headers that are not kept
	Host     string         `json:"host,omitempty"`
	Method   string         `json:"method,omitempty"`
	Path     string         `json:"path,omitempty"`
	Query    string         `json:"query,omitempty"`
	ClientIP netip.Addr     `json:"clientIP,omitzero"`
	Received time.Time      `json:"received,omitzero"`
	// Raw are texts from above that are not UTF-8, which JSON alters, by the names of their members. RawHeader are the headers of which a
	// name or a value is not.
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
func (h *keptHead) texts() map[string]*string {
	return map[string]*string{"host": &h.Host, "method": &h.Method, "path": &h.Path, "query": &h.Query}
}

// noteRaw sets what JSON would alter or refuse.
func (h *keptHead) noteRaw() {
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
func (h *keptHead) restoreRaw() {
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

// keep encodes a record without what may be a secret. What it returns shares no memory with the record. A document that has no JSON form
// cannot be kept.
func keep(rec *mapping.Record, what *keptParts) ([]byte, error) {
	head := headOf(rec, what)
	data := head.append(nil)
	if rec.Document == nil {
		return append(data, rec.Body...), nil
	}
	return rec.Document.AppendJSON(data)
}

// headOf returns what is kept of a record beside its body.
func headOf(rec *mapping.Record, what *keptParts) keptHead {
	head := keptHead{
		Document: rec.Document != nil, Format: rec.Format, Host: rec.Host, ClientIP: rec.ClientIP, Received: rec.Received, Method: rec.Request.Method,
		Path: what.withoutSecrets(publicText(rec.Request.Path)), Query: what.withoutSecrets(publicText(rec.Request.Query)),
	}
	head.Header, head.Removed = what.headers(rec.Header)
	return head
}

// encodable returns what JSON has a form for.
func (h keptHead) encodable() keptHead {
	h.Header = maps.Clone(h.Header)
	h.noteRaw()
	return h
}

func (h keptHead) append(data []byte) []byte {
	text, err := json.Marshal(h.encodable())
	if err != nil {
		panic(fmt.Sprintf("forebay: encode %T: %v", h, err)) // it holds texts, an address and a time that has a form
	}
	data = binary.AppendUvarint(append(data, keptVersion), uint64(len(text)))
	return append(data, text...)
}

// parseKept reads what keep has encoded. The record aliases data.
func parseKept(data []byte) (head keptHead, rec *mapping.Record, err error) {
	if len(data) == 0 || data[0] != keptVersion {
		return head, nil, errors.New("forebay: the record was kept by a later version of the library")
	}
	size, n := binary.Uvarint(data[1:])
	rest := data[1+max(n, 0):]
	if n <= 0 || size > uint64(len(rest)) {
		return head, nil, errors.New("forebay: the kept record is cut short")
	}
	if err := json.Unmarshal(rest[:size], &head); err != nil {
		return head, nil, fmt.Errorf("forebay: the head of the kept record cannot be read: %w", err)
	}
	head.restoreRaw()
	return head, head.record(rest[size:]), nil
}

// record returns a record with this head. It aliases both.
func (h *keptHead) record(body []byte) *mapping.Record {
	rec := &mapping.Record{
		Format: h.Format, Header: h.Header, Host: h.Host, ClientIP: h.ClientIP, Received: h.Received,
		Request: mapping.RequestLine{Method: h.Method, Path: h.Path, Query: h.Query}, Body: body,
	}
	if h.Document {
		rec.Format = mapping.FormatJSON
	}
	return rec
}

// rejectOf makes the record that a quarantine keeps.
func rejectOf(rec *mapping.Record, cause error, name definitionName, what *keptParts) (buffer.Reject, error) {
	data, err := keep(rec, what)
	if err != nil {
		return buffer.Reject{}, err
	}
	return buffer.Reject{Info: infoOf(cause, name).encode(), Data: data}, nil
}
