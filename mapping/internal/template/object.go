//go:build !forebay_notemplates

package template

import (
	"maps"
	"slices"

	"github.com/google/go-jsonnet/ast"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// object is a jsonnet object. Fields are bound late because self differs when a layer is inherited, and so do the values. A field is
// therefore evaluated for each object and cached there.
type object struct {
	core    objectCore
	cache   []fieldValue
	byName  map[fieldKey]value // replaces cache when there are many fields
	envs    []layerEnv
	checked bool // assertions have been checked, or are being checked
}

type fieldKey struct {
	name  string
	depth int
}

type fieldValue struct {
	fieldKey
	val value
}

// layerEnv is the scope of the fields of one layer for one object.
type layerEnv struct {
	layer *layer
	depth int
	env   *env
}

// objectCore is what an object consists of, a *layer, an *extended, a *restricted or a *docObject. Layers are numbered from the
// right; 0 is the most derived one.
type objectCore interface {
	size() int // number of layers
}

// layer is an object literal.
type layer struct {
	fields  []field
	index   map[string]int // of a layer with many fields
	visible []string       // names(false) of a literal whose names are all constants, otherwise nil
	locals  []code
	asserts []code
	env     *env // scope around the literal
}

type field struct {
	name string
	hide ast.ObjectFieldHide
	plus bool // written with +:
	run  code
	env  *env // of a field of a comprehension, its own scope in place of the layer's
	val  value
}

// extended is left + right. It keeps both sides, so that adding is cheap.
type extended struct {
	left, right objectCore
	layers      int
}

// restricted is the result of std.objectRemoveKey.
type restricted struct {
	obj  objectCore
	keep map[string]ast.ObjectFieldHide
}

type docObject struct {
	doc  *tape.Tape
	node uint32
	// walked counts the members passed on the way to others.
	walked int32
	read   *docMembers // nil until all members were asked for
}

// docMembers is the index of an object of a record.
type docMembers struct {
	index map[string]uint32 // values by name, nil until many were walked
	names []string          // sorted, nil until they were asked for
}

func (d *docObject) members() *docMembers {
	if d.read == nil {
		d.read = &docMembers{}
	}
	return d.read
}

func (*layer) size() int        { return 1 }
func (o *extended) size() int   { return o.layers }
func (o *restricted) size() int { return 1 + o.obj.size() }
func (*docObject) size() int    { return 1 }

const manyFields = 8

func (l *layer) find(name string) *field {
	if l.index != nil {
		if i, ok := l.index[name]; ok {
			return &l.fields[i]
		}
		return nil
	}
	for i := range l.fields {
		if l.fields[i].name == name {
			return &l.fields[i]
		}
	}
	return nil
}

// names returns the names of the visible fields, and of the hidden ones as well if asked for, sorted. It is not nil.
func (l *layer) names(hidden bool) []string {
	names := make([]string, 0, len(l.fields))
	for i := range l.fields {
		if hidden || l.fields[i].hide != ast.ObjectFieldHidden {
			names = append(names, l.fields[i].name)
		}
	}
	slices.Sort(names)
	return names
}

// add appends a field and reports whether its name is new.
func (l *layer) add(f field) bool {
	if l.find(f.name) != nil {
		return false
	}
	l.fields = append(l.fields, f)
	switch {
	case l.index != nil:
		l.index[f.name] = len(l.fields) - 1
	case len(l.fields) > manyFields:
		l.index = make(map[string]int, 2*len(l.fields))
		for i := range l.fields {
			l.index[l.fields[i].name] = i
		}
	}
	return true
}

// foundField is a field, a *field of a layer or a member of a record.
type foundField struct {
	field *field
	layer *layer
	doc   *docObject
	node  uint32
	depth int // number of the layer
}

// findField looks for a field in the layers from number super on.
func (m *machine) findField(core objectCore, super int, name string) (foundField, bool) {
	m.step(1)
	switch c := core.(type) {
	case *layer:
		if super <= 0 {
			if f := c.find(name); f != nil {
				return foundField{field: f, layer: c}, true
			}
		}
	case *docObject:
		if super <= 0 {
			if at, ok := m.docMember(c, name); ok {
				return foundField{doc: c, node: at}, true
			}
		}
	case *extended:
		size := c.right.size()
		if size > super {
			if p, ok := m.findField(c.right, super, name); ok {
				return p, true
			}
		}
		p, ok := m.findField(c.left, super-size, name)
		p.depth += size
		return p, ok
	case *restricted:
		if _, kept := c.keep[name]; super == 0 && !kept {
			return foundField{}, false
		}
		p, ok := m.findField(c.obj, super-1, name)
		p.depth++
		return p, ok
	}
	return foundField{}, false
}

// docMember returns the value node of the member of an object of a record with the name, the first of several, with Compat the
// last.
func (m *machine) docMember(d *docObject, name string) (uint32, bool) {
	t := d.doc
	end := t.Nodes[d.node].Next
	if d.walked > manyWalks {
		all := d.members()
		if all.index == nil {
			all.index = map[string]uint32{}
			for k := d.node + 1; k < end; k = t.Nodes[k+1].Next {
				m.step(1)
				m.alloc(64)
				key := m.docKey(t, k)
				if _, ok := all.index[key]; !ok || m.compat {
					all.index[key] = k + 1
				}
			}
		}
		at, ok := all.index[name]
		return at, ok
	}
	at, hops, found := uint32(0), 0, false
	for k := d.node + 1; k < end && (!found || m.compat); k = t.Nodes[k+1].Next {
		if t.KeyIs(k, name) {
			at, found = k+1, true
		}
		hops++
	}
	d.walked = int32(min(int(d.walked)+hops, manyWalks+1))
	m.ticks(4 * hops)
	return at, found
}

func (m *machine) docKey(t *tape.Tape, k uint32) string {
	n := &t.Nodes[k]
	content := t.Text[n.Start+1 : n.End-1]
	if n.Flags == 0 {
		return tape.AsString(content)
	}
	m.alloc(len(content))
	return string(tape.AppendUnquoted(nil, content))
}

// get evaluates self[name], or super[name] of the layer before super.
func (m *machine) get(self *object, super int, name string) value {
	if d, ok := self.core.(*docObject); ok && super == 0 {
		at, ok := m.docMember(d, name)
		if !ok {
			m.fail("field does not exist: %s", name)
		}
		m.step(1)
		return m.fromDoc(d.doc, at)
	}
	m.checkAsserts(self)
	if super >= self.core.size() {
		m.fail("attempt to use super when there is no super class")
	}
	p, ok := m.findField(self.core, super, name)
	if !ok {
		m.fail("field does not exist: %s", name)
	}
	key := fieldKey{name, p.depth}
	if self.byName != nil {
		if v, ok := self.byName[key]; ok {
			return v
		}
	} else {
		for i := range self.cache {
			if self.cache[i].fieldKey == key {
				return self.cache[i].val
			}
		}
	}
	v := m.evalField(self, p, name)
	m.alloc(64)
	switch {
	case self.byName != nil:
		self.byName[key] = v
	case len(self.cache) >= 2*manyFields:
		self.byName = make(map[fieldKey]value, 4*manyFields)
		for _, c := range self.cache {
			self.byName[c.fieldKey] = c.val
		}
		self.byName[key] = v
	default:
		if self.cache == nil {
			if l, ok := self.core.(*layer); ok {
				self.cache = make([]fieldValue, 0, min(len(l.fields), 2*manyFields))
			}
		}
		self.cache = append(self.cache, fieldValue{key, v})
	}
	return v
}

func (m *machine) evalField(self *object, p foundField, name string) value {
	if p.doc != nil {
		return m.fromDoc(p.doc.doc, p.node)
	}
	f := p.field
	if f.run == nil {
		return f.val
	}
	m.enter(1)
	e := m.layerEnv(self, p.layer, p.depth)
	if f.env != nil {
		e = &env{parent: f.env, self: self, super: p.depth}
	}
	at := m.at
	v := f.run(m, e)
	m.at = at
	if f.plus {
		if _, ok := m.findField(self.core, p.depth+1, name); ok {
			v = m.plus(m.get(self, p.depth+1, name), v)
		}
	}
	m.leave(1)
	return v
}

// layerEnv returns the scope of the fields of a layer, the locals of the literal for this object.
func (m *machine) layerEnv(self *object, l *layer, depth int) *env {
	for i := range self.envs {
		if e := &self.envs[i]; e.layer == l && e.depth == depth {
			return e.env
		}
	}
	m.alloc(96 + 128*len(l.locals))
	e := &env{parent: l.env, self: self, super: depth}
	if len(l.locals) > 0 {
		e.slots = make([]value, len(l.locals))
		for i, run := range l.locals {
			if run == nil {
				continue
			}
			e.slots[i] = value{kind: kindThunk, ref: &thunk{run: run, env: e}}
		}
	}
	self.envs = append(self.envs, layerEnv{l, depth, e})
	return e
}

// checkAsserts evaluates the assertions of an object, once. An assertion may use the object, so they count as passed
// while they run.
func (m *machine) checkAsserts(o *object) {
	if !o.checked {
		o.checked = true
		m.assertCore(o, o.core, 0)
	}
}

func (m *machine) assertCore(self *object, core objectCore, depth int) {
	m.step(1)
	switch c := core.(type) {
	case *extended:
		m.assertCore(self, c.right, depth)
		m.assertCore(self, c.left, depth+c.right.size())
	case *restricted:
		m.assertCore(self, c.obj, depth+1)
	case *layer:
		at := m.at
		for _, a := range c.asserts {
			m.enter(1)
			a(m, m.layerEnv(self, c, depth))
			m.leave(1)
		}
		m.at = at
	}
}

func (m *machine) visibility(core objectCore) map[string]ast.ObjectFieldHide {
	switch c := core.(type) {
	case *layer:
		m.step(1 + len(c.fields))
		r := make(map[string]ast.ObjectFieldHide, len(c.fields))
		for i := range c.fields {
			r[c.fields[i].name] = c.fields[i].hide
		}
		return r
	case *docObject:
		r := map[string]ast.ObjectFieldHide{}
		for _, name := range m.docNames(c) {
			r[name] = ast.ObjectFieldInherit
		}
		return r
	case *extended:
		r := m.visibility(c.left)
		right := m.visibility(c.right)
		m.step(len(right))
		for name, hide := range right {
			if _, ok := r[name]; !ok || hide != ast.ObjectFieldInherit {
				r[name] = hide
			}
		}
		return r
	case *restricted:
		m.step(1 + len(c.keep))
		return maps.Clone(c.keep)
	}
	return nil
}

// docNames returns the names of the members of an object of a record, sorted and each once.
func (m *machine) docNames(d *docObject) []string {
	m.step(1)
	if d.read != nil && d.read.names != nil {
		return d.read.names
	}
	t := d.doc
	names := []string{}
	for k := d.node + 1; k < t.Nodes[d.node].Next; k = t.Nodes[k+1].Next {
		m.step(1)
		names = append(names, m.docKey(t, k))
	}
	m.alloc(16 * len(names))
	slices.Sort(names)
	names = slices.Compact(names)
	d.members().names = names
	return names
}

// fieldNames returns the names of the visible fields, and of the hidden ones as well if asked for, sorted. The slice
// must not be changed.
func (m *machine) fieldNames(o *object, hidden bool) []string {
	switch c := o.core.(type) {
	case *docObject:
		return m.docNames(c)
	case *layer:
		m.step(1 + len(c.fields))
		if c.visible != nil && !hidden {
			return c.visible
		}
		return c.names(hidden)
	}
	var names []string
	for name, hide := range m.visibility(o.core) {
		if hidden || hide != ast.ObjectFieldHidden {
			names = append(names, name)
		}
	}
	m.alloc(48 * len(names))
	slices.Sort(names)
	return names
}

// hasField reports whether an object has a field, and whether it is visible.
func (m *machine) hasField(o *object, name string, hidden bool) bool {
	switch c := o.core.(type) {
	case *docObject:
		m.step(1)
		_, ok := m.docMember(c, name)
		return ok
	case *layer:
		m.step(1)
		f := c.find(name)
		return f != nil && (hidden || f.hide != ast.ObjectFieldHidden)
	}
	hide, ok := m.visibility(o.core)[name]
	return ok && (hidden || hide != ast.ObjectFieldHidden)
}

// extend is left + right of two objects.
func (m *machine) extend(left, right *object) value {
	m.alloc(128)
	e := &extended{left.core, right.core, left.core.size() + right.core.size()}
	return value{kind: kindObject, ref: &object{core: e}}
}

func newObject(core objectCore) value { return value{kind: kindObject, ref: &object{core: core}} }

// flatMerge makes the object of an object comprehension out of objects with one field each.
func (m *machine) flatMerge(elems []value) value {
	merged := &layer{}
	for i := range elems {
		o := m.object(m.forceAt(&elems[i]))
		l, ok := o.core.(*layer)
		if !ok {
			m.fail("unexpected object in a comprehension")
		}
		m.step(1)
		m.alloc(96)
		for _, f := range l.fields {
			f.env = l.env
			if !merged.add(f) {
				m.fail("duplicate field name: %s", f.name)
			}
		}
	}
	return newObject(merged)
}
