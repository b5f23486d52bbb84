package mapping

import (
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/mapping/internal/tape"
	"github.com/forebay/forebay/mapping/internal/template"
)

// event is a record as templates read it, a [template.Event]. It is a part of the record's state, so that to evaluate a
// template allocates nothing.
type event struct {
	r      *Record
	compat bool
	mended bool // a field of a document was not UTF-8
}

// replacement is the text that a template reads in place of a byte that is not UTF-8, or of half a surrogate pair.
const replacement = string(utf8.RuneError)

// repaired reports why a template may have read a replacement that the sender has not sent; OK if there was no reason.
func (e *event) repaired() celltype.Reason {
	body, _ := e.r.rawBody()
	bad := e.mended || !utf8.Valid(body)
	for _, f := range e.r.headerFields(e.compat) {
		bad = bad || !utf8.ValidString(f.name) || !utf8.ValidString(f.value)
	}
	if bad {
		return celltype.NotUTF8
	}
	if t, fail := e.r.parse(e.compat); fail == nil {
		return celltype.CheckJSON(t.Text, false)
	}
	return celltype.OK
}

func (e *event) Size() int                    { return len(e.r.Body) }
func (e *event) AppendIP(dst []byte) []byte   { return appendIP(dst, e.r, e.compat) }
func (e *event) AppendTime(dst []byte) []byte { return appendDatetime(dst, e.r.Received) }
func (e *event) Time() time.Time              { return e.r.Received }
func (e *event) HeaderText() string           { return e.r.headersText(e.compat) }

func (e *event) BodyBytes() ([]byte, error) {
	b, fail := e.r.rawBody()
	if fail != nil {
		return nil, fail
	}
	return b, nil
}

func (e *event) Body() (*tape.Tape, error) {
	t, fail := e.r.parse(e.compat)
	if fail != nil {
		return nil, fail
	}
	return t, nil
}

func (e *event) AppendField(dst []byte, path *tape.Path) ([]byte, template.FieldKind) {
	d, ok := e.r.Document.(FieldDocument)
	if !ok {
		return dst, template.FieldUnknown
	}
	from := len(dst)
	dst, kind := d.AppendField(dst, FieldPath{*path})
	e.mended = e.mended || kind == FieldText && !utf8.Valid(dst[from:])
	return dst, template.FieldMissing + template.FieldKind(kind)
}

func (e *event) Missing(path *tape.Path) error {
	if d, ok := e.r.Document.(FieldDocument); ok && len(path.Steps) > 0 {
		return missingField(d, path, bodyCall)
	}
	return e.r.parsed().missing(path, bodyCall, e.compat)
}

func (e *event) Header(name string) (string, bool) { return e.r.header(name, e.compat) }

func (e *event) MissingHeader(name string) error {
	return &Error{Reason: MissingValue, Err: fmt.Errorf("Header(%.100q): the request has no such header; give a default as the second argument if it may be missing", name)}
}

func (e *event) Headers() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, f := range e.r.headerFields(e.compat) {
			if !yield(f.name, f.value) {
				return
			}
		}
	}
}

// templateError makes the error of a column of the failure of its template.
func templateError(fail *template.Error) *Error {
	e := &Error{Reason: TemplateFailed, Err: fail.Err, At: Spot(fail.At), next: fail.Next}
	var own *Error
	switch {
	case fail.Kind == template.Exceeded:
		e.Reason = BudgetExceeded
	case fail.Kind == template.Unreadable && errors.As(fail.Err, &own):
		e.Reason, e.Err = own.Reason, own.Err
	case fail.Kind == template.Unreadable:
		e.Reason = InvalidBody
	}
	return e
}
