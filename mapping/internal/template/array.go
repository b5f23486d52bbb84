//go:build !forebay_notemplates

package template

import "github.com/forebay/forebay/mapping/internal/tape"

// array is a jsonnet array. An array of the record, the characters of a text and a range have no elements until all of them
// are requested.
type array struct {
	form  arrayForm
	elems []value // of formElems, may be thunks
	room  *int    // of formElems, see machine.appended

	// With formDoc, the place where the array stands in the record. Kept after the elements were made, so that it can be written unchanged.
	doc    *tape.Tape
	node   uint32
	walked int32 // elements passed on the way to others

	text  string // of formText
	first int    // of formRange
	count int    // of formText and formRange
}

type arrayForm uint8

const (
	formElems arrayForm = iota
	formDoc
	formText
	formRange
)

func list(elems []value) value { return value{kind: kindArray, ref: &array{elems: elems}} }

// take charges for an array of n elements and makes room for them.
func (m *machine) take(n int) []value {
	m.ticks(2 * n)
	m.alloc(64 + 48*n)
	return make([]value, 0, n)
}

// texts makes an array of strings.
func (m *machine) texts(in []string) value {
	out := m.take(len(in))
	for _, s := range in {
		out = append(out, text(s))
	}
	return list(out)
}

func (m *machine) characters(s string) *array {
	return &array{form: formText, text: s, count: m.runeCount(s)}
}

// elements returns v if it is an array, and the array of its characters if it is a text. The elements are read with len and at.
func (m *machine) elements(v value) *array {
	if v.kind == kindString {
		return m.characters(v.str)
	}
	if v.kind != kindArray || v.ref.(*array).form == formDoc {
		m.array(v)
	}
	return v.ref.(*array)
}

// len must not be called for formDoc, but machine.length takes all forms.
func (a *array) len() int {
	if a.form == formElems {
		return len(a.elems)
	}
	return a.count
}

// at returns element i, which may be a thunk. It must not be called for formDoc.
func (a *array) at(m *machine, i int) value {
	switch a.form {
	case formText:
		return text(m.runeSlice(a.text, i, i+1))
	case formRange:
		return number(float64(a.first + i))
	}
	return a.elems[i]
}

// array returns the elements, which may be thunks. The caller must not change them but by forceAt.
func (m *machine) array(v value) []value {
	m.want(v, kindArray)
	a := v.ref.(*array)
	switch a.form {
	case formDoc:
		t, n := a.doc, m.docLength(a)
		m.step(n)
		m.alloc(48 * n)
		a.elems = make([]value, 0, n)
		for i := a.node + 1; i < t.Nodes[a.node].Next; i = t.Nodes[i].Next {
			a.elems = append(a.elems, m.fromDoc(t, i))
		}
	case formText, formRange:
		elems := m.take(a.count)
		for i := range a.count {
			elems = append(elems, a.at(m, i))
		}
		a.elems = elems
	}
	a.form = formElems
	return a.elems
}

func (m *machine) docLength(a *array) (n int) {
	for i := a.node + 1; i < a.doc.Nodes[a.node].Next; i = a.doc.Nodes[i].Next {
		n++
	}
	return n
}

func (m *machine) length(v value) int {
	if a := v.ref.(*array); a.form != formDoc {
		return a.len()
	}
	return len(m.array(v))
}

// element is a[i].
func (m *machine) element(v value, i int) value {
	a := v.ref.(*array)
	if a.form == formDoc && a.walked <= manyWalks {
		at := 0
		k := a.node + 1
		for ; k < a.doc.Nodes[a.node].Next && i > at; k = a.doc.Nodes[k].Next {
			at++
		}
		m.ticks(2 + 4*at)
		a.walked = int32(min(int(a.walked)+at, manyWalks+1))
		if k < a.doc.Nodes[a.node].Next && i == at {
			return m.fromDoc(a.doc, k)
		}
	}
	n := m.length(v)
	if i < 0 || i >= n {
		m.fail("index %d out of bounds, not within [0, %d)", i, n)
	}
	if a.form == formElems {
		return m.forceAt(&a.elems[i])
	}
	return a.at(m, i)
}

// generator makes the elements of a comprehension, or of a function such as std.map, each once and only when it is asked for.
// An element that is not made yet is a value of kindThunk with the generator and the element's position. It needs no memory
// in addition to its place in the array.
type generator struct {
	out []value // the array
	src *array
	pos []uint32 // the position in src that each element comes from, or nil if it is the same

	// A comprehension runs code in a scope whose only variable is the element of src.
	run    code
	env    *env
	height int
	keeps  bool    // see expr
	spare  *scope1 // reused when keeps is false

	// A function is called with the element, and numbered puts its position before it.
	fn       *function
	numbered bool
}

type scope1 struct {
	env
	slot [1]value
}

func newScope1(parent *env) *scope1 {
	s := &scope1{env: env{parent: parent}}
	s.slots = s.slot[:]
	if parent != nil {
		s.self, s.super = parent.self, parent.super
	}
	return s
}

// pending is element k of the array of g, before it is made.
func (g *generator) pending(k int) value { return value{kind: kindThunk, num: float64(k), ref: g} }

// position returns where in src element k comes from.
func (g *generator) position(k int) int {
	if g.pos != nil {
		return int(g.pos[k])
	}
	return k
}

// generated returns the array of n elements that g will make.
func (m *machine) generated(g *generator, n int) value {
	g.out = m.take(n)
	for k := range n {
		g.out = append(g.out, g.pending(k))
	}
	return list(g.out)
}

// generate makes element k, unless it exists already.
func (m *machine) generate(g *generator, k int) value {
	place := &g.out[k]
	if place.kind != kindThunk {
		return *place
	}
	if place.ref != any(g) {
		return m.force(*place) // it is being made, which is an endless recursion
	}
	*place = value{kind: kindThunk, ref: &m.busy}
	i := g.position(k)
	var made value
	at := m.at
	m.ticks(3)
	m.nest(1 + g.height)
	switch {
	case g.numbered:
		made = m.call(g.fn, number(float64(i)), g.src.at(m, i))
	case g.fn != nil:
		made = m.call(g.fn, g.src.at(m, i))
	default:
		scope := g.spare
		if g.spare = nil; scope == nil {
			m.alloc(112)
			scope = newScope1(g.env)
		}
		scope.slot[0] = g.src.at(m, i)
		made = g.run(m, &scope.env)
		if !g.keeps {
			g.spare = scope
		}
	}
	m.leave(1 + g.height)
	m.at = at
	*place = made
	return made
}
