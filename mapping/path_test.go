package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping/internal/tape"
)

// TestPathSemantics has the one rule for the values that a path finds, in JSON, in documents and in Body(path).
// TestPathSemanticsOfForms has the same for forms.
func TestPathSemantics(t *testing.T) {
	const body = `{"a": {"b": [10, {"c": "x"}], "0": "zero", "a.b": "dotted", "é": 1, "x\"y": 2}, "dup": "first", "dup": {"in": 1}, "n": null,
		"": "empty", "o": {"k": 1}, "o": {"later": 2}}`
	for _, tc := range []struct{ path, want string }{
		{``, strings.NewReplacer("\n\t\t", "", `", "`, `","`, `: `, `:`, `, "`, `,"`, `[10, {`, `[10,{`).Replace(body)},
		{`a.b[0]`, `10`},
		{`a.b.0`, `10`},
		{`a.b[1].c`, `"x"`},
		{`a.b[1]`, `{"c":"x"}`},
		{`a.b[2]`, ``},
		{`a.b["0"]`, ``},
		{`a[0]`, `"zero"`},
		{`a.0`, `"zero"`},
		{`a["0"]`, `"zero"`},
		{`a["a.b"]`, `"dotted"`},
		{`a.a\.b`, `"dotted"`},
		{`a.é`, `1`},
		{`a["x\"y"]`, `2`},
		{`a.b.c`, ``},
		{`a.b[0].c`, ``},
		{`dup`, `"first"`},
		{`dup.in`, ``},
		{`o.later`, ``},
		{`n`, `null`},
		{`n.x`, ``},
		{`[""]`, `"empty"`},
		{`A`, ``},
	} {
		samePaths(t, tc.path, tc.want, JSON([]byte(body)), &Record{Document: plainDocument(body)}, &Record{Document: &jsonDocument{text: body}})
	}
}

func TestPathSemanticsOfForms(t *testing.T) {
	const body = `a[b][]=10&a[b][][c]=x&a[0]=zero&a[a.b]=dotted&a[%C3%A9]=1&a[x%22y]=2&dup=first&dup=last&=empty&o[k]=1&o=text&gap[2]=z&n=1.50`
	for _, tc := range []struct{ path, want string }{
		{``, `{"a":{"b":["10",{"c":"x"}],"0":"zero","a.b":"dotted","é":"1","x\"y":"2"},"dup":"last","":"empty","o":"text","gap":[null,null,"z"],"n":"1.50"}`},
		{`a.b[0]`, `"10"`},
		{`a.b.0`, `"10"`},
		{`a.b[1].c`, `"x"`},
		{`a.b[1]`, `{"c":"x"}`},
		{`a.b[2]`, ``},
		{`a.b["0"]`, ``},
		{`a[0]`, `"zero"`},
		{`a.0`, `"zero"`},
		{`a["a.b"]`, `"dotted"`},
		{`a.a\.b`, `"dotted"`},
		{`a.é`, `"1"`},
		{`a["x\"y"]`, `"2"`},
		{`a.b.c`, ``},
		{`a.b[0].c`, ``},
		{`dup`, `"last"`},
		{`dup.in`, ``},
		{`o.k`, ``},
		{`o`, `"text"`},
		{`gap[1]`, `null`},
		{`gap[2]`, `"z"`},
		{`gap[3]`, ``},
		{`n`, `"1.50"`},
		{`[""]`, `"empty"`},
		{`A`, ``},
	} {
		samePaths(t, tc.path, tc.want, &Record{Body: []byte(body), Format: FormatForm})
	}
}

// samePaths demands the JSON text want, or a missing field where it is empty, of path in each of the records, with and
// without rawString and default, in a column and in a template.
func samePaths(t *testing.T, path, want string, records ...*Record) {
	t.Helper()
	plain := want
	if strings.HasPrefix(want, `"`) {
		must(t, json.Unmarshal([]byte(want), &plain))
	}
	m := mustCompile(t, Path("p", path), Path("raw", path, RawString()), Path("default", path, Default("d")), Path("raw default", path, Default("d"), RawString()),
		Template("t", fmt.Sprintf("Body(%q)", path)), Template("raw t", fmt.Sprintf("Body(%q)", path), RawString()),
		Template("default t", fmt.Sprintf("Body(%q, 'd')", path)), Template("raw default t", fmt.Sprintf("Body(%q, 'd')", path), RawString()))
	for i, r := range records {
		for _, c := range m.Cells(r) {
			cell, reason := want, Reason(0)
			switch {
			case want != "" && strings.Contains(c.Column, "raw"):
				cell = plain
			case want != "":
			case strings.Contains(c.Column, "raw default"):
				cell = "d"
			case strings.Contains(c.Column, "default"):
				cell = `"d"`
			default:
				reason = MissingValue
			}
			if c.Value != cell || reasonOf(c.Err) != reason {
				t.Errorf("%s of record %d as %s: got %s %v, want %s", path, i, c.Column, c.Value, c.Err, cell)
			}
		}
	}
}

// plainDocument is a document that can only be written as a whole.
type plainDocument string

func (d plainDocument) AppendJSON(dst []byte) ([]byte, error) { return append(dst, d...), nil }

// TestPathAgreesWithBody checks that a path column and the template Body(path) give the same bytes or the same kind of failure for
// every body, even if both read strings as plain text, and whether a mapper has one path or many.
func TestPathAgreesWithBody(t *testing.T) {
	skipUnderRace(t)
	rng := seedtest.Rand(t)
	pathOf := func(g *generator) string {
		var b strings.Builder
		for range g.pick(4) {
			b.WriteString(g.one("a", ".b", "[0]", "[1]", ".n", `["a.b"]`, ".name", ".0", "arr", "objs", ".o", ".u", `.b\.c`, `["é"]`, ".s", ".z"))
		}
		return b.String()
	}
	n := 5000
	if testing.Short() {
		n = 500
	}
	for range n {
		data := make([]byte, 150)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		g := &generator{data: data}
		body := g.body()
		switch g.pick(12) {
		case 1:
			body = g.json(0)
		case 2:
			body = body[:len(body)*g.pick(100)/100]
		}
		var cols, templates []Column
		for i := range 1 + g.pick(6) {
			p := pathOf(g)
			if _, err := ParsePath(p); err != nil {
				continue
			}
			raw := []ColumnOption{}
			if g.pick(2) == 1 {
				raw = append(raw, RawString())
			}
			name := fmt.Sprint(i)
			if g.pick(3) == 1 {
				cols = append(cols, Path(name, p, append(raw, Default("d"))...))
				templates = append(templates, Template(name, fmt.Sprintf("Body(%q, 'd')", p), raw...))
			} else {
				cols = append(cols, Path(name, p, raw...))
				templates = append(templates, Template(name, fmt.Sprintf("Body(%q)", p), raw...))
			}
		}
		if cols == nil {
			continue
		}
		r := JSON([]byte(body))
		a, b := mustCompile(t, cols...).Cells(r), mustCompile(t, templates...).Cells(r)
		for i := range a {
			if a[i].Value != b[i].Value || reasonOf(a[i].Err) != reasonOf(b[i].Err) {
				t.Fatalf("body %s\npath column %+v: %s %v\n%s: %s %v", body, cols[i], a[i].Value, a[i].Err, templates[i].Template.Content, b[i].Value, b[i].Err)
			}
		}
	}
}

func reasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return 0
}

// FuzzPath demands of every text that it is a path or has a place where it is malformed, and of every path that it finds
// in a body the same as Body(path), in both readings.
func FuzzPath(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, p := range []string{``, `a.b[0]`, `a["a.b"]`, `a\.b`, `["\u00e9"]`, `a[`, `['x`, `objs[1].tags.0`, `big`, `u`} {
		f.Add(p, []byte(sampleBody))
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if len(path) > 500 || len(body) > 4096 || !utf8.ValidString(path) {
			return
		}
		for _, compat := range []bool{false, true} {
			p, err := tape.ParsePath(path, compat)
			var pe *tape.PathError
			switch {
			case errors.As(err, &pe) && (pe.Offset < 0 || pe.Offset > len(path)):
				t.Fatalf("%q: got offset %d, want one in the path", path, pe.Offset)
			case err != nil:
				continue
			case p.Text != path:
				t.Fatalf("%q: got %q, want the same", path, p.Text)
			}
			quoted, err := json.Marshal(path)
			must(t, err)
			m, err := Compile(Columns{Path("p", path, RawString()), Template("t", "Body("+string(quoted)+")", RawString())}, Options{Compat: compat})
			must(t, err)
			cells := m.Cells(JSON(body))
			same := cells[0].Value == cells[1].Value && reasonOf(cells[0].Err) == reasonOf(cells[1].Err)
			// The service rewrites the output of a template, and Body() is an object there.
			if !same && !compat || (cells[0].Err == nil) != (cells[1].Err == nil) && reasonOf(cells[1].Err) != TemplateFailed {
				t.Fatalf("%q of %s\ncompat %t\ncolumn:   %s %v\ntemplate: %s %v", path, body, compat, cells[0].Value, cells[0].Err, cells[1].Value, cells[1].Err)
			}
		}
	})
}

// A number goes through columns and templates digit by digit, of whatever length, alone and inside of arrays and objects.
func TestNumbersKeepTheirDigits(t *testing.T) {
	numbers := []string{
		`0`, `-0`, `0.0`, `1.50`, `1e5`, `1E+05`, `-1.0e-07`, `9007199254740993`, `18446744073709551616`, `1e999`, `-1e-999`,
		`0.1000000000000000055511151231257827`, `1.7976931348623159e308`,
	}
	rng := seedtest.Rand(t)
	digits := func(n int) string {
		var b strings.Builder
		for range 1 + rng.IntN(n) {
			b.WriteByte('0' + byte(rng.IntN(10)))
		}
		return b.String()
	}
	for range 200 {
		n := []string{"", "-"}[rng.IntN(2)] + []string{"0", "7" + digits(40)}[rng.IntN(2)]
		if rng.IntN(2) == 0 {
			n += "." + digits(40)
		}
		if rng.IntN(2) == 0 {
			n += []string{"e", "E", "e+", "E-"}[rng.IntN(4)] + digits(4)
		}
		numbers = append(numbers, n)
	}
	for _, n := range numbers {
		body := fmt.Sprintf(`{ "n":%s, "o" : {"k": [ 1, %s ]} }`, n, n)
		records := []*Record{JSON([]byte(body)), {Document: plainDocument(body)}, {Document: &jsonDocument{text: body}}}
		samePaths(t, `n`, n, records...)
		samePaths(t, `o.k[1]`, n, records...)
		samePaths(t, `o`, `{"k":[1,`+n+`]}`, records...)
		m := mustCompile(t, Path("p", "none", Default(json.RawMessage(n))))
		if c := m.Cells(records[0])[0]; c.Value != n {
			t.Errorf("the default %s became %s (%v)", n, c.Value, c.Err)
		}
	}
}
