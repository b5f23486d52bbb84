//go:build !forebay_notemplates

package template

import "github.com/google/go-jsonnet/ast"

func stdObjects() map[string]goFunction {
	return map[string]goFunction{
		"objectFieldsEx": {params: []string{"obj", "hidden"}, run: func(m *machine, a []value) value {
			o := m.object(a[0])
			return m.texts(m.fieldNames(o, m.boolean(a[1])))
		}},
		"objectFields":    {params: []string{"o"}, run: func(m *machine, a []value) value { return m.texts(m.fieldNames(m.object(a[0]), false)) }},
		"objectFieldsAll": {params: []string{"o"}, run: func(m *machine, a []value) value { return m.texts(m.fieldNames(m.object(a[0]), true)) }},
		"objectHasEx": {params: []string{"obj", "fname", "hidden"}, run: func(m *machine, a []value) value {
			o, name := m.object(a[0]), m.string(a[1])
			return boolean(m.hasField(o, name, m.boolean(a[2])))
		}},
		"objectHas":    {params: []string{"o", "f"}, run: func(m *machine, a []value) value { return boolean(m.hasField(m.object(a[0]), m.string(a[1]), false)) }},
		"objectHasAll": {params: []string{"o", "f"}, run: func(m *machine, a []value) value { return boolean(m.hasField(m.object(a[0]), m.string(a[1]), true)) }},
		"objectRemoveKey": {params: []string{"obj", "key"}, run: func(m *machine, a []value) value {
			o := m.object(a[0])
			r := &restricted{obj: o.core, keep: m.visibility(o.core)}
			m.alloc(48 * len(r.keep))
			delete(r.keep, m.string(a[1]))
			return newObject(r)
		}},
		"prune":            {params: []string{"a"}, run: func(m *machine, a []value) value { return m.prune(a[0]) }},
		"$objectFlatMerge": {params: []string{"x"}, run: func(m *machine, a []value) value { return m.flatMerge(m.array(a[0])) }},
	}
}

// prune drops null and empty values, from the inside out. It looks at each value once, while the jsonnet version looks again at every
// level.
func (m *machine) prune(v value) value {
	m.step(1)
	switch v.kind {
	case kindArray:
		m.enter(1)
		in := m.array(v)
		var out []value
		for i := range in {
			if el := m.prune(m.forceAt(&in[i])); m.isContent(el) {
				m.alloc(96)
				out = append(out, el)
			}
		}
		m.leave(1)
		return list(out)
	case kindObject:
		m.enter(1)
		o, l := v.ref.(*object), &layer{}
		for _, name := range m.fieldNames(o, false) {
			if el := m.prune(m.get(o, 0, name)); m.isContent(el) {
				m.alloc(128)
				l.add(field{name: name, hide: ast.ObjectFieldInherit, val: el})
			}
		}
		m.leave(1)
		return newObject(l)
	}
	return v
}

func (m *machine) isContent(v value) bool {
	switch v.kind {
	case kindNull:
		return false
	case kindArray, kindObject:
		return m.sizeOf(v) > 0
	}
	return true
}
