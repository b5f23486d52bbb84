package mapping

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
)

// An error of an evaluation has the place and the expression, whatever stands between it and the value.
func TestErrorsOfTemplatesHaveAPlace(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, tc := range []struct{ content, want string }{
		{"1 + null", "1:1: unexpected type null, expected number, in 1 + null"},
		{"local a = 1;\nlocal b = 'é' + a, c = null;\n[b, 'é' + b, a + a * c]", "3:18: unexpected type null, expected number, in a * c"},
		{"local total(x) =\n  x * 1.2;\n{ t: total(Body('a')) }", "2:3: unexpected type string, expected number, in x * 1.2"},
		{"{ a: 1 } +\n{ b: super.c }", "2:6: field does not exist: c, in super"},
		{"{ a: self.b.c, b: {} }.a", "1:6: field does not exist: c, in self.b.c"},
		{"[x.y for x in [{ y: 1 }, {}]]", "1:2: field does not exist: y, in x.y"},
		{"[x for x in 1]", "1:13: unexpected type number, expected array, in 1"},
		{"[x for x in [1] if x]", "1:20: unexpected type number, expected boolean, in x"},
		{"if 'yes' then 1 else 2", "1:4: unexpected type string, expected boolean, in 'yes'"},
		{"true && (1 + 1)", "1:1: unexpected type number, expected boolean, in true && (1 + 1)"},
		{"!1 || -true", "1:1: unexpected type number, expected boolean, in !1"},
		{"std.map(function(x) x + 1, [1, {}])", "1:21: unexpected type number, expected object, in x + 1"},
		{"std.sum([1, 2, 'a' + 'b'])", "1:1: unexpected type string, expected number, in std.sum([1, 2, 'a' + 'b'])"},
		{"local f = std.parseInt; f('x' + 1)", `1:25: "x1" is not a base 10 integer, in f('x' + 1)`},
		{"std.flattenArrays([[1], {}])", "1:1: unexpected type object, expected array, in std.flattenArrays([[1], {}])"},
		{"std.set([1, 'a'])", "1:1: unexpected type number, expected string, in std.set([1, 'a'])"},
		{"std.assertEqual(1, 2)", "1:1: Assertion failed. 1 != 2, in std.assertEqual(1, 2)"},
		{"{ a: 1, assert self.a > 1 : 'small ' + self.a }", "1:9: small 1, in assert self.a > 1 : 'small ' + self.a"},
		{"assert Body('n', 1) > 1; 1", "1:1: Assertion failed, in assert Body('n', 1) > 1; 1"},
		{"{ ['a' + 1]: 2, [1 + 1]: 3 }", "1:18: a field name must be a string, not number, in 1 + 1"},
		{"{ [x]: 1 for x in ['a', 'a'] }", "1:1: duplicate field name: a, in { [x]: 1 for x in ['a', 'a'] }"},
		{"'%d' % 'x'", "1:1: Format required number at 0, got string, in '%d' % 'x'"},
		{"Body('a')[3:].x", "1:1: unexpected type string, expected number, in Body('a')[3:].x"},
		{"[1, 2][5]", "1:1: index 5 out of bounds, not within [0, 2), in [1, 2][5]"},
		{"(function(x) x)()", "1:1: missing argument: x, in (function(x) x)()"},
		{"Now('%' + 'Q')", ""},
		{"{\n  a: error 'no ' +\n    'way',\n}", "2:6: no way, in error 'no ' + ..."},
		{"error '" + long + "'", "1:1: " + long + ", in error '" + long[:53] + " ..."},
		{"local f(x) = f(x + 1);\nf(1)", "1:14: the template needs more than 500 nested calls or values, in f(x + 1); simplify the template, send smaller bodies, or raise Options.Budget"},
		{"local x = x + 1; x", "1:1: the template has an endless recursion: a value is defined by itself, in local x = x + 1; x"},
		{"{ a: function(x) x }", "couldn't manifest function as JSON"},
		{"Body('o.p.q')", `1:1: Body("o.p.q"): "o" has no member "p"; give a default as the second argument if it may be missing, in Body('o.p.q')`},
		{"local p = 'l' + 'ist[7]'; [Body(p)]", `1:28: Body("list[7]"): "list" has 2 elements and no [7]; give a default as the second argument if it may be missing, in Body(p)`},
		{"Header('X-A')", `1:1: Header("X-A"): the request has no such header; give a default as the second argument if it may be missing, in Header('X-A')`},
	} {
		p, err := compileTemplate(tc.content, Options{})
		if err != nil {
			t.Errorf("%s: got %v, want no error", tc.content, err)
			continue
		}
		_, err = p.AppendCell(nil, 0, JSON([]byte(`{"a":"text","o":{},"list":[1,2]}`)))
		if tc.want == "" {
			var e *Error
			if !errors.As(err, &e) || e.At.Line != 1 {
				t.Errorf("%s: got %v, want errors.As(err, &e) and e.At.Line == 1", tc.content, err)
			}
			continue
		}
		if got := strings.TrimPrefix(fmt.Sprint(err), `column "t": `); got != tc.want {
			t.Errorf("%s\ngot  %s\nwant %s", tc.content, got, tc.want)
		}
	}
}

// A path that finds nothing names the first step that is missing, in all kinds of bodies.
func TestMissingPathNamesTheStep(t *testing.T) {
	const body = `{"a":{"s":"x","l":[1,2],"z":null,"n":7,"k.e":{}}}`
	for _, tc := range []struct{ path, want string }{
		{"b.c.d", `the body has no member "b"`},
		{"a.b.c", `"a" has no member "b"`},
		{"a.s.c", `"a.s" is a string and has no member "c"`},
		{"a.z.c", `"a.z" is null and has no member "c"`},
		{"a.n.c", `"a.n" has no member "c"`},
		{"a.l[2]", `"a.l" has 2 elements and no [2]`},
		{"a.l[0].x", `"a.l[0]" has no member "x"`},
		{"a.l.x", `"a.l" is an array and has no member "x"`},
		{`a["k.e"].x`, `"a[\"k.e\"]" has no member "x"`},
	} {
		_, err := mustCompile(t, Path("c", tc.path)).AppendRow(nil, JSON([]byte(body)))
		if want := fmt.Sprintf(`column "c": path %q: %s; set a default if it may be missing`, tc.path, tc.want); fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		required := mustCompile(t, Path("c", tc.path, DataType(datatype.String), Required()))
		want := fmt.Sprintf(`column "c": path %q: %s, and the column is required`, tc.path, tc.want)
		if _, err := required.AppendRow(nil, JSON([]byte(body))); fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		// A document that gives single fields knows no lengths.
		if strings.Contains(tc.want, "elements") || strings.Contains(tc.want, "array") {
			continue
		}
		if _, err := required.AppendRow(nil, &Record{Document: &jsonDocument{text: body}}); fmt.Sprint(err) != want {
			t.Errorf("document: got %v, want %s", err, want)
		}
		_, err = mustCompile(t, Template("c", fmt.Sprintf("Body(%q)", tc.path))).AppendRow(nil, &Record{Document: &jsonDocument{text: body}})
		if err == nil || !strings.Contains(err.Error(), tc.want+"; give a default") {
			t.Errorf("document: got %v, want %s", err, tc.want)
		}
	}
}

// The faults of a definition stand together, each with its place in the words of this package.
func TestFaultsOfTemplates(t *testing.T) {
	for _, tc := range []struct{ content, want string }{
		{"local f(x, x) = x; f(1, 2)", "1:12: duplicate parameter: x"},
		{"function(a=1, a=2) a", "1:15: duplicate parameter: a"},
		{"a + Body('[') +\nstd.nope + b + Header(1)", `1:1: unknown variable: a; declare it with local, quote it if it is a text, or write Body("a") for a field of the event|1:5: Body: the path "[": '[' without ']' at position 1; write an index or a quoted key, like [0] or ["a.b"]; a bracket in a name is \[|` +
			`2:1: the standard library has no member "nope"; use a function of jsonnet|2:12: unknown variable: b; declare it with local, quote it if it is a text, or write Body("b") for a field of the event|2:16: Header: the name must be a string, not number`},
		{"Header(null, 'x')", "1:1: Header: the name must be a string, not null"},
		{`"\u12"`, "1:1: Truncated unicode escape sequence in string literal; correct the jsonnet at this place"},
		{"[1,\n'\\ud800\\u12']", "2:1: Truncated unicode surrogate pair escape sequence in string literal; correct the jsonnet at this place"},
		{"x, y", "1:2: Did not expect: \",\"; correct the jsonnet at this place"},
	} {
		_, err := compileTemplate(tc.content, Options{})
		if got := strings.ReplaceAll(fmt.Sprint(err), "\n", "|"); got != tc.want {
			t.Errorf("%s\ngot  %s\nwant %s", tc.content, got, tc.want)
		}
	}
	// No more than some unknown names are looked for, however many there are.
	var many []string
	for i := range 600 {
		many = append(many, fmt.Sprintf("v%d", i))
	}
	if _, err := compileTemplate(strings.Join(many, "+"), Options{}); err == nil || !strings.Contains(err.Error(), "nknown variable: v") {
		t.Error(err)
	}
}

func TestZeroMapperIsRefused(t *testing.T) {
	var m Mapper
	if out, err := m.AppendRow([]byte("x"), &Record{}); fmt.Sprint(err) != "mapping: a zero Mapper has no columns; Compile makes one" || string(out) != "x" {
		t.Errorf("got %q %v, want fmt.Sprint(err) == \"mapping: a zero Mapper has no columns; Compile makes one\" and string(out) == \"x\"", out, err)
	}
}
