package tree

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/seedtest"
)

// What follows reads and writes texts and numbers byte by byte, as the rules, against which the faster code is checked.

// slowText reads a string from its first quote on. It returns the text, and where it ends, or the fault and its place.
func slowText(data string) (text string, end int, err error) {
	var out []byte
	unit := func(at int) (rune, error) {
		if at+4 > len(data) {
			return 0, errEnd
		}
		u, err := strconv.ParseUint(data[at:at+4], 16, 16)
		if err != nil || data[at] == '+' {
			return 0, errors.New("malformed escape in a string")
		}
		return rune(u), nil
	}
	for at := 1; at < len(data); {
		c := data[at]
		switch {
		case c == '"':
			return string(out), at + 1, nil
		case c < 0x20:
			return "", at, errControl
		case c != '\\':
			out = append(out, c)
			at++
			continue
		}
		if at++; at == len(data) {
			break
		}
		c = data[at]
		at++
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			out = append(out, "\"\\/\b\f\n\r\t"[i])
			continue
		}
		if c != 'u' {
			return "", at, errors.New("unknown escape in a string")
		}
		r, err := unit(at)
		if err != nil {
			return "", at, err
		}
		at += 4
		if utf16.IsSurrogate(r) {
			half := errors.New("half of a surrogate pair in a string")
			if at+2 > len(data) || data[at] != '\\' || data[at+1] != 'u' {
				return "", at, half
			}
			at += 2
			low, err := unit(at)
			if err != nil {
				return "", at, err
			}
			at += 4
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return "", at, half
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return "", len(data), errEnd
}

// slowString writes a string.
func slowString(s string, style Style) string {
	escaped := style == Escaped || style == Arrays
	out := []byte{'"'}
	for _, r := range s { // a wrong byte is U+FFFD
		at := strings.IndexRune("\b\f\n\r\t", r)
		switch {
		case r == '"' || r == '\\' || r == '/' && escaped:
			out = append(out, '\\', byte(r))
		case at >= 0:
			out = append(out, '\\', "bfnrt"[at])
		case r < ' ' || r > 0x7f && r <= 0xffff && escaped:
			out = appendUnit(out, uint16(r))
		case r > 0xffff && escaped:
			high, low := utf16.EncodeRune(r)
			out = appendUnit(appendUnit(out, uint16(high)), uint16(low))
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(append(out, '"'))
}

// slowFloat writes a number that is neither infinite nor zero.
func slowFloat(f float64, precision, digits int, e string) string {
	s := strconv.FormatFloat(f, 'e', max(precision-1, min(precision, 0)), 64)
	mantissa, exponent, _ := strings.Cut(s, "e")
	exp, _ := strconv.Atoi(exponent)
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	num := cmp.Or(strings.TrimRight(strings.Replace(mantissa, ".", "", 1), "0"), "0")
	switch {
	case exp < -4 || exp >= digits:
		s := "+"
		if exp < 0 {
			s, exp = "-", -exp
		}
		return sign + num[:1] + "." + cmp.Or(num[1:], "0") + e + s + strconv.Itoa(exp)
	case exp < 0:
		return sign + "0." + strings.Repeat("0", -exp-1) + num
	case exp+1 >= len(num):
		return sign + num + strings.Repeat("0", exp+1-len(num))
	}
	return sign + num[:exp+1] + "." + num[exp+1:]
}

// compareText checks the fast code for a text, as the rest of a JSON text, and as a string to be written.
func compareText(t *testing.T, s string) {
	t.Helper()
	valid := strings.ToValidUTF8(s, "")
	data := `"` + valid
	want, end, wantErr := slowText(data)
	for _, dry := range []bool{false, true} {
		p := newParser(t.Context(), data, keptFrom)
		p.dry = dry
		got, err := p.text()
		if p.at != end || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || got != want && !dry {
			t.Fatalf("%q is read as %q up to %d, error %v; want %q up to %d, error %v", data, got, p.at, err, want, end, wantErr)
		}
	}
	for style := Plain; style <= Arrays; style++ {
		if got, want := string(OfString(s).AppendJSON([]byte("x"), style)[1:]), slowString(s, style); got != want {
			t.Fatalf("%q is written as %s in style %d, want %s", s, got, style, want)
		}
	}
}

func compareFloat(t *testing.T, f float64) {
	t.Helper()
	if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 {
		return
	}
	for _, digits := range []int{0, 1, 6, 14, 17, 40} {
		if got, want := FloatText(f, digits), slowFloat(f, digits, digits, "E"); got != want {
			t.Fatalf("%v with %d digits is %s, want %s", f, digits, got, want)
		}
	}
	want := slowFloat(f, -1, 17, "e")
	if got := string(OfFloat(f).AppendJSON(nil, Plain)); got != want {
		t.Fatalf("%v as JSON is %s, want %s", f, got, want)
	}
	if !strings.ContainsAny(want, ".e") {
		want += ".0"
	}
	if got := string(OfFloat(f).AppendJSON(nil, Exact)); got != want {
		t.Fatalf("%v as exact JSON is %s, want %s", f, got, want)
	}
}

// TestAgainstSlow has every kind of byte at every place of a word, and random texts and numbers.
func TestAgainstSlow(t *testing.T) {
	kinds := []string{`"`, `\"`, `\`, `\n`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\u+123`, `\x`, "\n", "\x00", "\x1f", " ", "/", "é", "😀", "\x7f", "\x80", "\xff", "\u2028"}
	for n := range 11 {
		for at := 0; at <= n; at++ {
			for _, a := range kinds {
				for _, b := range kinds {
					compareText(t, strings.Repeat("a", at)+a+strings.Repeat("b", n-at)+b+`"`)
				}
			}
		}
	}
	rnd := seedtest.Rand(t)
	for range 5_000 {
		var b strings.Builder
		for range rnd.IntN(40) {
			if rnd.IntN(3) > 0 {
				b.WriteByte(byte('a' + rnd.IntN(26)))
			} else {
				b.WriteString(kinds[rnd.IntN(len(kinds))])
			}
		}
		compareText(t, b.String())
		compareFloat(t, math.Float64frombits(rnd.Uint64()))
		compareFloat(t, float64(rnd.IntN(2_000_000)-1_000_000)/math.Pow10(rnd.IntN(20)))
		compareFloat(t, math.Pow10(rnd.IntN(40)-20))
	}
}

func FuzzAgainstSlow(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add("plain text that is longer than a word\"", 1.5)
	f.Add(`a\u00e9\ud83d\ude00\n"`, 1e-7)
	f.Add("é\xff\x00/\"", -123456789012345678.0)
	f.Fuzz(func(t *testing.T, s string, number float64) {
		compareText(t, s)
		compareFloat(t, number)
	})
}

// TestEqualNames reads objects of all sizes whose names come again. The last value counts, at the place of the first. Names that the parser cannot
// tell apart at a glance, of one length and with the same letters where it looks, are different all the same.
func TestEqualNames(t *testing.T) {
	rnd := seedtest.Rand(t)
	for _, alike := range []bool{false, true} {
		for size := range 3 * filtered {
			var text strings.Builder
			var order []string
			values := make(map[string]int)
			for i := range size {
				name := strconv.Itoa(rnd.IntN(size))
				if alike {
					name = fmt.Sprintf("k%05dm00000k", rnd.IntN(size))
				}
				if _, ok := values[name]; !ok {
					order = append(order, name)
				}
				values[name] = i
				fmt.Fprintf(&text, `,"%s":%d`, name, i)
			}
			var want strings.Builder
			for _, name := range order {
				fmt.Fprintf(&want, `,"%s":%d`, name, values[name])
			}
			in, out := "{"+strings.TrimPrefix(text.String(), ",")+"}", "{"+strings.TrimPrefix(want.String(), ",")+"}"
			if got := string(parse(t, in).AppendJSON(nil, Plain)); got != out {
				t.Fatalf("%s is read as %s, want %s", in, got, out)
			}
		}
	}
}

// TestMembersAreNotShared extends a collection. The members of its neighbours, which are in the same memory, stay.
func TestMembersAreNotShared(t *testing.T) {
	text := `[{"a":1,"b":[1,2,3]},{"a":2},{"c":{"d":[4]}}]`
	n := parse(t, text)
	for m := range n.Each() {
		for _, part := range [][]Member{m.Value.kids, m.Value.kids[0].Value.kids} {
			_ = append(part, Member{Key: "z"})
		}
	}
	if got := string(n.AppendJSON(nil, Plain)); got != text {
		t.Errorf("%s has become %s, want %v", text, got, text)
	}
}

// TestReplace replaces a list by its place in memory, at any depth, and leaves the value as it was.
func TestReplace(t *testing.T) {
	text := `{"a":[1],"b":{"c":[[2],[1]],"d":[]},"e":[1]}`
	n := parse(t, text)
	for path, want := range map[string]string{
		"a": `{"a":"x","b":{"c":[[2],[1]],"d":[]},"e":[1]}`, "b.c.1": `{"a":[1],"b":{"c":[[2],"x"],"d":[]},"e":[1]}`,
		"e": `{"a":[1],"b":{"c":[[2],[1]],"d":[]},"e":"x"}`, "b.d": text,
	} {
		list, _ := n.At(path, ".")
		got, ok := n.Replace(list, OfString("x"))
		if string(got.AppendJSON(nil, Plain)) != want || ok != (want != text) {
			t.Errorf("%s: got %s, %v, want %s", path, got.AppendJSON(nil, Plain), ok, want)
		}
	}
	if equal, ok := n.Replace(parse(t, `[1]`), OfString("x")); ok {
		t.Errorf("a list that is only equal was replaced: %s", equal.AppendJSON(nil, Plain))
	}
	if whole, ok := parse(t, `[1,2]`).Replace(OfList(OfInt(1), OfInt(2)), Node{}); ok || whole.Len() != 2 {
		t.Error("the root was replaced by a list that is only equal")
	}
	if got := n.AppendJSON(nil, Plain); !bytes.Equal(got, []byte(text)) {
		t.Errorf("the value has changed: %s", got)
	}
	root := parse(t, `[1,2]`)
	if got, ok := root.Replace(root, OfString("x")); !ok || got.Str() != "x" {
		t.Error("the root was not replaced")
	}
	// A list that is kept as text.
	p := newParser(t.Context(), `{"l":[1,2,3,4,5,6,7,8],"m":3}`, 4)
	cut, err := p.value(0)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := cut.Get("l")
	if got, ok := cut.Replace(list, OfString("x")); !list.asText() || !ok || string(got.AppendJSON(nil, Plain)) != `{"l":"x","m":3}` {
		t.Errorf("got %s, %v, want list.asText() and ok and string(got.AppendJSON(nil, Plain)) == `{\"l\":\"x\",\"m\":3}`", got.AppendJSON(nil, Plain), ok)
	}
}
