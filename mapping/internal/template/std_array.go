//go:build !forebay_notemplates

package template

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// stdArrays are the functions of arrays, and the functions that take a function over them.
func stdArrays() map[string]goFunction {
	return map[string]goFunction{
		"range":         {params: []string{"from", "to"}, run: (*machine).stdRange},
		"slice":         {params: []string{"indexable", "index", "end", "step"}, run: (*machine).stdSlice},
		"uniq":          {params: []string{"arr", "keyF?"}, run: (*machine).stdUniq},
		"flattenArrays": {params: []string{"arrs"}, run: (*machine).stdFlattenArrays},
		"reverse":       {params: []string{"arr"}, run: (*machine).stdReverse},
		"filter":        {params: []string{"func", "arr"}, run: (*machine).stdFilter},
		"map":           {params: []string{"func", "arr"}, run: (*machine).stdMap},
		"mapWithIndex":  {params: []string{"func", "arr"}, run: (*machine).stdMapWithIndex},
		"flatMap":       {params: []string{"func", "arr"}, run: (*machine).stdFlatMap},
		"$flatMapArray": {params: []string{"func", "arr"}, run: func(m *machine, a []value) value {
			m.array(a[1])
			return m.stdFlatMap(a)
		}},
		"foldl":     {params: []string{"func", "arr", "init"}, run: func(m *machine, a []value) value { return m.fold(a, false) }},
		"foldr":     {params: []string{"func", "arr", "init"}, run: func(m *machine, a []value) value { return m.fold(a, true) }},
		"makeArray": {params: []string{"sz", "func"}, run: (*machine).stdMakeArray},
		"join":      {params: []string{"sep", "arr"}, run: (*machine).stdJoin},
		"member":    {params: []string{"arr", "x"}, run: func(m *machine, a []value) value { return boolean(m.member(a[0], a[1])) }},
		"contains": {params: []string{"arr", "elem"}, run: func(m *machine, a []value) value {
			return boolean(m.find(m.array(a[0]), a[1]) >= 0)
		}},
		"remove": {params: []string{"arr", "elem"}, run: func(m *machine, a []value) value {
			if i := m.find(m.array(a[0]), a[1]); i >= 0 {
				return m.removeAt(a[0], i)
			}
			return a[0]
		}},
		"removeAt": {params: []string{"arr", "i"}, run: func(m *machine, a []value) value { return m.removeAt(a[0], m.integer(a[1])) }},
		"sum":      {params: []string{"arr"}, run: func(m *machine, a []value) value { return m.checked(m.sumOf(a[0])) }},
		"avg": {params: []string{"arr"}, run: func(m *machine, a []value) value {
			n := len(m.array(a[0]))
			if n == 0 {
				m.fail("an empty array has no average")
			}
			return m.checked(m.sumOf(a[0]) / float64(n))
		}},
		"sort":     {params: []string{"arr", "keyF?"}, run: (*machine).stdSort},
		"minArray": {params: []string{"arr", "keyF?", "onEmpty?"}, run: func(m *machine, a []value) value { return m.extreme(a, 1) }},
		"maxArray": {params: []string{"arr", "keyF?", "onEmpty?"}, run: func(m *machine, a []value) value { return m.extreme(a, -1) }},
	}
}

var identity = value{kind: kindFunction, ref: &function{
	params: []param{{name: "x"}}, native: func(_ *machine, a []value) value { return a[0] },
}}

func (m *machine) stdRange(a []value) value {
	from, to := m.integer(a[0]), m.integer(a[1])
	n := max(to-from+1, 0)
	m.ticks(2 * n)
	m.alloc(64)
	return value{kind: kindArray, ref: &array{form: formRange, first: from, count: n}}
}

// stdSlice is x[index:end:step].
func (m *machine) stdSlice(a []value) value {
	var at [3]int // index, end, step
	regular := a[0].kind == kindString || a[0].kind == kindArray
	for i := range at {
		switch v := a[i+1]; {
		case v.kind == kindNumber && m.float(v) == float64(int32(m.float(v))):
			at[i] = int(m.float(v))
		case v.kind != kindNull:
			regular = false
		}
	}
	if a[3].kind == kindNull {
		at[2] = 1
	}
	if !regular || at[2] <= 0 {
		return m.origin("slice", a...)
	}
	n := m.sizeOf(a[0])
	if a[2].kind == kindNull {
		at[1] = n
	}
	for i := range 2 {
		if at[i] < 0 {
			at[i] += n
		}
		at[i] = min(max(at[i], 0), n)
	}
	from, to, step := at[0], max(at[0], at[1]), at[2]
	switch {
	case a[0].kind == kindArray:
		in := m.array(a[0])
		out := m.take((to - from + step - 1) / step)
		for i := from; i < to; i += step {
			out = append(out, in[i])
		}
		return list(out)
	case step == 1:
		return text(m.runeSlice(a[0].str, from, to))
	}
	s := m.runeSlice(a[0].str, from, to)
	m.step(len(s) / bytesAStep)
	m.alloc(len(s))
	out, n := make([]byte, 0, len(s)), 0
	for i, r := range s {
		if n%step == 0 {
			out = append(out, s[i:i+utf8.RuneLen(r)]...)
		}
		n++
	}
	return text(tape.AsString(out))
}

func (m *machine) stdFlattenArrays(a []value) value {
	if a[0].kind != kindArray {
		return m.origin("flattenArrays", a...)
	}
	in := m.array(a[0])
	n := 0
	for i := range in {
		v := m.forceAt(&in[i])
		if v.kind != kindArray {
			return m.origin("flattenArrays", a...)
		}
		n += m.length(v)
	}
	m.step(len(in))
	out := m.take(n)
	for i := range in {
		out = append(out, m.array(in[i])...)
	}
	return list(out)
}

// stdUniq drops elements whose key equals the one before. The key of a single element is not evaluated.
func (m *machine) stdUniq(a []value) value {
	in := m.elements(a[0])
	var out []value
	var last value
	for i := range in.len() {
		el := in.at(m, i)
		if in.len() > 1 {
			key := m.call(m.function(a[1]), el)
			if i > 0 && m.equal(last, key) {
				continue
			}
			last = key
		}
		m.alloc(96)
		out = append(out, el)
	}
	return list(out)
}

func (m *machine) stdReverse(a []value) value {
	in := m.array(a[0])
	out := append(m.take(len(in)), in...)
	slices.Reverse(out)
	return list(out)
}

func (m *machine) stdFilter(a []value) value {
	m.want(a[1], kindArray)
	in, f := m.elements(a[1]), m.function(a[0])
	var pos []uint32
	for i := range in.len() {
		if m.ticks(2); m.boolean(m.call(f, in.at(m, i))) {
			m.alloc(8) // an append that doubles its room
			pos = append(pos, uint32(i))
		}
	}
	out := m.take(len(pos))
	for _, i := range pos {
		out = append(out, in.at(m, int(i)))
	}
	return list(out)
}

func (m *machine) stdMap(a []value) value {
	f := m.function(a[0])
	switch a[1].kind {
	case kindString:
		s := a[1].str
		out := m.take(m.runeCount(s))
		calls := byRune[value]{make: func(c value) value { return m.later(f, c) }}
		for i, r := range s {
			out = append(out, *calls.of(s, i, r))
		}
		return list(out)
	case kindArray:
		in := m.elements(a[1])
		return m.generated(&generator{src: in, fn: f}, in.len())
	}
	return m.noSequence("map", a[1])
}

// noSequence is the failure of a function that goes through an array or a text.
func (m *machine) noSequence(name string, got value) value {
	m.fail("std.%s second param must be array / string, got %s", name, kindNames[got.kind])
	return null
}

func (m *machine) stdMapWithIndex(a []value) value {
	f := m.function(a[0])
	if a[1].kind != kindArray && a[1].kind != kindString {
		return m.noSequence("mapWithIndex", a[1])
	}
	in := m.elements(a[1])
	return m.generated(&generator{src: in, fn: f, numbered: true}, in.len())
}

// byRune caches the result of a function for each character. Jsonnet has no side effects, and texts have few different
// characters.
type byRune[T any] struct {
	make  func(c value) T
	ascii [utf8.RuneSelf]*T
	other map[rune]*T
}

// of returns the result for the character r at s[i:].
func (b *byRune[T]) of(s string, i int, r rune) *T {
	if r < utf8.RuneSelf {
		if b.ascii[r] == nil {
			v := b.make(text(s[i : i+1]))
			b.ascii[r] = &v
		}
		return b.ascii[r]
	}
	v := b.other[r]
	if v == nil {
		made := b.make(text(s[i : i+utf8.RuneLen(r)]))
		v = &made
		if b.other == nil {
			b.other = map[rune]*T{}
		}
		b.other[r] = v
	}
	return v
}

// later returns a thunk of a call.
func (m *machine) later(f *function, args ...value) value {
	m.alloc(128)
	return value{kind: kindThunk, ref: &thunk{run: func(m *machine, _ *env) value { return m.call(f, args...) }}}
}

func (m *machine) stdFlatMap(a []value) value {
	f := m.function(a[0])
	switch a[1].kind {
	case kindArray:
		in := m.elements(a[1])
		var out []value
		for i := range in.len() {
			part := m.array(m.call(f, in.at(m, i)))
			m.step(len(part))
			m.alloc(48 * len(part))
			out = append(out, part...)
		}
		return list(out)
	case kindString:
		s := a[1].str
		m.step(1 + len(s)/bytesAStep)
		var out []byte
		calls := byRune[string]{make: func(c value) string { return m.string(m.call(f, c)) }}
		for i, r := range s {
			part := *calls.of(s, i, r)
			if n := len(out) + len(part); n > cap(out) {
				m.alloc(n)
				out = slices.Grow(out, max(len(part), len(out)))
			}
			out = append(out, part...)
		}
		m.step(len(out) / bytesAStep)
		return text(tape.AsString(out))
	}
	return m.noSequence("flatMap", a[1])
}

func (m *machine) fold(a []value, right bool) value {
	f, in, acc := m.function(a[0]), m.elements(a[1]), a[2]
	n := in.len()
	for i := range n {
		if right {
			acc = m.call(f, in.at(m, n-1-i), acc)
		} else {
			acc = m.call(f, acc, in.at(m, i))
		}
	}
	return acc
}

func (m *machine) stdMakeArray(a []value) value {
	n, f := m.integer(a[0]), m.function(a[1])
	return m.generated(&generator{src: &array{form: formRange, count: n}, fn: f}, max(n, 0))
}

func (m *machine) stdJoin(a []value) value {
	sep := a[0]
	m.want(a[1], kindArray)
	switch sep.kind {
	case kindString:
		// Evaluating an element may make strings too. All of them come first, so that the joined text is one piece.
		size, parts := 0, m.elements(a[1])
		for i := range parts.len() {
			if v := m.force(parts.at(m, i)); v.kind != kindNull {
				size += len(m.string(v)) + len(sep.str)
			}
		}
		m.ticks(2 * parts.len())
		m.step(size >> 6)
		m.alloc(size)
		from, first := len(m.buf), true
		for i := range parts.len() {
			v := m.force(parts.at(m, i))
			if v.kind == kindNull {
				continue
			}
			if !first {
				m.buf = append(m.buf, sep.str...)
			}
			m.buf, first = append(m.buf, v.str...), false
		}
		return m.made(from)
	case kindArray:
		var out []value
		in, between, first := m.array(a[1]), m.array(sep), true
		for i := range in {
			v := m.forceAt(&in[i])
			if v.kind == kindNull {
				continue
			}
			part := m.array(v)
			if !first {
				m.step(len(between))
				m.alloc(48 * len(between))
				out = append(out, between...)
			}
			m.step(1 + len(part))
			m.alloc(48 * len(part))
			out, first = append(out, part...), false
		}
		return list(out)
	}
	m.fail("join first parameter should be string or array, got %s", kindNames[sep.kind])
	return null
}

func (m *machine) member(in, x value) bool {
	switch in.kind {
	case kindString:
		m.step(len(in.str) >> 5)
		return strings.Contains(in.str, m.string(x))
	case kindArray:
		return m.find(m.array(in), x) >= 0
	}
	m.fail("std.member first argument must be an array or a string")
	return false
}

func (m *machine) find(in []value, x value) int {
	for i := range in {
		if m.equal(m.forceAt(&in[i]), x) {
			return i
		}
	}
	return -1
}

func (m *machine) removeAt(v value, i int) value {
	in := m.array(v)
	if i < 0 || i >= len(in) {
		m.fail("index %d out of bounds, not within [0, %d)", i, len(in))
	}
	return list(append(append(m.take(len(in)-1), in[:i]...), in[i+1:]...))
}

func (m *machine) sumOf(v value) float64 {
	sum := 0.0
	in := m.array(v)
	m.step(len(in))
	for i := range in {
		sum += m.float(m.forceAt(&in[i]))
	}
	return sum
}

func (m *machine) stdSort(a []value) value {
	in, f := m.array(a[0]), m.function(a[1])
	type keyed struct{ key, elem value }
	m.alloc(96 * len(in))
	pairs := make([]keyed, len(in))
	for i := range in {
		pairs[i] = keyed{m.call(f, in[i]), in[i]}
	}
	slices.SortStableFunc(pairs, func(x, y keyed) int { return m.compare(x.key, y.key) })
	out := m.take(len(in))
	for i := range pairs {
		out = append(out, pairs[i].elem)
	}
	return list(out)
}

// extreme is std.minArray, or std.maxArray with a sign of -1.
func (m *machine) extreme(a []value, sign int) value {
	in, f := m.array(a[0]), m.function(a[1])
	if len(in) == 0 {
		if a[2].kind == kindAbsent {
			m.fail("expected at least one element in array, got none")
		}
		return a[2]
	}
	best := m.forceAt(&in[0])
	bestKey := m.call(f, in[0])
	for i := 1; i < len(in); i++ {
		v := m.forceAt(&in[i])
		key := m.call(f, in[i])
		if sign*m.compare(bestKey, key) > 0 {
			best, bestKey = v, key
		}
	}
	return best
}
