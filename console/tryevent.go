package console

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/mapping"
)

// tried is an event as the page edits it.
type tried struct {
	// Headers are lines "Name: value".
	Headers string `json:"headers"`
	Body    string `json:"body"`
	IP      string `json:"ip"`
	// Received is in RFC 3339. Empty means now.
	Received string `json:"received"`
	// Format is json, form or opaque. Empty goes by the Content-Type.
	Format string `json:"format"`
}

// formats are the values of tried.Format.
var formats = map[string]mapping.Format{
	"": mapping.FormatFromHeader, "json": mapping.FormatJSON, "form": mapping.FormatForm, "opaque": mapping.FormatOpaque,
}

// record reads the event. The problem of a field is a refusal that names it.
func (e tried) record(now time.Time) (*mapping.Record, error) {
	bad := func(field, format string, args ...any) error {
		return &refusal{http.StatusUnprocessableEntity, visible(fmt.Sprintf(format, args...)), map[string]any{"event": field}}
	}
	if len(e.Body) > maxEvent {
		return nil, &refusal{http.StatusRequestEntityTooLarge, "The event has more than 1 MiB.", map[string]any{"event": "body"}}
	}
	rec := &mapping.Record{Body: []byte(e.Body), Received: now.UTC(), Header: make(http.Header)}
	var known bool
	if rec.Format, known = formats[e.Format]; !known {
		return nil, bad("format", "There is no format %q.", e.Format)
	}
	number := 0
	for line := range strings.Lines(e.Headers) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, bad("headers", "Line %d of the headers is not “Name: value”.", number)
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.TrimSpace(value)
		if name == "Host" {
			rec.Host = value
			continue
		}
		rec.Header[name] = append(rec.Header[name], value)
	}
	var err error
	if e.IP != "" {
		if rec.ClientIP, err = netip.ParseAddr(e.IP); err != nil {
			return nil, bad("ip", "%q is no IP address.", e.IP)
		}
	}
	if e.Received != "" {
		if rec.Received, err = time.Parse(time.RFC3339Nano, e.Received); err != nil {
			return nil, bad("received", "%q is no time such as 2026-01-02T15:04:05Z.", e.Received)
		}
		rec.Received = rec.Received.UTC()
	}
	return rec, nil
}

// tryEvent returns an event of the quarantine.
func (c *request) tryEvent() (any, error) {
	kept, err := c.eng.Sink(c.query.Get("source"), c.query.Get("sink")).Quarantine().Get(c.ctx, c.query.Get("id"))
	if err != nil {
		return nil, unknownRecord(err)
	}
	if kept.Poison != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "The table has refused this row. Its event is gone.")
	}
	rec := kept.Record
	if len(rec.Body) > maxEvent {
		return nil, refuse(http.StatusUnprocessableEntity, "The event has %s, more than the playground takes.", size(int64(len(rec.Body))).Text)
	}
	var answer struct {
		tried
		Request string   `json:"request"`
		Removed []string `json:"removed"`
		// Changed says that the body has bytes which a text cannot show.
		Changed bool `json:"changed"`
	}
	var lines strings.Builder
	if rec.Host != "" {
		fmt.Fprintf(&lines, "Host: %s\n", rec.Host)
	}
	names := make([]string, 0, len(rec.Header))
	for name := range rec.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range rec.Header[name] {
			fmt.Fprintf(&lines, "%s: %s\n", name, v)
		}
	}
	answer.Headers, answer.Body = lines.String(), strings.ToValidUTF8(string(rec.Body), "\uFFFD")
	answer.Changed = answer.Body != string(rec.Body)
	if rec.ClientIP.IsValid() {
		answer.IP = rec.ClientIP.String()
	}
	if !rec.Received.IsZero() {
		answer.Received = rec.Received.UTC().Format(time.RFC3339Nano)
	}
	for name, f := range formats {
		if f == rec.Format {
			answer.Format = name
		}
	}
	if r := rec.Request; r.Method != "" {
		answer.Request = strings.TrimSuffix(r.Method+" "+r.Path+"?"+r.Query, "?")
	}
	answer.Removed = kept.Removed
	return answer, nil
}
