package mapping

import (
	"bytes"
	"sync/atomic"

	"github.com/forebay/forebay/internal/members"
)

// memberDocument is a [FieldDocument] that knows its members by number. The documents of package otlpflat are of this kind. Rows are the same
// as without it.
type memberDocument interface {
	FieldDocument
	// Layout is one value for all documents of a type.
	Layout() *members.Layout
	// Shared is for the cells of shared members.
	Shared() *members.Shared
	// AppendMember is AppendField for the path to a member. Texts are UTF-8.
	AppendMember(dst []byte, number int) ([]byte, FieldKind)
	// Nanos is a member that is a time, in nanoseconds since 1970; 0 if it is not set.
	Nanos(number int) uint64
}

// memberPlan says how the rows of a mapper are made of the documents of one layout.
type memberPlan struct {
	layout  *members.Layout
	steps   []memberStep
	numbers []int // by column, of the member that it holds; 0 if that is not in the layout
}

// memberStep makes cells of a row, with the commas before them.
type memberStep struct {
	from, to int // the columns
	piece    int // of the shared pieces, if shared
	shared   bool
	time     bool
}

// memberPlans has a plan for each layout that was met, that is, one for each signal.
type memberPlans struct {
	known atomic.Pointer[[]*memberPlan]
}

// planFor returns the plan of a layout. Two goroutines may make the same one, and one of them is kept.
func (m *Mapper) planFor(l *members.Layout) *memberPlan {
	known := m.plans.known.Load()
	if known != nil {
		for _, p := range *known {
			if p.layout == l {
				return p
			}
		}
	}
	p := m.newPlan(l)
	all := []*memberPlan{p}
	if known != nil {
		all = append(all, *known...)
	}
	m.plans.known.CompareAndSwap(known, &all)
	return p
}

func (m *Mapper) newPlan(l *members.Layout) *memberPlan {
	p := &memberPlan{layout: l}
	pieces := 0
	for i := range m.cells {
		c := &m.cells[i]
		var member members.Member
		if c.typ == TypePath && len(c.path.Steps) > 0 {
			member = l.Named(c.path.Steps[0].Key)
		}
		if len(c.path.Steps) > 1 { // a part of a member
			member.Number = 0
		}
		p.numbers = append(p.numbers, member.Number)
		if last := len(p.steps) - 1; member.Shared && last >= 0 && p.steps[last].shared {
			p.steps[last].to = i + 1
			continue
		}
		step := memberStep{from: i, to: i + 1, shared: member.Shared}
		step.time = member.Time && member.Number > 0 && c.typed != nil
		if member.Shared {
			step.piece = pieces
			pieces++
		}
		p.steps = append(p.steps, step)
	}
	return p
}

// appendMembers is AppendRow for a memberDocument.
func (m *Mapper) appendMembers(dst []byte, r *Record, d memberDocument) ([]byte, error) {
	w := rowWriter{m: m, r: r, s: r.parsed()}
	p := m.planFor(d.Layout())
	kept := d.Shared().Of(m)
	out := dst
	for i := range p.steps {
		step := &p.steps[i]
		if step.shared {
			if text, ok := kept.Piece(step.piece); ok {
				out = append(out, text...)
				continue
			}
		}
		begin := len(out)
		for k := step.from; k < step.to; k++ {
			c := &m.cells[k]
			if k > 0 {
				out = append(out, ',', '"')
			} else {
				out = append(out, '"')
			}
			if step.time {
				if text, ok := c.typed.conv.AppendNanos(out, d.Nanos(p.numbers[k])); ok {
					out = append(text, '"')
					continue
				}
			}
			var fail *Error
			if number := p.numbers[k]; number > 0 {
				out, fail = w.appendMember(out, d, c, number)
			} else {
				out, fail = w.append(out, c)
			}
			if fail != nil {
				return dst, fail.in(c)
			}
			if w.null {
				out, w.null = out[:len(out)-1], false
				continue
			}
			out = append(out, '"')
		}
		if step.shared {
			kept.Put(step.piece, out[begin:])
		}
	}
	return append(out, '\n'), nil
}

// appendMember is append for a column with a member of a document.
func (w *rowWriter) appendMember(dst []byte, d memberDocument, c *cell, number int) ([]byte, *Error) {
	if c.typed != nil && c.typed.isString {
		out, kind := d.AppendMember(dst, number)
		text := out[len(dst):]
		if kind == FieldText && len(text) > 0 && bytes.IndexByte(text, '"') < 0 && c.typed.conv.FitsUTF8(text) {
			return out, nil
		}
		w.s.scratch = append(w.s.scratch[:0], text...)
		return w.typedValue(dst, d, c, w.s.scratch, kind)
	}
	text, kind := d.AppendMember(w.s.scratch[:0], number)
	w.s.scratch = text
	if c.typed != nil {
		return w.typedValue(dst, d, c, text, kind)
	}
	out, fail := w.fieldValue(dst, d, c, text, kind)
	return w.checkUntyped(len(dst), out, c, fail)
}
