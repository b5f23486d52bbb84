package template

import "github.com/forebay/forebay/mapping/internal/tape"

// array is a jsonnet array. The elements of some are not there before somebody asks for all of them: those of a part of a
// record, the characters of a text, and the numbers of a range.
type array struct {
	form  arrayForm
	elems []value // of formElems; may be thunks
	room  *int    // of formElems, see machine.appended

	// The array of a record: of formDoc, and kept when its elements were made, to be written as it stands there.
	doc    *tape.Tape
	node   uint32
	walked int32 // elements that were passed to get at others

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

// take accounts for an array of n elements.
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

// characters is the array of the characters of a text.
func (m *machine) characters(s string) *array {
	return &array{form: formText, text: s, count: m.runeCount(s)}
}

// elements returns an array, or the array of the characters of a text, for those who go through it with len and at.
func (m *machine) elements(v value) *array {
	if v.kind == kindString {
		return m.characters(v.str)
	}
	if v.kind != kindArray || v.ref.(*array).form == formDoc {
		m.array(v)
	}
	return v.ref.(*array)
}

// len is not for formDoc: see machine.length.
func (a *array) len() int {
	if a.form == formElems {
		return len(a.elems)
	}
	return a.count
}

// at returns element i, which may be a thunk. It is not for formDoc.
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
	if v.kind != kindArray {
		m.typeError(v, kindArray)
	}
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

// generator makes the elements of an array when they are asked for, each once: those of a comprehension, and those of
// functions that call another for each element. An element that is not made yet is a value of kindThunk that refers to the
// generator and has its position. So it takes no memory beside its place in the array.
type generator struct {
	out []value // the array
	src *array
	pos []uint32 // where in src an element comes from; nil if that is its own position

	// A comprehension has code, with src's element as the only variable of its scope, in the scope env.
	run    code
	env    *env
	height int
	keeps  bool    // see expr
	spare  *scope1 // a scope to be used again

	// A function is called with the element, behind its position if numbered.
	fn       *function
	numbered bool
}

// scope1 is a scope with one variable.
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

// generated is the array of a function that is called for each element.
func (m *machine) generated(g *generator, n int) value {
	g.out = m.take(n)
	for k := range n {
		g.out = append(g.out, g.pending(k))
	}
	return list(g.out)
}

// generate makes element k, unless it was made meanwhile.
func (m *machine) generate(g *generator, k int) value {
	place := &g.out[k]
	if place.kind != kindThunk {
		return *place
	}
	if place.ref != any(g) {
		return m.force(*place) // it is being made
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
