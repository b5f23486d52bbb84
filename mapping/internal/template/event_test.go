//go:build !forebay_notemplates

package template

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// jsonEvent is an event with a JSON body and a header.
type jsonEvent struct {
	body   string
	parsed *tape.Tape
}

// sampleEvent is an event with values of all types.
func sampleEvent() *jsonEvent {
	return &jsonEvent{body: `{"a":{"b":"text","n":[1,2.5,-3e2,9007199254740993]},"t":true,"z":null,"arr":[3,1,2],"s":"10"}`}
}

var eventHeader = map[string]string{"X-Env": "prod", "User-Agent": "curl/8 <x>"}

func (e *jsonEvent) Size() int                  { return len(e.body) }
func (e *jsonEvent) AppendIP(dst []byte) []byte { return append(dst, "203.0.113.7"...) }
func (e *jsonEvent) Time() time.Time            { return time.Date(2024, 2, 29, 13, 4, 5, 67_000_000, time.UTC) }

func (e *jsonEvent) AppendTime(dst []byte) []byte {
	return e.Time().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}
func (e *jsonEvent) BodyBytes() ([]byte, error) { return []byte(e.body), nil }

func (e *jsonEvent) Body() (*tape.Tape, error) {
	if e.parsed == nil {
		e.parsed = new(tape.Tape)
		if err := e.parsed.Parse([]byte(e.body)); err != nil {
			return nil, err
		}
	}
	return e.parsed, nil
}

func (e *jsonEvent) AppendField(dst []byte, _ *tape.Path) ([]byte, FieldKind) {
	return dst, FieldUnknown
}

var errMissing = errors.New("missing")

func (e *jsonEvent) Missing(*tape.Path) error   { return errMissing }
func (e *jsonEvent) MissingHeader(string) error { return errMissing }

func (e *jsonEvent) Header(name string) (string, bool) {
	v, ok := eventHeader[name]
	return v, ok
}
func (e *jsonEvent) Headers() iter.Seq2[string, string] { return maps.All(eventHeader) }
func (e *jsonEvent) HeaderText() string                 { return "User-Agent: curl/8 <x>\nX-Env: prod\n" }

// compile is Compile with the faults as one error.
func compile(content string, opts Options) (*Program, error) {
	p, faults := Compile(content, opts)
	errs := make([]error, len(faults))
	for i, f := range faults {
		if errs[i] = errors.New(f.Msg); f.Line > 0 {
			errs[i] = fmt.Errorf("%d:%d: %s", f.Line, f.Col, f.Msg)
		}
	}
	return p, errors.Join(errs...)
}

// eval is Append to an empty slice.
func (p *Program) eval(ev Event) ([]byte, error) {
	out, fail := p.Append(nil, ev, false)
	if fail != nil {
		return out, fail.Err
	}
	return out, nil
}
