package tree

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forebay/forebay/internal/fuzztest"
)

func parse(t testing.TB, s string) Node {
	t.Helper()
	n, err := Parse([]byte(s))
	if err != nil {
		t.Fatalf("%s: got %v, want no error", s, err)
	}
	return n
}

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : 1 , "a" : [ true , null ] } `: `{"b":1,"a":[true,null]}`,
		`{"a":1,"b":2,"a":3}`:                   `{"a":3,"b":2}`,
		`9223372036854775807`:                   `9223372036854775807`,
		`9223372036854775808`:                   `9223372036854775808`,
		`-0`:                                    `-0`,
		`1.50`:                                  `1.5`,
		`1e2`:                                   `100`,
		`0.00001`:                               `1.0e-5`,
		`"\u00e9\ud83d\ude00\n\/"`:              `"é😀\n/"`,
		`"a` + "\xff" + `b"`:                    `"ab"`,
		`{}`:                                    `{}`,
		`[1e400,-1e400,1e-400]`:                 `[1e400,-1e400,1e-400]`,
		`0.12345678901234567890`:                `0.12345678901234567890`,
		`12345678901234.567`:                    `12345678901234.567`,
	} {
		if got := string(parse(t, in).AppendJSON(nil, Plain)); got != want {
			t.Errorf("%s is written as %s, want %s", in, got, want)
		}
	}
	n := parse(t, `{"ü/":"😀/é\u0001","o":{},"l":{"0":1,"1":2}}`)
	if got, want := string(n.AppendJSON(nil, Escaped)), `{"\u00fc\/":"\ud83d\ude00\/\u00e9\u0001","o":{},"l":{"0":1,"1":2}}`; got != want {
		t.Errorf("escaped: %s, want %s", got, want)
	}
	if got, want := string(n.AppendJSON(nil, Arrays)), `{"\u00fc\/":"\ud83d\ude00\/\u00e9\u0001","o":[],"l":[1,2]}`; got != want {
		t.Errorf("arrays: %s, want %s", got, want)
	}
}

func TestSyntaxErrors(t *testing.T) {
	for in, want := range map[string]string{
		``: "line 1, column 1: the text ends", `{"a":`: "line 1, column 6: the text ends", "{\n \"a\" 1}": "line 2, column 6: a colon",
		`[1 2]`: "a comma or ']'", `{"a":1,}`: "a name in quotes", `01`: "malformed number", `1.`: "malformed number", `[1]x`: "text after",
		`"\ud800"`: "half of a surrogate", `"\x"`: "unknown escape", `nul`: "a value is expected", `"a` + "\n" + `"`: "control character",
		strings.Repeat("[", 600): "nested deeper",
	} {
		_, err := Parse([]byte(in))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %.20q: error %v, want %q", in, err, want)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`true`: "1", `false`: "", `null`: "", `-7`: "-7", `0.1`: "0.1", `100.0`: "100", `1e13`: "10000000000000",
		`1e14`: "1.0E+14", `1.5e-5`: "1.5E-5", `0.0001`: "0.0001", `1e-5`: "1.0E-5", `0.1234567890123456`: "0.12345678901235",
		`"é"`: "é", `12345678901234567890`: "12345678901234567890", `9007199254740992.25`: "9007199254740992.25", `9007199254740991.125`: "9.007199254741E+15", `-2.5`: "-2.5", `1e100`: "1.0E+100", `[1]`: "", `123456.789`: "123456.789",
	} {
		if got := parse(t, in).Text(); got != want {
			t.Errorf("text of %s is %q, want %q", in, got, want)
		}
	}
}

func TestCell(t *testing.T) {
	for in, want := range map[string]string{`12345678901234567890`: "1.2345678901235E+19", `9223372036854775807`: "9223372036854775807", `true`: "1", `"a"`: "a"} {
		if got := parse(t, in).Cell(); got != want {
			t.Errorf("cell of %s is %q, want %q", in, got, want)
		}
	}
}

func TestInteger(t *testing.T) {
	for in, want := range map[string]string{
		`0`: "0", `-0`: "0", `7.9`: "7", `-7.9`: "-7", `0.9`: "0", `"0012"`: "12", `1e20`: "100000000000000000000", `12345678901234567890.99`: "12345678901234567890", `" -5 "`: "-5",
		`1e1000`: "", `1e99999999999999999999`: "", `1e-99999999`: "", `"x"`: "", `null`: "", `true`: "",
	} {
		got := ""
		if i, ok := parse(t, in).Integer(); ok {
			got = i.String()
		}
		if got != want {
			t.Errorf("integer of %s is %q, want %q", in, got, want)
		}
	}
}

func TestConversions(t *testing.T) {
	for in, want := range map[string]struct {
		empty bool
		cut   int64
	}{
		`null`: {true, 0}, `false`: {true, 0}, `true`: {false, 1}, `0`: {true, 0}, `0.0`: {true, 0}, `""`: {true, 0}, `"0"`: {true, 0},
		`"0.0"`: {false, 0}, `" "`: {false, 0}, `[]`: {true, 0}, `{}`: {false, 1}, `[0]`: {false, 1}, `"12abc"`: {false, 12},
		`"-3.9"`: {false, -3}, `3.9`: {false, 3}, `"1e3"`: {false, 1000}, `"abc"`: {false, 0}, `"1e"`: {false, 1}, `".5"`: {false, 0}, `"."`: {false, 0},
	} {
		n := parse(t, in)
		if n.Empty() != want.empty || n.Cut() != want.cut {
			t.Errorf("%s: empty %v, cut %d, want %v", in, n.Empty(), n.Cut(), want)
		}
	}
	for in, want := range map[string]bool{`1`: true, `"1"`: true, `"-1"`: true, `"+1"`: false, `"1.0"`: false, `1.0`: false, `""`: false, `"a"`: false} {
		if _, ok := parse(t, in).Digits(); ok != want {
			t.Errorf("digits of %s: %v", in, ok)
		}
	}
	for in, want := range map[string]bool{`1`: true, `" 1.5 "`: true, `"1e3"`: true, `"0x1"`: false, `"inf"`: false, `"1_0"`: false, `true`: false, `"a"`: false} {
		if _, ok := parse(t, in).Number(); ok != want {
			t.Errorf("number of %s: %v", in, ok)
		}
	}
}

func TestPaths(t *testing.T) {
	n := parse(t, `{"a":[{"b.c":1},5],"0":"zero","e":{}}`)
	for path, want := range map[string]string{"a.1": "5", ".": "", "0": `"zero"`, "e": "{}", "a.0": `{"b.c":1}`} {
		got, ok := n.At(path, ".")
		if want == "" {
			want = string(n.AppendJSON(nil, Plain))
		}
		if s := string(got.AppendJSON(nil, Plain)); !ok || s != want {
			t.Errorf("%s is %s, %v, want %s", path, s, ok, want)
		}
	}
	for _, path := range []string{"a.2", "a.01", "a.-1", "b", "a.0.b.c", "a.1.x"} {
		if got, ok := n.At(path, "."); ok {
			t.Errorf("%s is %v", path, got)
		}
	}
	if got, ok := n.At("a/0/b.c", "/"); !ok || got.Int() != 1 {
		t.Errorf("with another delimiter: %v, %v", got, ok)
	}
	var leaves []string
	n.Leaves(func(path string, leaf Node) { leaves = append(leaves, path+"="+leaf.Text()) })
	if got := strings.Join(leaves, " "); got != "a.0.b.c=1 a.1=5 0=zero" {
		t.Errorf("leaves %s", got)
	}
}

func TestOverlay(t *testing.T) {
	for _, test := range [][3]string{
		{`{"a":1,"b":2}`, `{"c":3,"b":4}`, `{"a":1,"b":4,"c":3}`},
		{`{"l":[1,2,3]}`, `{"l":[9]}`, `{"l":[9,2,3]}`},
		{`{"l":[1]}`, `{"l":[9,8]}`, `{"l":[9,8]}`},
		{`{"o":{"x":1,"y":2}}`, `{"o":{"y":3,"z":4}}`, `{"o":{"x":1,"y":3,"z":4}}`},
		{`{"o":{"x":1}}`, `{"o":5}`, `{"o":5}`},
		{`{"o":5}`, `{"o":{"x":1}}`, `{"o":{"x":1}}`},
		{`[]`, `{"a":1}`, `{"a":1}`},
		{`{"a":1}`, `[]`, `{"a":1}`},
		{`{"l":[1,2]}`, `{"l":{"1":5,"x":6}}`, `{"l":{"0":1,"1":5,"x":6}}`},
	} {
		lower, upper := parse(t, test[0]), parse(t, test[1])
		if got := string(lower.Overlay(upper).AppendJSON(nil, Plain)); got != test[2] {
			t.Errorf("%s over %s is %s, want %s", test[1], test[0], got, test[2])
		}
		if got := string(lower.AppendJSON(nil, Plain)); got != test[0] {
			t.Errorf("the lower value became %s", got)
		}
	}
	n := parse(t, `{"a":1,"b":2}`)
	if got := string(n.With("a", OfInt(5)).With("c", OfBool(true)).Without("b").AppendJSON(nil, Plain)); got != `{"a":5,"c":true}` {
		t.Error(got)
	}
	if n.Equal(parse(t, `{"b":2,"a":1}`)) || !n.Equal(parse(t, ` {"a":1, "b":2}`)) || n.Equal(parse(t, `{"a":1.0,"b":2}`)) {
		t.Error("equality counts order and types, not white space")
	}
}

func TestSerialized(t *testing.T) {
	sum := func(s string) string {
		h := md5.Sum([]byte(s))
		return hex.EncodeToString(h[:])
	}
	row := parse(t, `{"id":7,"tags":["a","b"]}`)
	if got := sum(string(row.AppendSerialized(nil, false))); got != "de64110614b7d44cd3b9ebcef11e8ce3" {
		t.Error(string(row.AppendSerialized(nil, false)))
	}
	if got := sum(string(row.With("z", OfString("q")).AppendSerialized(nil, false))); got != "4b53d83260860c366524b134aa7a1a11" {
		t.Error(got)
	}
	nested := parse(t, `{"id":7,"box":{"k":1,"l":[1]}}`)
	own := "t_" + sum(string(nested.AppendSerialized(nil, false)))
	box, _ := nested.Get("box")
	if got := sum(string(box.AppendSerialized(nil, false)) + own); own != "t_9b0c1513bf5ecf3af272ab0712a9052d" || got != "8c02e5347bc7a9c2838dd99788343805" {
		t.Error(own, got)
	}
	config := parse(t, `{"a":{"1":true,"01":null,"-2":0.1},"l":["é"]}`)
	want := `a:2:{s:1:"a";a:3:{i:1;b:1;s:2:"01";N;i:-2;d:0.10000000000000001;}s:1:"l";a:1:{i:0;s:2:"é";}}`
	if got := string(config.AppendSerialized(nil, true)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// FuzzParse checks that Parse takes the same texts as the standard library, and that its output is read back as the same.
func FuzzParse(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{`{"a":[1,2.5,"x\u00e9"],"a":null}`, `[[],{}]`, `-0`, `1e400`, `"\ud83d\ude00"`, `{"":0}`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Parse(data)
		if bare := bytes.TrimPrefix(data, []byte("\ufeff")); utf8.Valid(data) && (err == nil) != json.Valid(bare) {
			// Halves of surrogates, unlike there, and depth are refused on purpose.
			if err == nil || !strings.Contains(err.Error(), "surrogate") && !strings.Contains(err.Error(), "deeper") {
				t.Fatalf("error %v, but valid is %v", err, json.Valid(bare))
			}
		}
		if err != nil {
			return
		}
		n.Leaves(func(_ string, leaf Node) { leaf.Text(); leaf.Cut(); leaf.Real(); leaf.Number() })
		out := n.AppendJSON(nil, Escaped)
		// Lists that are kept as text are the same values.
		p := newParser(t.Context(), strings.ToValidUTF8(strings.TrimPrefix(string(data), "\ufeff"), ""), 4)
		if cut, err := p.value(0); err != nil || !cut.Equal(n) || string(cut.AppendJSON(nil, Exact)) != string(n.AppendJSON(nil, Exact)) {
			t.Fatalf("%s is read with error %v as %s", n.AppendJSON(nil, Exact), err, cut.AppendJSON(nil, Exact))
		}
		if same, err := Parse(n.AppendJSON(nil, Exact)); err != nil || !same.Equal(n) {
			t.Fatalf("%s is read back with error %v as another value", n.AppendJSON(nil, Exact), err)
		}
		again, err := Parse(out)
		if err != nil || string(again.AppendJSON(nil, Escaped)) != string(out) {
			t.Fatalf("%q is read back with error %v as %s", out, err, again.AppendJSON(nil, Escaped))
		}
	})
}

func TestParseStops(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	text := "[" + strings.Repeat("[],", 2*contextEvery) + "1]"
	if n, err := ParseText(ctx, text, math.MaxInt); err != nil || n.Len() != 2*contextEvery+1 {
		t.Errorf("got %d items, error %v, want %d, no error", n.Len(), err, 2*contextEvery+1)
	}
	cancel(stopped)
	if _, err := ParseText(ctx, text, math.MaxInt); err != stopped {
		t.Errorf("error %v", err)
	}
}

// TestListsAsText reads lists that are too large to be made of nodes, wherever they stand.
func TestListsAsText(t *testing.T) {
	const many = keptFrom + 1000
	long := "[" + strings.Repeat(`{"a": [1.50, "\u0041"]}, `, many) + "2]"
	for name, text := range map[string]string{
		"root": long, "in an object": `{"x": 1, "l": ` + long + `, "y": {"z": [1]}}`, "in a list": "[" + long + "," + long + ", 3]", "deep": strings.Repeat("[", 500) + long + strings.Repeat("]", 500),
		"in many objects": `{"o": [` + strings.Repeat(`{"k": {"l": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}}, `, many/10) + `5]}`,
	} {
		n := parse(t, text)
		nodes, p := 0, newParser(t.Context(), text, math.MaxInt)
		whole, err := p.value(0)
		if err != nil {
			t.Fatal(err)
		}
		var count func(n Node)
		count = func(n Node) {
			nodes += len(n.kids)
			for i := range n.kids {
				count(n.kids[i].Value)
			}
		}
		count(n)
		if nodes > keptFrom {
			t.Errorf("%s: %d members are held, want at most %v", name, nodes, keptFrom)
		}
		if got, want := n.AppendJSON(nil, Exact), whole.AppendJSON(nil, Exact); string(got) != string(want) {
			t.Errorf("%s: got different JSON, want the same", name)
		}
		var b strings.Builder
		n.WriteSerialized(&b, nil)
		if b.String() != string(whole.AppendSerialized(nil, false)) {
			t.Errorf("%s: got a different typed text, want the same", name)
		}
	}
	n := parse(t, long)
	if got, ok := n.At("66000.a.1", "."); !ok || got.Str() != "A" || n.Len() != many+1 || n.Empty() || n.Item(many).Int() != 2 {
		t.Errorf("got %v, %d items, want A in a tree of %d", got, n.Len(), many+1)
	}
	mapped, err := n.MapItems(func(i int, _ Node) (Node, error) { return OfFloat(float64(i)), nil })
	if first, last := mapped.Item(0), mapped.Item(many); err != nil || mapped.Len() != many+1 || first.Float() != 0 || last.Float() != many || last.Kind() != Float {
		t.Errorf("mapped to %v … %v, error %v", first, last, err)
	}
	if _, err := Parse([]byte(long[:len(long)-5] + "]")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("error %v of a list that is malformed at its end", err)
	}
}

// TestTooManyMembers refuses objects that would take more memory than is allowed.
func TestTooManyMembers(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, `, "%d": []`, i)
	}
	text := `[{"a": 1` + b.String() + `}]`
	if _, err := ParseText(t.Context(), text, 2000); err == nil || !strings.Contains(err.Error(), "more members than fit") {
		t.Errorf("error %v", err)
	}
	if _, err := ParseText(t.Context(), text, 3000); err != nil {
		t.Error(err)
	}
	// Where a list is only checked, the cost of reading an item later counts.
	items := "[" + strings.Repeat(text[1:len(text)-1]+",", 100) + "0]"
	if _, err := ParseText(t.Context(), items, keptFrom+3000); err != nil {
		t.Error(err)
	}
	for i := range 2 * keptFrom {
		fmt.Fprintf(&b, `, "k%d": []`, i)
	}
	if _, err := ParseText(t.Context(), items[:len(items)-1]+`, {"a": 1`+b.String()+`}]`, 2*keptFrom); err == nil || !strings.Contains(err.Error(), "more members than fit") {
		t.Errorf("error %v", err)
	}
}

func TestCursor(t *testing.T) {
	for _, more := range []int{0, 100} {
		var members []Member
		for i := range 3 + more {
			members = append(members, Member{strconv.Itoa(i), OfInt(int64(i))})
		}
		c := OfObject(members...).Cursor()
		for _, i := range []int{0, 1, 2, 1, 0, 2, 2} {
			if n := c.Get(strconv.Itoa(i)); n.Int() != int64(i) || n.Kind() != Int {
				t.Errorf("member %d of %d is %v", i, len(members), n)
			}
			if n := c.Get("none"); n.Kind() != Null {
				t.Errorf("there is a member %v", n)
			}
		}
	}
	if c := OfList(OfInt(1)).Cursor(); c.Get("0").Kind() != Null {
		t.Error("a list has members")
	}
}
