package mapping

import (
	"fmt"
	"strconv"
	"strings"
)

// What an error says of a path that finds nothing: the first step that is not there, and what would help.

// missing is the failure of a path that finds nothing in the body. Call says that it is one of Body, and not a path column; last is that of lookup.
func (s *recordState) missing(p FieldPath, call, last bool) *cause {
	t := &s.tape
	value, n := uint32(0), 0
	for ; n < len(p.steps); n++ {
		at, _, ok := t.lookup(value, p.steps[n:n+1], last)
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
	switch v := &t.nodes[value]; v.kind {
	case nodeNull:
		kind = FieldNull
	case nodeString:
		kind = FieldText
	case nodeArray:
		length = 0
		for k := value + 1; k < v.next; k = t.nodes[k].next {
			length++
		}
	}
	return missingStep(p, call, n, body, kind, length)
}

// missingField is missing for a document that gives single fields.
func missingField(d FieldDocument, p FieldPath, call bool) *cause {
	kind, n := FieldJSON, 0
	for n < len(p.steps)-1 {
		_, k := d.AppendField(nil, FieldPath{text: p.text, steps: p.steps[:n+1]})
		if k == NoField {
			break
		}
		kind = k
		n++
	}
	return missingStep(p, call, n, "the body", kind, -1)
}

// missingStep says that step n is not there. Kind is the form of the value that the steps before it lead to, and length the
// number of its elements, negative unless it is known to be an array.
func missingStep(p FieldPath, call bool, n int, body string, kind FieldKind, length int) *cause {
	what, help := fmt.Sprintf("path %.100q", p.text), "set a default if it may be missing"
	if call {
		what, help = fmt.Sprintf("Body(%.100q)", p.text), "give a default as the second argument if it may be missing"
	}
	in := body
	if n > 0 {
		in = excerpt(strconv.Quote(pathText(p.steps[:n])))
	}
	step := p.steps[n]
	lacks := fmt.Sprintf("has no member %.100q", step.key)
	switch {
	case kind == FieldNull && step.index >= 0:
		lacks = fmt.Sprintf("is null and has no [%d]", step.index)
	case length >= 0 && step.index >= 0:
		lacks = fmt.Sprintf("has %d elements and no [%d]", length, step.index)
	case length >= 0:
		lacks = "is an array and " + lacks
	case kind == FieldText:
		lacks = "is a string and " + lacks
	case kind == FieldNull:
		lacks = "is null and " + lacks
	}
	return &cause{reason: MissingValue, err: fmt.Errorf("%s: %s %s; %s", what, in, lacks, help)}
}

// pathText writes steps as a path.
func pathText(steps []step) string {
	var b strings.Builder
	for i, st := range steps {
		switch {
		case st.index >= 0 && i > 0:
			fmt.Fprintf(&b, "[%d]", st.index)
		case st.key == "" || strings.ContainsAny(st.key, `.[\`):
			fmt.Fprintf(&b, "[%q]", st.key)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(st.key)
		}
	}
	return b.String()
}
