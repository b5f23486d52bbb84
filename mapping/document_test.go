package mapping

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// jsonDocument gives the fields of a JSON text as a FieldDocument does, and counts who asks for the whole.
type jsonDocument struct {
	text   string
	whole  int
	broken bool
}

func (d *jsonDocument) AppendJSON(dst []byte) ([]byte, error) {
	d.whole++
	return append(dst, d.text...), nil
}

func (d *jsonDocument) AppendField(dst []byte, path FieldPath) ([]byte, FieldKind) {
	if d.broken {
		return append(dst, "{"...), FieldJSON
	}
	var t tape.Tape
	if err := t.Parse([]byte(d.text)); err != nil {
		panic(err)
	}
	at, _, ok := t.Lookup(0, path.path.Steps, false)
	switch {
	case !ok:
		return dst, NoField
	case t.Nodes[at].Kind == tape.Null:
		return dst, FieldNull
	case t.Nodes[at].Kind == tape.String:
		n := t.Nodes[at]
		if n.Flags&tape.Escaped == 0 {
			return append(dst, t.Text[n.Start+1:n.End-1]...), FieldText // even if it is not UTF-8
		}
		return t.AppendText(dst, at), FieldText
	}
	return t.AppendValue(dst, at), FieldJSON
}

// Cells are the same, whether a body is bytes or a document that gives single fields, and path columns do not ask for
// the whole of it.
func TestFieldDocument(t *testing.T) {
	const body = `{"s":"a \"b\" é","bad":"x\u0001\n","n":12345678901234567890,"f":1.50,"t":true,"z":null,` +
		`"o":{"user.id":7,"k":[1,{"x":"y"}]},"a":[[1,2],3],"s":"second","raw":"` + "\xff" + `"}`
	var cols Columns
	for i, path := range []string{"s", "bad", "n", "f", "t", "z", "o", `o["user.id"]`, "o.k[1].x", "a", "a[0][1]", "a.1", "raw", "none", "a[5]", "s.x", "a.b"} {
		n := strconv.Itoa(i)
		cols = append(cols, Path("p"+n, path, Default("d")), Path("r"+n, path, Default("d"), RawString()),
			Path("o"+n, path, Default("d"), DefaultOnNull()),
			Template("t"+n, `Body(`+strconv.Quote(path)+`, "d")`), Template("v"+n, `Body(`+strconv.Quote(path)+`, {a:1})`))
	}
	cols = append(cols, Template("sum", `Body("n") + Body("a")[1] + Body("o").k[0]`), Template("has", `std.objectFields(Body("o"))`))
	for _, compat := range []bool{false, true} {
		m, err := Compile(cols, Options{Compat: compat})
		must(t, err)
		body := body
		if compat {
			// A document gives the first of several members with the same name, in templates with Compat bytes give the last.
			body = strings.Replace(body, `,"s":"second"`, "", 1)
		}
		want, err := m.AppendRow(nil, JSON([]byte(body)))
		must(t, err)
		d := &jsonDocument{text: body}
		got, err := m.AppendRow(nil, &Record{Document: d})
		if err != nil || string(got) != string(want) || d.whole != 0 {
			t.Errorf("compat %t, error %v, written %d times\ngot  %s\nwant %s", compat, err, d.whole, got, want)
		}
	}

	// The whole body is asked for once, and paths still are not read from it.
	d := &jsonDocument{text: body}
	row, err := mustCompile(t, Path("n", "n"), Body("b"), Template("w", `Body().t`), Path("all", "")).AppendRow(nil, &Record{Document: d})
	if err != nil || d.whole != 1 {
		t.Errorf("got %s, %v, written %d times, want no error, once", row, err, d.whole)
	}
}

// A missing field rejects the row with the error of any other body.
func TestFieldDocumentErrors(t *testing.T) {
	for _, c := range []Column{Path("c", "none"), Template("c", `Body("none")`)} {
		m := mustCompile(t, c)
		_, want := m.AppendRow(nil, JSON([]byte(`{}`)))
		_, got := m.AppendRow(nil, &Record{Document: &jsonDocument{text: `{}`}})
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	_, err := mustCompile(t, Template("c", `Body("a")`)).AppendRow(nil, &Record{Document: &jsonDocument{broken: true}})
	var e *Error
	if !errors.As(err, &e) || e.Reason != InvalidBody {
		t.Errorf("a document that breaks its contract: %v", err)
	}
}
