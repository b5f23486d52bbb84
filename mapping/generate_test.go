package mapping

import (
	"fmt"
	"strconv"
	"strings"
)

// Texts that are long enough to be indexed by the machine.
const (
	longText  = `"0123456789<é>&'q$ 0123456789<é>&'q$ 😀 0123456789<é>&'q$ 0123456789<é>&'q$ 0123456789 ends so"`
	longASCII = `"0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 ends so"`
)

// generator makes templates and bodies out of the bytes of a fuzz input. Each byte is one choice, so that a small
// change of the input is a small change of the program. When the bytes end every choice is the first, which is a leaf.
type generator struct {
	data  []byte
	vars  []string
	depth int
	inObj int
}

func (g *generator) pick(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	c := g.data[0]
	g.data = g.data[1:]
	return int(c) % n
}

func (g *generator) one(options ...string) string { return options[g.pick(len(options))] }

// expr makes an expression that is most often of the wanted type: n(umber), s(tring), b(oolean), a(rray), o(bject),
// f(unction of one argument) or any other for no preference.
func (g *generator) expr(want byte) string {
	if g.depth > 6 || len(g.data) == 0 {
		return g.leaf(want)
	}
	g.depth++
	defer func() { g.depth-- }()
	if g.pick(16) == 1 {
		want = "nsbaof"[g.pick(6)]
	}
	switch g.pick(12) {
	case 0, 1:
		return g.leaf(want)
	case 2:
		return "(if " + g.expr('b') + " then " + g.expr(want) + " else " + g.expr(want) + ")"
	case 3:
		name := fmt.Sprintf("v%d", len(g.vars))
		val := g.expr("nsbao"[g.pick(5)])
		g.vars = append(g.vars, name)
		body := g.expr(want)
		g.vars = g.vars[:len(g.vars)-1]
		return "(local " + name + " = " + val + "; " + body + ")"
	case 4:
		if len(g.vars) > 0 {
			return g.vars[g.pick(len(g.vars))]
		}
	case 5:
		return "(" + g.lambda(want, 1) + ")(" + g.expr('n') + ")"
	case 6:
		return g.event()
	}
	switch want {
	case 'n':
		return g.number()
	case 's':
		return g.str()
	case 'b':
		return g.boolean()
	case 'a':
		return g.array()
	case 'o':
		return g.object()
	case 'f':
		return g.lambda('n', 1)
	}
	return g.expr("nsbao"[g.pick(5)])
}

func (g *generator) leaf(want byte) string {
	switch want {
	case 'n':
		return g.one("1", "0", "-1", "2", "0.5", "1e3", "-0.1", "1e17", "9007199254740993", "3", "10")
	case 's':
		return g.one(`"a"`, `""`, `"héllo"`, `"a,b,c"`, `'\u0000\u0085"\\'`, `"10"`, `"%s"`, `"%05d|%-3s"`, `"b"`, `" x "`, `"$1 <é> 'q'"`, longText, longASCII)
	case 'b':
		return g.one("true", "false")
	case 'a':
		return g.one("[]", "[1, 2, 3]", `["b", "a"]`, "[[1], []]", "[{a: 1}, {a: 2}]", "[null, true]")
	case 'o':
		return g.one("{}", "{a: 1}", "{b: 'x', a:: 2}", "{a: {b: [1]}}", "{a: 1, b: self.a}")
	case 'f':
		return g.one("function(x) x", "std.length", "std.toString", "function(x) x + x", "function(x) error 'e'")
	}
	return "null"
}

func (g *generator) lambda(want byte, n int) string {
	params := make([]string, n)
	for i := range params {
		params[i] = fmt.Sprintf("v%d", len(g.vars))
		g.vars = append(g.vars, params[i])
	}
	body := g.expr(want)
	g.vars = g.vars[:len(g.vars)-n]
	return "function(" + strings.Join(params, ", ") + ") " + body
}

func (g *generator) event() string {
	path := g.one("a", "a.b", "a.n[1]", "arr", "objs", "objs[0].name", "o", "z", "nope", "", "u", "big", "s")
	switch g.pick(8) {
	case 0, 1, 2:
		return "Body('" + path + "')"
	case 3:
		return "Body('" + path + "', " + g.expr('n') + ")"
	case 4:
		return "Header('" + g.one("X-Env", "nope", "x-env", "") + "', " + g.expr('s') + ")"
	case 5:
		return g.one("Now()", "Now('%Y-%j')", "Ip()", "BodyStr()", "HeaderStr()", "Header()")
	case 6:
		return "std.get(Body(), '" + path + "', " + g.expr('n') + ")"
	}
	return "Header('X-Env')"
}

func (g *generator) number() string {
	switch g.pick(8) {
	case 0:
		return "(" + g.expr('n') + " " + g.one("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>") + " " + g.expr('n') + ")"
	case 1:
		return g.one("-", "+", "~") + "(" + g.expr('n') + ")"
	case 2:
		return "std.length(" + g.expr("aso"[g.pick(3)]) + ")"
	case 3:
		return "std." + g.one("floor", "ceil", "round", "abs", "sign", "sqrt", "exp", "log", "mantissa", "exponent") + "(" + g.expr('n') + ")"
	case 4:
		return "std." + g.one("max", "min", "pow", "mod", "hypot", "modulo") + "(" + g.expr('n') + ", " + g.expr('n') + ")"
	case 5:
		return "std.foldl(" + g.lambda('n', 2) + ", " + g.expr('a') + ", " + g.expr('n') + ")"
	case 6:
		return "std." + g.one("parseInt", "codepoint", "parseHex") + "(" + g.expr('s') + ")"
	}
	return "std." + g.one("sum", "avg", "minArray", "maxArray") + "(" + g.expr('a') + ")"
}

func (g *generator) str() string {
	switch g.pick(15) {
	case 0, 1, 2:
		return "(" + g.expr('s') + " + " + g.expr("snbaoz"[g.pick(6)]) + ")"
	case 11:
		return "std.flatMap(" + g.lambda('s', 1) + ", " + g.expr('s') + ")"
	case 12:
		return "std.foldl(" + g.lambda('s', 2) + ", " + g.expr("sa"[g.pick(2)]) + ", " + g.expr('s') + ")"
	case 13:
		return g.expr('s') + "[" + g.expr('n') + "]"
	case 3:
		return "std.toString(" + g.expr('z') + ")"
	case 4:
		return "std." + g.one("asciiUpper", "asciiLower", "trim", "escapeStringJson", "escapeStringXML", "md5", "base64", "escapeStringBash", "escapeStringPython", "escapeStringDollars") + "(" + g.expr('s') + ")"
	case 5:
		return "std.join(" + g.expr('s') + ", " + g.expr('a') + ")"
	case 6:
		return "std.substr(" + g.expr('s') + ", " + g.expr('n') + ", " + g.expr('n') + ")"
	case 7:
		return "std.strReplace(" + g.expr('s') + ", " + g.expr('s') + ", " + g.expr('s') + ")"
	case 8:
		return "(" + g.expr('s') + " % " + g.expr("asno"[g.pick(4)]) + ")"
	case 9:
		return g.expr('s') + "[" + g.one("", "-3", "64", g.expr('n')) + ":" + g.one("", "-2", "70", g.expr('n')) + g.one("", ":2", ":0") + "]"
	case 10:
		return "std." + g.one("manifestJsonMinified", "manifestJson", "manifestYamlDoc", "manifestPython", "manifestToml", "type", "manifestXmlJsonml", "manifestYamlStream") + "(" + g.expr("oanb"[g.pick(4)]) + ")"
	}
	return "std." + g.one("stripChars", "lstripChars", "rstripChars") + "(" + g.expr('s') + ", " + g.expr("sa"[g.pick(2)]) + ")"
}

func (g *generator) boolean() string {
	t := "nsao"[g.pick(4)]
	switch g.pick(7) {
	case 0:
		return "(" + g.expr(t) + " " + g.one("==", "!=", "<", "<=", ">", ">=") + " " + g.expr(t) + ")"
	case 1:
		return "(" + g.expr('b') + " " + g.one("&&", "||") + " " + g.expr('b') + ")"
	case 2:
		return "!" + g.expr('b')
	case 3:
		return "std." + g.one("isString", "isNumber", "isArray", "isObject", "isEven", "isInteger", "isEmpty", "isNull") + "(" + g.expr('z') + ")"
	case 4:
		return "std." + g.one("objectHas", "objectHasAll") + "(" + g.expr('o') + ", " + g.expr('s') + ")"
	case 5:
		return "std." + g.one("startsWith", "endsWith", "member", "equalsIgnoreCase", "contains") + "(" + g.expr('s') + ", " + g.expr('s') + ")"
	}
	return "(" + g.expr('s') + " in " + g.expr('o') + ")"
}

func (g *generator) array() string {
	switch g.pick(17) {
	case 13:
		return "std.foldl(" + g.lambda('a', 2) + ", " + g.expr("sa"[g.pick(2)]) + ", " + g.expr('a') + ")"
	case 14:
		return "std.map(" + g.expr('f') + ", " + g.expr('s') + ")"
	case 15:
		return "std.flatMap(" + g.lambda('a', 1) + ", " + g.expr('a') + ")"
	case 0:
		n := g.pick(4)
		parts := make([]string, n)
		for i := range parts {
			parts[i] = g.expr('z')
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case 1:
		return "(" + g.expr('a') + " + " + g.expr('a') + ")"
	case 2:
		return "std.map(" + g.expr('f') + ", " + g.expr('a') + ")"
	case 3:
		return "std.filter(" + g.lambda('b', 1) + ", " + g.expr('a') + ")"
	case 4:
		in := g.expr('a')
		v := fmt.Sprintf("v%d", len(g.vars))
		g.vars = append(g.vars, v)
		body, cond := g.expr('z'), ""
		if g.pick(2) == 1 {
			cond = " if " + g.expr('b')
		}
		g.vars = g.vars[:len(g.vars)-1]
		return "[" + body + " for " + v + " in " + in + cond + "]"
	case 5:
		return "std.range(" + strconv.Itoa(g.pick(5)) + ", " + strconv.Itoa(g.pick(12)) + ")"
	case 6:
		return "std." + g.one("sort", "reverse", "uniq", "set", "flattenArrays", "prune", "flattenDeepArray") + "(" + g.expr('a') + ")"
	case 7:
		return "std." + g.one("split", "findSubstr") + "(" + g.expr('s') + ", " + g.expr('s') + ")"
	case 8:
		return g.expr('a') + "[" + g.one("", g.expr('n')) + ":" + g.one("", g.expr('n')) + g.one("", ":2", ":-1", ":3") + "]"
	case 9:
		return "std." + g.one("objectFields", "objectValues", "objectFieldsAll", "objectKeysValues") + "(" + g.expr('o') + ")"
	case 10:
		return "std.makeArray(" + strconv.Itoa(g.pick(6)) + ", " + g.expr('f') + ")"
	case 11:
		return "std." + g.one("stringChars", "encodeUTF8", "base64DecodeBytes") + "(" + g.expr('s') + ")"
	case 12:
		return "std." + g.one("setUnion", "setInter", "setDiff") + "(" + g.expr('a') + ", " + g.expr('a') + ")"
	}
	return "std.mapWithIndex(" + g.lambda('n', 2) + ", " + g.expr("as"[g.pick(2)]) + ")"
}

func (g *generator) object() string {
	switch g.pick(8) {
	case 0, 1, 2:
		return g.literal()
	case 3:
		return "(" + g.expr('o') + " + " + g.literal() + ")"
	case 4:
		v := fmt.Sprintf("v%d", len(g.vars))
		in := g.expr('a')
		g.vars = append(g.vars, v)
		s := "{['k' + " + v + "]: " + g.expr('z') + " for " + v + " in " + in + "}"
		g.vars = g.vars[:len(g.vars)-1]
		return s
	case 5:
		return "std.mergePatch(" + g.expr('o') + ", " + g.expr('o') + ")"
	case 6:
		return "std.objectRemoveKey(" + g.expr('o') + ", " + g.one("'a'", "'b'", g.expr('s')) + ")"
	}
	return "std." + g.one("prune", "parseJson") + "(" + g.expr("os"[g.pick(2)]) + ")"
}

func (g *generator) literal() string {
	var parts []string
	g.inObj++
	for range g.pick(4) {
		switch g.pick(8) {
		case 0:
			parts = append(parts, "assert "+g.expr('b'))
			continue
		case 1:
			v := fmt.Sprintf("v%d", len(g.vars))
			parts = append(parts, "local "+v+" = "+g.expr('z'))
			continue
		}
		name := g.one("a", "b", "c", "[null]", "['a' + 'b']", `"x y"`)
		body := g.expr('z')
		switch g.pick(6) {
		case 1:
			body = "self." + g.one("a", "b", "c")
		case 2:
			body = "super." + g.one("a", "b")
		case 3:
			body = "$." + g.one("a", "b", "c")
		}
		parts = append(parts, name+g.one(": ", ":: ", "+: ", "::: ", ": ", ": ")+body)
	}
	g.inObj--
	return "{" + strings.Join(parts, ", ") + "}"
}

// body makes a JSON text.
func (g *generator) body() string {
	var b strings.Builder
	b.WriteString("{")
	for i, k := range []string{"a", "arr", "objs", "o", "z", "u", "big", "s"} {
		if g.pick(5) == 0 && len(g.data) > 0 {
			continue
		}
		if b.Len() > 1 {
			b.WriteString(g.one(",", ", ", ",\n"))
		}
		fmt.Fprintf(&b, "%q:%s%s", k, g.one("", " "), g.json(i%3))
	}
	b.WriteString("}")
	return b.String()
}

func (g *generator) json(depth int) string {
	switch g.pick(9) {
	case 0, 1:
		return g.one("1", "-0", "2.50", "1e3", "12345678901234567890", "0.1", "-7", "1E-7", "1e999")
	case 2, 3:
		return g.one(`"a"`, `""`, `"\u00e9\n"`, `"é"`, `"\ud800x"`, `"10"`, `"a.b"`, "\"\xff\"", `"\/"`, `"\u0085"`)
	case 4:
		return g.one("null", "true", "false")
	case 5, 6:
		if depth > 2 {
			return "[]"
		}
		var parts []string
		for range g.pick(4) {
			parts = append(parts, g.json(depth+1))
		}
		return "[" + strings.Join(parts, g.one(",", " , ")) + "]"
	}
	if depth > 2 {
		return "{}"
	}
	var parts []string
	for range g.pick(4) {
		parts = append(parts, g.one(`"b"`, `"n"`, `"name"`, `"\u0062"`, `"é"`, `""`)+":"+g.json(depth+1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}
