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
	Failed  int       `json:"failed,omitempty"` // replays
	TriedAt time.Time `json:"triedAt,omitzero"` // of the last one
}

// maxRejectMessage bounds the message that is kept with a record, in bytes.
const maxRejectMessage = 1 << 10

// infoOf describes a rejection by the mapping with this fingerprint.
func infoOf(err error, fingerprint string) rejectInfo {
	info := rejectInfo{Reason: reasonOf(err), Message: err.Error(), Mapping: fingerprint}
	if m, ok := errors.AsType[*mapping.Error](err); ok {
		info.Column = m.Column
	}
	if len(info.Message) > maxRejectMessage {
		end := maxRejectMessage
		for end > 0 && !utf8.RuneStart(info.Message[end]) {
			end--
		}
		info.Message = info.Message[:end] + "…"
	}
	return info
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
	ClientIP netip.Addr     `json:"clientIP,omitzero"`
	Received time.Time      `json:"received,omitzero"`
}

// keep encodes a record. What it returns shares no memory with it. A document that has no JSON form cannot be kept.
func keep(rec *mapping.Record) ([]byte, error) {
	head := keptHead{Document: rec.Document != nil, Format: rec.Format, Host: rec.Host, ClientIP: rec.ClientIP, Received: rec.Received}
	for _, name := range slices.Sorted(maps.Keys(rec.Header)) {
		if isSecretHeader(name) {
			head.Removed = append(head.Removed, name)
			continue
		}
		if head.Header == nil {
			head.Header = http.Header{}
		}
		head.Header[name] = rec.Header[name]
	}
	data := head.append(nil)
	if rec.Document == nil {
		return append(data, rec.Body...), nil
	}
	return rec.Document.AppendJSON(data)
}

func (h *keptHead) append(data []byte) []byte {
	text, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("forebay: encode %T: %v", h, err)) // it holds texts, an address and the time of an arrival
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
	rec = &mapping.Record{
		Format: head.Format, Header: head.Header, Host: head.Host, ClientIP: head.ClientIP, Received: head.Received,
		Body: rest[size:],
	}
	if head.Document {
		rec.Format = mapping.FormatJSON
	}
	return head, rec, nil
}

// secretWords are parts of the names of headers that are never stored. What a gateway or a client adds for its own log-in is not part
// of an event.
var secretWords = []string{"auth", "cookie", "token", "secret", "key", "password", "passwd", "signature", "credential", "session", "jwt"}

// publicHeaders have such a part and no secret.
var publicHeaders = []string{"idempotency-key"}

// isSecretHeader reports whether a header may hold a secret, by its name in any case.
func isSecretHeader(name string) bool {
	name = strings.ToLower(name)
	return !slices.Contains(publicHeaders, name) && slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// rejectOf makes the record that a quarantine keeps.
func rejectOf(rec *mapping.Record, cause error, fingerprint string) (buffer.Reject, error) {
	data, err := keep(rec)
	if err != nil {
		return buffer.Reject{}, err
	}
	return buffer.Reject{Info: infoOf(cause, fingerprint).encode(), Data: data}, nil
}
