package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

// maxEvents bounds the events of one request, and with them the memory that their records take.
const maxEvents = 10_000

// events are the records of a request whose body was split. The memory is reused.
type events struct {
	records []*mapping.Record
	n       int
}

// split cuts body into events that share the rest of rec. They are valid until the body is, and until reuse.
func (ev *events) split(mode forebay.Split, body []byte, rec *mapping.Record) ([]*mapping.Record, *wire.Error) {
	var e *wire.Error
	switch {
	case mode == forebay.SplitLines:
		e = ev.lines(body, rec)
	case !json.Valid(body):
		e = names.Errorf(http.StatusUnprocessableEntity, "unprocessableContent",
			"The source splits bodies as JSON, and this body is not JSON: %s. Nothing of it was stored. Send a JSON array of events.", notJSON(body))
	default:
		e = ev.elements(body, rec)
	}
	return ev.records[:ev.n], e
}

// notJSON says where a body is not JSON.
func notJSON(body []byte) string {
	var value json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&value); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("it ends after %d bytes, before its value does", len(body))
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, &value)); ok {
		return fmt.Sprintf("it is wrong at byte %d", syntax.Offset-1)
	}
	return "it cannot be read"
}

// add appends one event. It reports false when there are too many.
func (ev *events) add(event []byte, rec *mapping.Record) bool {
	if ev.n == maxEvents {
		return false
	}
	if ev.n == len(ev.records) {
		ev.records = append(ev.records, new(mapping.Record))
	}
	r := ev.records[ev.n]
	ev.n++
	r.Body, r.Format, r.Header, r.Host = event, mapping.FormatJSON, rec.Header, rec.Host
	r.Request, r.ClientIP, r.Received = rec.Request, rec.ClientIP, rec.Received
	return true
}

// reuse forgets the events of a request.
func (ev *events) reuse() {
	for _, r := range ev.records[:ev.n] {
		r.Reset()
	}
	ev.n = 0
}

func tooManyEvents() *wire.Error {
	return names.Errorf(http.StatusRequestEntityTooLarge, "payloadTooLarge",
		"The body has more than %d events. Nothing of it was stored: send smaller batches.", maxEvents)
}

func (ev *events) lines(body []byte, rec *mapping.Record) *wire.Error {
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte("\n"))
		body = rest
		if line = bytes.TrimSpace(line); len(line) > 0 && !ev.add(line, rec) {
			return tooManyEvents()
		}
	}
	return nil
}

// elements cuts a valid JSON array. Another value is one event.
func (ev *events) elements(body []byte, rec *mapping.Record) *wire.Error {
	body = bytes.TrimSpace(body)
	if body[0] != '[' {
		ev.add(body, rec)
		return nil
	}
	begin, depth := 1, 0
	cut := func(end int) bool {
		element := bytes.TrimSpace(body[begin:end])
		begin = end + 1
		return len(element) == 0 || ev.add(element, rec) // only the empty array has an empty element
	}
	for i := 1; i < len(body); i++ {
		switch body[i] {
		case '"':
			for i++; body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ',':
			if depth == 0 && !cut(i) {
				return tooManyEvents()
			}
		case ']', '}':
			if depth == 0 {
				if !cut(i) {
					return tooManyEvents()
				}
				return nil
			}
			depth--
		}
	}
	return nil
}
