//go:build !forebay_notemplates

package template

import (
	"strings"
	"testing"
	"time"
)

// hostile are short programs that ask for much.
var hostile = map[string]string{
	"range":               `std.range(1, 1e9)`,
	"range in a length":   `std.length(std.range(1, 1e9))`,
	"makeArray":           `std.makeArray(1e9, function(i) i)`,
	"repeat":              `std.repeat('x', 1e9)`,
	"endless recursion":   `local f(x) = f(x + 1); f(1)`,
	"endless tail calls":  `local f(x) = f(x + 1) tailstrict; f(1)`,
	"mutual recursion":    `local f(x) = g(x), g(x) = f(x); f(1)`,
	"recursive value":     `local x = x + 1; x`,
	"recursive object":    `local o = { a: o }; o`,
	"recursive array":     `local a = [a, a]; a`,
	"recursive self":      `{ a: self }`,
	"string doubling":     `local d(x, n) = if n == 0 then x else d(x + x, n - 1); std.length(d('xx', 60))`,
	"array doubling":      `local d(x, n) = if n == 0 then x else d(x + x, n - 1); std.length(d([1, 2], 60))`,
	"fibonacci":           `local fib(n) = if n < 2 then n else fib(n - 1) + fib(n - 2); fib(50)`,
	"nested loops":        `[[[x * y * z for x in r] for y in r] for r in [std.range(1, 1000)] for z in r]`,
	"three loops":         `local r = std.range(1, 500); std.length([1 for x in r for y in r for z in r])`,
	"fold":                `std.foldl(function(a, x) a + a, std.range(1, 100), 'x')`,
	"fold of objects":     `std.foldl(function(a, x) a + { ['k' + x]: x }, std.range(1, 20000), {})`,
	"join":                `local s = std.join('', std.makeArray(1000, function(i) 'xxxxxxxxxx')); std.join(s, std.makeArray(10000, function(i) s))`,
	"strReplace":          `local s = std.repeat('a', 4000); std.strReplace(std.strReplace(s, 'a', s), 'a', s)`,
	"wide format":         `'%1000000000d' % 1`,
	"long format":         `local s = std.repeat('x', 100000); std.repeat('%s', 100000) % std.makeArray(100000, function(i) s)`,
	"exact format":        `'%.1000000000f' % 1`,
	"sort":                `std.sort(std.makeArray(1e6, function(i) -i))`,
	"sets":                `std.set(std.makeArray(1e6, function(i) i % 7))`,
	"manifest deep":       `local f(n) = if n == 0 then [] else [f(n - 1)]; f(1e6)`,
	"yaml":                `std.parseYaml(std.repeat('- [[[[[[[[[[a]]]]]]]]]]\n', 100000))`,
	"yaml aliases":        `std.parseYaml('a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]')`,
	"yaml sequences":      `std.parseYaml(std.repeat('[', 60000))`,
	"yaml mappings":       `std.parseYaml(std.repeat('{a: ', 15000))`,
	"yaml keys":           `std.parseYaml(std.repeat('? ', 30000))`,
	"yaml dashes":         `std.parseYaml(std.repeat('- ', 30000))`,
	"yaml anchors":        `std.parseYaml('[' + std.repeat('&a a,*a,', 7000) + ']')`,
	"yaml merges":         `std.parseYaml(std.join('\n', ['k%d: &k%d {<<: *k%d}' % [i, i, i - 1] for i in std.range(1, 2000)]))`,
	"yaml documents":      `std.length(std.parseYaml(std.repeat('---\n', 15000)))`,
	"long path":           `Body(std.repeat('a.', 1000000), 1)`,
	"long format of time": `Now(std.repeat('%Y', 1000000))`,
	"right inheritance":   `std.length(std.foldr(function(x, a) { ['k' + x]: x } + a, std.range(1, 20000), {}))`,
	"dense json":          `std.parseJson('[' + std.repeat('1,', 1000000) + '1]')`,
	"json":                `std.parseJson(std.repeat('[', 1000000))`,
	"output":              `[std.repeat('x', 1000000), std.repeat('y', 1000000)]`,
	"indents":             `std.manifestJsonEx(std.foldl(function(a, x) [a], std.range(1, 400), []), std.repeat(' ', 100000))`,
	"comparison":          `local a = std.range(1, 100000); [a == a, a == a, a == a, a < a, a < a, a == a, a == a, a == a, a == a, a == a, a == a, a == a]`,
	"late inheritance":    `local f(o, n) = if n == 0 then o else f(o + { a: super.a + 1 }, n - 1); f({ a: 1 }, 400).a + std.range(1, 1e9)[0]`,
	"object fields":       `local o = { ['k' + i]: i for i in std.range(1, 5000) }; std.length(std.flattenArrays([std.objectFields(o) for i in std.range(1, 50000)]))`,
	"prune":               `std.prune(std.makeArray(1000, function(i) std.makeArray(1000, function(j) null)))`,
	"base64":              `local f(s, n) = if n == 0 then s else f(std.base64(s), n - 1); f('abcdef', 300)`,
	"escape":              `local f(s, n) = if n == 0 then s else f(std.escapeStringJson(s), n - 1); f('"', 40)`,
	"strip":               `std.stripChars(std.repeat(' ', 1000000), std.makeArray(1000, function(i) 'x') + [' '])`,
	"find":                `std.findSubstr('a', std.repeat('a', 100000))`,
	"split":               `std.length(std.split(std.repeat('a,', 4000000), ','))`,
	"equal strings":       `local s = std.repeat('a', 1000000); std.count(std.makeArray(100000, function(i) s), s + '')`,
	"hashing":             `std.foldl(function(a, x) std.sha512(std.repeat('a', 1000000)), std.range(1, 1000), '')`,
	"asserts":             `{ assert std.length(std.range(1, 1e9)) > 0, a: 1 }`,
	"lazy default":        `Body('nope', std.range(1, 1e9))`,
	"flatMap":             `std.flatMap(function(x) std.range(1, 100000), std.range(1, 100000))`,
	"mapWithIndex":        `std.length(std.mapWithIndex(function(i, x) x, std.range(1, 10000000)))`,
	"character by number": `std.map(std.char, std.range(1, 10000000))`,
	"format in a loop":    `std.map(function(i) '%d %s %5.3f' % [i, i, i], std.range(1, 100000))`,
	"asciiUpper":          `std.foldl(function(a, x) std.asciiUpper(a), std.range(1, 100000), std.repeat('a', 1000000))`,
	"concat of long":      `local s = std.repeat('a', 1000000); std.map(function(i) s + i, std.range(1, 1000))`,
	"length of long":      `local s = std.repeat('é', 1000000); std.map(function(i) std.length(s), std.range(1, 100000))`,
	"index of long":       `local s = std.repeat('é', 1000000); std.map(function(i) s[999999], std.range(1, 100000))`,
	"trim of long":        `local s = std.repeat(' ', 1000000); std.map(function(i) std.trim(s), std.range(1, 100000))`,
	"utf8":                `std.decodeUTF8(std.makeArray(10000000, function(i) 65))`,
	"merge patches":       `std.foldl(function(a, x) std.mergePatch(a, { ['k' + x]: x }), std.range(1, 10000), {})`,
	"deep join":           `std.deepJoin(std.makeArray(1000, function(i) std.makeArray(1000, function(j) 'x')))`,
	"xml":                 `std.manifestXmlJsonml(std.foldl(function(a, x) ['a', a, a], std.range(1, 60), 'x'))`,
	"toString":            `std.foldl(function(a, x) std.toString([a, a]), std.range(1, 100), 'x')`,
}

// refused are the programs that end within the bounds, most of them with their own error.
var refused = map[string]bool{
	"exact format": true, "yaml aliases": true, "yaml sequences": true, "yaml mappings": true, "yaml keys": true,
	"yaml dashes": true, "yaml anchors": true, "yaml merges": true, "yaml documents": true,
}

func TestHostileTemplatesEndSoon(t *testing.T) {
	for name, content := range hostile {
		t.Run(name, func(t *testing.T) {
			p, err := compile(content, Options{})
			if err != nil {
				t.Fatal(err)
			}
			fail := endsWithin(t, 100*time.Millisecond, p, sampleEvent())
			if exceeded := fail != nil && fail.Kind == Exceeded; !exceeded && !refused[name] {
				t.Errorf("got %v, want a budget error", fail)
			}
		})
	}
}

// endsWithin evaluates a program and demands that it takes little time.
func endsWithin(t *testing.T, limit time.Duration, p *Program, ev Event) (fail *Error) {
	t.Helper()
	if raceEnabled {
		limit *= 20
	}
	var took time.Duration
	// Processor time too depends on the neighbours, who share caches, so the best of some runs counts.
	for n := 0; n == 0 || n < 8 && took > limit; n++ {
		d := cpuOf(func() { _, fail = p.Append(nil, ev, false) })
		if n == 0 || d < took {
			took = d
		}
	}
	if took > limit {
		t.Errorf("took %s, want at most %s", took, limit)
	}
	if fail != nil {
		t.Logf("%s: %v", took, fail.Err)
	} else {
		t.Logf("%s: no failure", took)
	}
	return fail
}

// A definition of the greatest length compiles soon, or is refused, however it nests.
func TestHostileDefinitions(t *testing.T) {
	limit := 2 * time.Second
	if raceEnabled {
		limit *= 10
	}
	for name, part := range map[string][3]string{
		"parentheses":    {"(", "1", ")"},
		"arrays":         {"[", "1", "]"},
		"objects":        {"{a:", "1", "}"},
		"object locals":  {"{local a=", "1", ",b:a}"},
		"locals":         {"local a=", "1", ";a"},
		"functions":      {"(function(x)", "1", ")(1)"},
		"defaults":       {"(function(x=", "1", ")x)()"},
		"conditionals":   {"if true then ", "1", " else 2"},
		"negations":      {"!", "true", ""},
		"sums":           {"1+", "1", ""},
		"differences":    {"", "1", "-1"},
		"indexes":        {"", "[1]", "[0]"},
		"calls":          {"std.length(", "'x'", ")"},
		"comprehensions": {"[", "1", " for x in [1]]"},
		"object comp":    {"{[x]:", "1", " for x in ['a']}"},
		"asserts":        {"assert true;", "1", ""},
		"formats":        {"", "'x'", "%[]"},
		"slices":         {"", "[1]", "[:]"},
		"errors":         {"error ", "1", ""},
		"mixins":         {"", "{}", "{a+:{}}"},
	} {
		t.Run(name, func(t *testing.T) {
			n := (MaxLength - len(part[1])) / (len(part[0]) + len(part[2]))
			content := strings.Repeat(part[0], n) + part[1] + strings.Repeat(part[2], n)
			var err error
			took := cpuOf(func() {
				var p *Program
				if p, err = compile(content, Options{}); err == nil {
					_, err = p.eval(sampleEvent())
				}
			})
			if took > limit {
				t.Errorf("took %s", took)
			}
			t.Logf("%d levels, %s: %.100v", n, took, err)
		})
	}
}

func TestBudget(t *testing.T) {
	for _, tc := range []struct {
		name    string
		content string
		budget  Budget
		want    string // the failure, or the value
	}{
		{"steps", `std.length(std.range(1, 1000))`, Budget{Steps: 100}, `the template needs more than 100 steps`},
		{"enough steps", `std.length(std.range(1, 1000))`, Budget{Steps: 2000}, `1000`},
		{"depth of calls", `local f(n) = if n == 0 then 0 else 1 + f(n - 1); f(50)`, Budget{Depth: 20}, `the template needs more than 20 nested calls or values`},
		{"depth of values", `[[[[1]]]]`, Budget{Depth: 3}, `the template needs more than 3 nested calls or values`},
		{"tail calls do not nest", `local f(n) = if n == 0 then 0 else f(n - 1) tailstrict; f(50)`, Budget{Depth: 20}, `0`},
		{"a body that is passed on does not nest", `Body('deep')`, Budget{Depth: 3}, `[[[[[[]]]]]]`},
		{"memory", `std.length('x' + std.repeat('x', 10000))`, Budget{Memory: 5000}, `the template needs more than 5000 bytes of memory`},
		{"output", `'12345678'`, Budget{Output: 9}, `the template needs more than 9 bytes of output`},
		{"enough output", `'12345678'`, Budget{Output: 10}, `"12345678"`},
		{"output of the body", `Body('deep')`, Budget{Output: 11}, `the template needs more than 11 bytes of output`},
		{"message", `error std.repeat('é', 1000)`, Budget{}, strings.Repeat("é", 250) + "..."},
	} {
		p, err := compile(tc.content, Options{Budget: tc.budget})
		if err != nil {
			t.Fatal(tc.name, err)
		}
		// The budget is of the cell, whatever is in the row already.
		got, fail := p.Append([]byte("already here"), &jsonEvent{body: `{"deep":[[[[[[]]]]]]}`}, false)
		text := strings.TrimPrefix(string(got), "already here")
		if fail != nil {
			text += fail.Err.Error()
		}
		if text != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, text, tc.want)
		}
	}
}
