package mapping

import (
	"fmt"
	"strings"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// An error about a path that finds nothing names the first missing step and what would help.

// seeker says who looks for a value. Its text is the end of the error about a missing value.
type seeker string

const (
	pathColumn     seeker = "; set a default if it may be missing"
	requiredColumn seeker = ", and the column is required"
	bodyCall       seeker = "; give a default as the second argument if it may be missing" // Body(path) in a template
)

// missing is the error of a path that finds nothing in the body. last is as in tape.Lookup.
func (s *recordState) missing(p *tape.Path, by seeker, last bool) *Error {
	t := &s.tape
	value, n := uint32(0), 0
	for ; n < len(p.Steps); n++ {
		at, _, ok := t.Lookup(value, p.Steps[n:n+1], last)
		if !ok {
			break
		}
		value = at
	}
	body := "the body"
	if s.parsedAs == FormatForm {
		body = "the body, read as a form," // many clients declare JSON as a form
	}
	kind := FieldJSON
	length := -1
	switch v := &t.Nodes[value]; v.Kind {
	case tape.Null:
		kind = FieldNull
	case tape.String:
		kind = FieldText
	case tape.Array:
		length = 0
		for k := value + 1; k < v.Next; k = t.Nodes[k].Next {
			length++
		}
	}
	err := missingStep(p, by, n, body, kind, length)
	if s.parsedAs == FormatForm {
		err.Err = fmt.Errorf("%w; if the body is JSON, send Content-Type: application/json", err.Err)
	}
	return err
}

// missingField is missing for a FieldDocument.
func missingField(d FieldDocument, p *tape.Path, by seeker) *Error {
	kind, n := FieldJSON, 0
	for n < len(p.Steps)-1 {
		_, k := d.AppendField(nil, FieldPath{tape.Path{Text: p.Text, Steps: p.Steps[:n+1]}})
		if k == NoField {
			break
		}
		kind = k
		n++
	}
	return missingStep(p, by, n, "the body", kind, -1)
}

// missingStep says that step n is missing. kind is the form of the value that the steps before lead to. length is the number of
// its elements, or negative when it is not known to be an array.
func missingStep(p *tape.Path, by seeker, n int, body string, kind FieldKind, length int) *Error {
	what := fmt.Sprintf("path %.100q", p.Text)
	if by == bodyCall {
		what = fmt.Sprintf("Body(%.100q)", p.Text)
	}
	in := body
	if n > 0 {
		in = fmt.Sprintf("%.100q", pathText(p.Steps[:n]))
	}
	step := p.Steps[n]
	lacks := fmt.Sprintf("has no member %.100q", step.Key)
	switch {
	case kind == FieldNull && step.Index >= 0:
		lacks = fmt.Sprintf("is null and has no [%d]", step.Index)
	case length >= 0 && step.Index >= 0:
		lacks = fmt.Sprintf("has %d elements and no [%d]", length, step.Index)
	case length >= 0:
		lacks = "is an array and " + lacks
	case kind == FieldText:
		lacks = "is a string and " + lacks
	case kind == FieldNull:
		lacks = "is null and " + lacks
	}
	return &Error{Reason: MissingValue, Err: fmt.Errorf("%s: %s %s%s", what, in, lacks, by)}
}

func pathText(steps []tape.Step) string {
	var b strings.Builder
	for i, st := range steps {
		switch {
		case st.Index >= 0 && i > 0:
			fmt.Fprintf(&b, "[%d]", st.Index)
		case st.Key == "" || strings.ContainsAny(st.Key, `.[\`):
			fmt.Fprintf(&b, "[%q]", st.Key)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(st.Key)
		}
	}
	return b.String()
}
