package mapping

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/mapping/internal/tape"
)

// typedCell is the plan of a typed column.
type typedCell struct {
	typ         datatype.Type
	isString    bool
	isJSON      bool
	opts        TypeOptions
	conv        celltype.Converter
	limited     bool // the target has limits
	noNUL       bool
	nullDefault bool // the default is NULL
	// hasElse is set for a column with ElsePath or ElseArrival. elseRequired is then its Required, and opts.Required is false.
	hasElse, elseRequired bool
}

var (
	errRequiredNull = errors.New("the value is null, and the column is required")
	errRequiredIP   = errors.New("the address of the sender is unknown, and the column is required")
	errRequiredTime = errors.New("the time of arrival is unknown, and the column is required")
)

// appendTyped is append for a typed column. It sets w.null when the cell is NULL.
func (w *rowWriter) appendTyped(dst []byte, c *cell) ([]byte, *Error) {
	switch c.typ {
	case TypePath:
		return w.typedPath(dst, c)
	case TypeUUID:
		return w.m.uuids.appendText(dst), nil
	case TypeDatetime:
		return w.typedTime(dst, c)
	case TypeIP:
		if !w.r.ClientIP.IsValid() {
			return w.absent(dst, c, errRequiredIP)
		}
		return appendIP(dst, w.r, false), nil
	case TypeHeaders:
		return w.typedHeaders(dst, c)
	case TypeBody:
		return w.typedBody(dst, c)
	}
	return w.typedTemplate(dst, c)
}

// noValue appends NULL, or what ElsePath and ElseArrival say.
func (w *rowWriter) noValue(dst []byte, c *cell) ([]byte, *Error) {
	if !c.typed.hasElse {
		w.null = true
		return dst, nil
	}
	if c.other != nil {
		if out, fail := w.typedPath(dst, c.other); fail != nil || !w.null {
			return out, fail
		}
		w.null = false
	}
	switch {
	case c.typed.opts.ElseArrival && !w.r.Received.IsZero():
		return w.arrival(dst, c)
	case c.typed.elseRequired:
		return dst, &Error{Reason: MissingValue, Err: errRequiredNull}
	}
	w.null = true
	return dst, nil
}

// arrival appends the time of arrival, which is known, to a column of type timestamp, date or int64.
func (w *rowWriter) arrival(dst []byte, c *cell) ([]byte, *Error) {
	if c.typed.typ != datatype.Int64 {
		return w.typedTime(dst, c)
	}
	w.s.scratch = w.r.Received.UTC().AppendFormat(w.s.scratch[:0], time.RFC3339Nano)
	return w.appendValue(dst, c, celltype.Text, w.s.scratch)
}

// absent makes a cell of a value that the record does not have.
func (w *rowWriter) absent(dst []byte, c *cell, required error) ([]byte, *Error) {
	if c.typed.opts.Required {
		return dst, &Error{Reason: MissingValue, Err: required}
	}
	w.null = true
	return dst, nil
}

func (w *rowWriter) typedTime(dst []byte, c *cell) ([]byte, *Error) {
	at := w.r.Received
	switch {
	case at.IsZero():
		return w.absent(dst, c, errRequiredTime)
	case c.typed.isString:
		return appendDatetime(dst, at), nil
	}
	out, ok := appendTimestamp(dst, at)
	if !ok {
		return dst, misfit(c.typed.typ, celltype.OutOfRange, celltype.Text, []byte(at.String()))
	}
	if c.typed.typ == datatype.Date {
		out = out[:len(dst)+len("2006-01-02")]
	}
	if why := c.typed.conv.CheckTime(out[len(dst):]); why != celltype.OK {
		return dst, misfit(c.typed.typ, why, celltype.Text, out[len(dst):])
	}
	return out, nil
}

func (w *rowWriter) typedHeaders(dst []byte, c *cell) ([]byte, *Error) {
	var style headerStyle
	if w.m.compat {
		style = styleCompat
	}
	if !w.plain && !c.typed.limited {
		text := w.r.headersCell(style | styleCSV)
		if w.s.headersRepaired {
			return dst, misfit(c.typed.typ, celltype.NotUTF8, celltype.Composite, w.r.headersCell(style))
		}
		return append(dst, text...), nil
	}
	text := w.r.headersCell(style)
	why := c.typed.conv.CheckDocument(text)
	if w.s.headersRepaired {
		why = celltype.NotUTF8
	}
	if why != celltype.OK {
		return dst, misfit(c.typed.typ, why, celltype.Composite, text)
	}
	return w.put(dst, text), nil
}

// typedBody is appendTyped for a body as string or bytes.
func (w *rowWriter) typedBody(dst []byte, c *cell) ([]byte, *Error) {
	body, fail := w.r.rawBody()
	if fail != nil {
		return dst, fail
	}
	t := c.typed
	if t.isString {
		return w.appendText(dst, c, body)
	}
	if len(body) == 0 && t.opts.EmptyIsNull {
		return w.appendNull(dst, c)
	}
	out := base64.StdEncoding.AppendEncode(dst, body)
	if why := t.conv.CheckString(out[len(dst):], celltype.Number); why != celltype.OK {
		return dst, misfit(t.typ, why, celltype.Text, body)
	}
	return out, nil
}

func (w *rowWriter) typedPath(dst []byte, c *cell) ([]byte, *Error) {
	if w.r.Document != nil && len(c.path.Steps) > 0 {
		if d, ok := w.r.Document.(FieldDocument); ok {
			return w.typedField(dst, d, c)
		}
	}
	if !w.looked {
		w.find()
	}
	if w.unread != nil {
		if !c.hasDefault() || w.m.compat {
			return dst, w.unread
		}
		return w.appendDefault(dst, c)
	}
	at := w.s.found[c.node]
	switch {
	case at > 0:
		return w.appendNode(dst, c, w.tape, at-1)
	case c.hasDefault() || !c.typed.opts.Required:
		return w.appendDefault(dst, c)
	}
	return dst, w.s.missing(&c.path, requiredColumn, false)
}

// typedField is typedPath for a document that gives single fields.
func (w *rowWriter) typedField(dst []byte, d FieldDocument, c *cell) ([]byte, *Error) {
	text, kind := d.AppendField(w.s.scratch[:0], FieldPath{c.path})
	w.s.scratch = text
	return w.typedValue(dst, d, c, text, kind)
}

// typedValue appends the cell of a value of a document. text is the scratch.
func (w *rowWriter) typedValue(dst []byte, d FieldDocument, c *cell, text []byte, kind FieldKind) ([]byte, *Error) {
	text = c.mendNUL(text, kind)
	switch kind {
	case FieldNull:
		return w.appendNull(dst, c)
	case FieldText:
		return w.appendText(dst, c, text)
	case FieldJSON:
		return w.appendValue(dst, c, celltype.KindOf(text), text)
	}
	if c.hasDefault() || !c.typed.opts.Required {
		return w.appendDefault(dst, c)
	}
	return dst, missingField(d, &c.path, requiredColumn)
}

// hasDefault reports whether a typed column has a default, which can be NULL.
func (c *cell) hasDefault() bool { return c.def != nil || c.typed.nullDefault }

// appendDefault appends the default, or NULL without one.
func (w *rowWriter) appendDefault(dst []byte, c *cell) ([]byte, *Error) {
	if c.def == nil {
		return w.noValue(dst, c)
	}
	return w.put(dst, c.def), nil
}

func (w *rowWriter) appendNull(dst []byte, c *cell) ([]byte, *Error) {
	switch {
	case c.onNull && c.hasDefault():
		return w.appendDefault(dst, c)
	case c.typed.opts.Required:
		return dst, &Error{Reason: NullValue, Err: errRequiredNull}
	}
	return w.noValue(dst, c)
}

func (w *rowWriter) appendNode(dst []byte, c *cell, t *tape.Tape, at uint32) ([]byte, *Error) {
	n := &t.Nodes[at]
	text := t.Text[n.Start:n.End]
	switch n.Kind {
	case tape.Null:
		return w.appendNull(dst, c)
	case tape.Number:
		return w.appendValue(dst, c, celltype.Number, text)
	case tape.String:
		if c.typed.isJSON && !c.typed.opts.ParseText && !(len(text) == 2 && c.typed.opts.EmptyIsNull) {
			return w.appendDocument(dst, c, t, at)
		}
		content := text[1 : len(text)-1]
		switch {
		case n.Flags == 0 && c.typed.isString && len(content) > 0 && !c.typed.limited:
			return append(dst, content...), nil // ASCII without an escape, hence without a quote
		case n.Flags&tape.Escaped == 0:
			return w.appendText(dst, c, content)
		}
		return w.appendEscaped(dst, c, content)
	case tape.True, tape.False:
		return w.appendValue(dst, c, celltype.Bool, text)
	}
	if c.typed.isJSON || c.typed.opts.AnyKind {
		return w.appendDocument(dst, c, t, at)
	}
	return dst, misfit(c.typed.typ, celltype.WrongKind, celltype.Composite, text)
}

// appendEscaped is appendText for the content of a JSON string with escapes.
func (w *rowWriter) appendEscaped(dst []byte, c *cell, content []byte) ([]byte, *Error) {
	if why := celltype.CheckJSON(content, false); why != celltype.OK {
		return dst, misfit(c.typed.typ, why, celltype.Text, content)
	}
	w.s.quoted = tape.AppendUnquoted(w.s.quoted[:0], content)
	return w.appendText(dst, c, w.s.quoted)
}

// appendText appends the cell of a text that is not null, perhaps not UTF-8.
func (w *rowWriter) appendText(dst []byte, c *cell, text []byte) ([]byte, *Error) {
	if len(text) == 0 && c.typed.opts.EmptyIsNull {
		return w.appendNull(dst, c)
	}
	return w.appendValue(dst, c, celltype.Text, text)
}

// appendValue appends the cell of a value. A number, boolean, object or array is compact JSON.
func (w *rowWriter) appendValue(dst []byte, c *cell, k celltype.Kind, text []byte) ([]byte, *Error) {
	t := c.typed
	var why celltype.Reason
	switch {
	case t.isString:
		if k == celltype.Composite && t.opts.AnyKind {
			why = t.conv.CheckDocument(text)
		} else {
			why = t.conv.CheckString(text, k)
		}
		if why == celltype.OK {
			return w.put(dst, text), nil
		}
	case t.isJSON:
		if k == celltype.Text && t.opts.ParseText {
			return w.appendParsed(dst, c, text)
		}
		if k == celltype.Text {
			if why = celltype.CheckText(text, 0); why != celltype.OK {
				break
			}
			w.s.quoted = jsontext.AppendString(w.s.quoted[:0], tape.AsString(text), w.m.compat)
			text = w.s.quoted
		}
		if why = t.conv.CheckDocument(text); why == celltype.OK {
			return w.put(dst, text), nil
		}
	default:
		if dst, why = t.conv.Append(dst, text, k); why == celltype.OK {
			return dst, nil
		}
	}
	return dst, misfit(t.typ, why, k, text)
}

// appendParsed appends a text that is a JSON document.
func (w *rowWriter) appendParsed(dst []byte, c *cell, text []byte) ([]byte, *Error) {
	s := w.s
	s.quoted = append(s.quoted[:0], text...) // appendDocument writes to the scratch that text may be in
	if err := s.inner.Parse(s.quoted); err != nil {
		return dst, misfit(c.typed.typ, celltype.Malformed, celltype.Text, text)
	}
	if s.inner.Nodes[0].Kind == tape.Null {
		return w.appendNull(dst, c)
	}
	return w.appendDocument(dst, c, &s.inner, 0)
}

// appendDocument appends a value of a tape, other than null, to a json column.
func (w *rowWriter) appendDocument(dst []byte, c *cell, t *tape.Tape, at uint32) ([]byte, *Error) {
	n := &t.Nodes[at]
	text := t.Text[n.Start:n.End]
	why := celltype.OK
	if n.Flags&tape.NonASCII != 0 {
		why = celltype.CheckText(text, 0)
	}
	if why == celltype.OK {
		why = celltype.CheckEscapes(text, c.typed.noNUL)
	}
	if _, fields := w.r.Document.(FieldDocument); fields && why == celltype.HasNUL {
		return w.appendValue(dst, c, celltype.KindOf(text), c.mendNUL(slices.Clone(text), FieldJSON))
	}
	if why != celltype.OK {
		return dst, misfit(c.typed.typ, why, celltype.Composite, text)
	}
	if n.Flags&tape.Spaced != 0 {
		w.s.scratch = t.AppendValue(w.s.scratch[:0], at)
		text = w.s.scratch
	}
	if c.typed.limited {
		why := c.typed.conv.CheckString(text, celltype.Number)
		if why == celltype.OK {
			why = c.typed.conv.CheckShape(text)
		}
		if why != celltype.OK {
			return dst, misfit(c.typed.typ, why, celltype.Composite, text)
		}
	}
	if !w.plain && len(text) == len(t.Text) { // the tape knows where the quotes are
		return t.AppendCSV(dst), nil
	}
	return w.put(dst, text), nil
}

func (w *rowWriter) typedTemplate(dst []byte, c *cell) ([]byte, *Error) {
	w.s.event = event{r: w.r, compat: w.m.compat}
	text, fail := c.prog.Append(w.s.scratch[:0], &w.s.event, false)
	w.s.scratch = text
	if fail != nil {
		return dst, templateError(fail)
	}
	k := celltype.KindOf(text)
	if bytes.Contains(text, tape.AsBytes(replacement)) {
		if why := w.s.event.repaired(); why != celltype.OK {
			return dst, misfit(c.typed.typ, why, k, text)
		}
	}
	switch {
	case text[0] == 'n':
		return w.appendNull(dst, c)
	case k != celltype.Text:
		return w.appendValue(dst, c, k, text)
	case c.typed.isJSON && !c.typed.opts.ParseText && !(len(text) == 2 && c.typed.opts.EmptyIsNull):
		if why := c.typed.conv.CheckDocument(text); why != celltype.OK {
			return dst, misfit(c.typed.typ, why, k, text)
		}
		return w.put(dst, text), nil
	case bytes.IndexByte(text, '\\') < 0:
		return w.appendText(dst, c, text[1:len(text)-1])
	}
	return w.appendEscaped(dst, c, text[1:len(text)-1])
}
