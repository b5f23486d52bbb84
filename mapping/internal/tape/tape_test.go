package tape

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
)

// Texts that RFC 8259 calls JSON, and texts that it does not.
var (
	validJSON = []string{
		`null`, `true`, `false`, `0`, `-0`, `10`, `-10.5`, `1e5`, `1E+5`, `1e-5`, `0e0`, `0.0`, `123456789012345678901234567890`,
		`1e999`, `-1.7976931348623159e308`, `""`, `"a"`, `"\u0000"`, `"\"\\\/\b\f\n\r\t"`, `"\u00e9\uD83D\uDE00"`, `"\ud800"`,
		"\"\u007f\"", `"é😀"`, "\"\xff\"", "\"\u2028\"", `[]`, `[ ]`, `[1]`, `[1,2]`, `[ 1 , 2 ]`, `[[],[[]]]`, `{}`, `{ }`, `{"a":1}`,
		`{"a":1,"a":2}`, `{"":{"":""}}`, " \t\r\n{ \"a\" \n:\t1 } ", `{"a":[{"b":null}]}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		`"` + strings.Repeat("x", 100) + `"`, `[1,"two",3.0,null,true,{}]`, "\"12345678\\u0031\"",
	}
	invalidJSON = []string{
		``, ` `, `nul`, `nulll`, `True`, `NaN`, `Infinity`, `-Infinity`, `undefined`, `+1`, `01`, `-01`, `-`, `1.`, `.5`, `1e`, `1e+`, `1.e5`,
		`0x10`, `1_000`, `1 2`, `"`, `"a`, `'a'`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\`, `"\"`, "\"\n\"", "\"\t\"", "\"\x00\"", "\"\x1f\"", "\"1234567\x01\"",
		`[`, `]`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `[1,,2]`, `[1}`, `{`, `}`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{a:1}`,
		`{"a" 1}`, `{"a"::1}`, `{1:2}`, `{"a":1]`, `{"a":1 "b":2}`, `{null:1}`, `[1]x`, `{}{}`, `/* c */ 1`, `// c`, "\xef\xbb\xbf1", "\v1", "\u00a01",
		"1\x00", `[1]]`, `{"a":1}}`, `"a""b"`, `tru`, `truE`, `[tru`, strings.Repeat("[", 5000), `{"a":"b\"}`, `--1`, `1-1`, `1..1`, `1ee1`,
	}
)

func TestParseAcceptsJSON(t *testing.T) {
	var tp Tape
	for _, s := range validJSON {
		if err := tp.Parse([]byte(s)); err != nil {
			t.Errorf("got %.60s: %v, want no error", s, err)
		}
		if !json.Valid([]byte(s)) {
			t.Errorf("%.60s: the list is wrong", s)
		}
		if got := tp.AppendCSV(nil); string(got) != strings.ReplaceAll(s, `"`, `""`) {
			t.Errorf("%.60s as CSV is %.60s", s, got)
		}
	}
}

func TestParseRefusesWhatIsNotJSON(t *testing.T) {
	var tp Tape
	for _, s := range invalidJSON {
		err := tp.Parse([]byte(s))
		var se *SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("%.60q: got no syntax error, want one", s)
		} else if se.Offset < 0 || se.Offset > int64(len(s)) {
			t.Errorf("%.60q: got offset %d, want one in the text", s, se.Offset)
		}
		if json.Valid([]byte(s)) {
			t.Errorf("%.60q: the list is wrong", s)
		}
	}
}

func TestParseSaysWhere(t *testing.T) {
	for s, want := range map[string]string{
		`{"a":1,}`:      "the body is not valid JSON: expected a key at byte 7; correct it there",
		`{"a" 1}`:       "the body is not valid JSON: expected ':' at byte 5; correct it there",
		`[1 2]`:         "the body is not valid JSON: expected ',' or ']' at byte 3; correct it there",
		`{"a":1 "b":2}`: "the body is not valid JSON: expected ',' or '}' at byte 7; correct it there",
		`{"a":`:         "the body is not valid JSON: unexpected end at byte 5; send the whole JSON value",
		`"a\qb"`:        "the body is not valid JSON: invalid escape at byte 2; correct it there",
		"\"a\nb\"":      "the body is not valid JSON: control character in a string at byte 2; correct it there",
		`[1.]`:          "the body is not valid JSON: expected a digit at byte 3; correct it there",
		`1 2`:           "the body is not valid JSON: data after the value at byte 2; correct it there",
		`[trux]`:        "the body is not valid JSON: unknown word at byte 1; correct it there",
	} {
		var tp Tape
		if err := tp.Parse([]byte(s)); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", s, err, want)
		}
	}
}

// A nesting of any depth costs the tape a node each and the stack nothing.
func TestParseOfAnyDepth(t *testing.T) {
	const depth = 1 << 20
	var tp Tape
	if err := tp.Parse([]byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))); err != nil {
		t.Fatal(err)
	}
	if len(tp.Nodes) != depth || tp.Nodes[0].Next != depth || tp.Nodes[0].End != 2*depth {
		t.Errorf("got %d nodes, root %+v, want %d, the root around them", len(tp.Nodes), tp.Nodes[0], depth)
	}
	tp.Reset()
	if cap(tp.Nodes) > maxKeptNodes {
		t.Errorf("a reset tape keeps %d nodes", cap(tp.Nodes))
	}
}

// FuzzParse demands that the tape accepts what encoding/json does, that its nodes nest, and that a value rewritten
// is the same value.
func FuzzParse(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range append(validJSON, invalidJSON...) {
		if len(s) < 1000 {
			f.Add([]byte(s))
		}
	}
	f.Add([]byte(`{"a":{"b":"text","n":[1,2.5,-3e2,9007199254740993]},"u":"\u00e9\ud83d\ude00","e":"q\"\\\n","":1,"z":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var tp Tape
		err := tp.Parse(text)
		if valid := json.Valid(text); valid != (err == nil) {
			if strings.Count(string(text), "[")+strings.Count(string(text), "{") > 9000 {
				return // encoding/json has a bound
			}
			t.Fatalf("encoding/json: %v, tape: %v", valid, err)
		}
		if err != nil {
			return
		}
		for i, n := range tp.Nodes {
			if n.Start >= n.End || int(n.End) > len(text) || int(n.Next) <= i || int(n.Next) > len(tp.Nodes) {
				t.Fatalf("node %d is %+v", i, n)
			}
		}
		if got := tp.AppendCSV([]byte("x")); string(got) != "x"+strings.ReplaceAll(string(text), `"`, `""`) {
			t.Fatalf("%q as CSV is %q", text, got)
		}
		out := tp.AppendValue(nil, 0)
		var a, b any
		if err := json.Unmarshal(text, &a); err != nil {
			return // a number out of range
		}
		if err := json.Unmarshal(out, &b); err != nil {
			t.Fatalf("%s: got %v, want no error", out, err)
		}
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if string(x) != string(y) {
			t.Fatalf("%s: got %s, want the same", x, y)
		}
	})
}
