//go:build !forebay_notemplates

package template

import "math"

// stdCore are the functions that deal with values of any type.
func stdCore() map[string]goFunction {
	return map[string]goFunction{
		"id":     {params: []string{"x"}, run: func(_ *machine, a []value) value { return a[0] }},
		"extVar": {params: []string{"x"}, run: notAvailable("extVar")},
		"native": {params: []string{"x"}, run: notAvailable("native")},
		// The message is evaluated and dropped because a template has nowhere to write to.
		"trace": {params: []string{"str", "rest"}, run: func(m *machine, a []value) value { m.string(a[0]); return a[1] }},

		"type":     {params: []string{"x"}, run: func(_ *machine, a []value) value { return text(kindNames[a[0].kind]) }},
		"length":   {params: []string{"x"}, run: func(m *machine, a []value) value { return number(float64(m.sizeOf(a[0]))) }},
		"toString": {params: []string{"a"}, run: func(m *machine, a []value) value { return text(m.toString(a[0])) }},
		"isNull":   {params: []string{"x"}, run: func(_ *machine, a []value) value { return boolean(a[0].kind == kindNull) }},
		"isString": isKind(kindString), "isNumber": isKind(kindNumber), "isBoolean": isKind(kindBool),
		"isObject": isKind(kindObject), "isArray": isKind(kindArray), "isFunction": isKind(kindFunction),
		"equals": {params: []string{"x", "y"}, run: func(m *machine, a []value) value { return boolean(m.equal(a[0], a[1])) }},
		"primitiveEquals": {params: []string{"x", "y"}, run: func(m *machine, a []value) value {
			if a[0].kind == a[1].kind && (a[0].kind == kindArray || a[0].kind == kindObject) {
				m.fail("primitiveEquals compares primitive types, got %s", kindNames[a[0].kind])
			}
			return boolean(m.equal(a[0], a[1]))
		}},
		"xor":  {params: []string{"x", "y"}, run: func(m *machine, a []value) value { return boolean(m.boolean(a[0]) != m.boolean(a[1])) }},
		"xnor": {params: []string{"x", "y"}, run: func(m *machine, a []value) value { return boolean(m.boolean(a[0]) == m.boolean(a[1])) }},
	}
}

func isKind(k kind) goFunction {
	return goFunction{params: []string{"v"}, run: func(_ *machine, a []value) value { return boolean(a[0].kind == k) }}
}

func notAvailable(name string) func(*machine, []value) value {
	return func(m *machine, _ []value) value {
		m.fail("std.%s is not available in templates", name)
		return null
	}
}

// sizeOf is std.length.
func (m *machine) sizeOf(v value) int {
	switch v.kind {
	case kindString:
		return m.runeCount(v.str)
	case kindArray:
		return m.length(v)
	case kindObject:
		return len(m.fieldNames(v.ref.(*object), false))
	case kindFunction:
		n := 0
		for _, p := range v.ref.(*function).params {
			if !p.optional {
				n++
			}
		}
		return n
	}
	m.fail("a value of type %s has no length", kindNames[v.kind])
	return 0
}

func stdMath() map[string]goFunction {
	return map[string]goFunction{
		"sqrt": lift(math.Sqrt), "ceil": lift(math.Ceil), "floor": lift(math.Floor), "round": lift(math.Round),
		"sin": lift(math.Sin), "cos": lift(math.Cos), "tan": lift(math.Tan),
		"asin": lift(math.Asin), "acos": lift(math.Acos), "atan": lift(math.Atan), "log": lift(math.Log),
		"exp": lift(func(f float64) float64 {
			if r := math.Exp(f); r != 0 || f <= 0 {
				return r
			}
			return math.Inf(1)
		}),
		"mantissa": lift(func(f float64) float64 { frac, _ := math.Frexp(f); return frac }),
		"exponent": lift(func(f float64) float64 { _, exp := math.Frexp(f); return float64(exp) }),

		"hypot": lift2("x", "y", math.Hypot), "atan2": lift2("y", "x", math.Atan2), "pow": lift2("x", "n", math.Pow),
		"modulo": {params: []string{"x", "y"}, run: func(m *machine, a []value) value { return m.modulo(a[0], a[1]) }},

		"isEven":    liftTest(func(f float64) bool { i, _ := math.Modf(f); return math.Mod(i, 2) == 0 }),
		"isOdd":     liftTest(func(f float64) bool { i, _ := math.Modf(f); return math.Mod(i, 2) != 0 }),
		"isInteger": liftTest(func(f float64) bool { _, frac := math.Modf(f); return frac == 0 }),
		"isDecimal": liftTest(func(f float64) bool { _, frac := math.Modf(f); return frac != 0 }),
	}
}

func lift(f func(float64) float64) goFunction {
	return goFunction{params: []string{"x"}, run: func(m *machine, a []value) value { return m.checked(f(m.float(a[0]))) }}
}

func lift2(x, y string, f func(x, y float64) float64) goFunction {
	return goFunction{params: []string{x, y}, run: func(m *machine, a []value) value {
		l := m.float(a[0])
		return m.checked(f(l, m.float(a[1])))
	}}
}

func liftTest(f func(float64) bool) goFunction {
	return goFunction{params: []string{"x"}, run: func(m *machine, a []value) value { return boolean(f(m.float(a[0]))) }}
}

func (m *machine) modulo(x, y value) value {
	a, b := m.float(x), m.float(y)
	if b == 0 {
		m.fail("division by zero")
	}
	if a >= 1 && a <= maxSafe && b >= 1 && b <= maxSafe && a == math.Trunc(a) && b == math.Trunc(b) {
		return number(float64(int64(a) % int64(b))) // in a tenth of the time; -0, which keeps its sign, is not among them
	}
	return m.checked(math.Mod(a, b))
}
