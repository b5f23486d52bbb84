package mapping

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestAppendCSVDoublesEveryQuote(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 400 {
		b := make([]byte, n)
		for i := range b {
			b[i] = "\"\"a\x80\xa2\x02#!"[rng.IntN(8)]
		}
		prefix := "keep"
		got := appendCSV([]byte(prefix), b)
		if want := prefix + strings.ReplaceAll(string(b), `"`, `""`); string(got) != want {
			t.Fatalf("%q\n got %q\nwant %q", b, got, want)
		}
	}
}

func TestAppendJSONString(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a": `"a"`, "plain text of some length": `"plain text of some length"`, "12345678\n": `"12345678\n"`,
		"1234\"67": `"1234\"67"`, "12345678\\": `"12345678\\"`, "\x00\x1f\x7f\b\f\t\r": "\"\\u0000\\u001f\x7f\\b\\f\\t\\r\"",
		"1234567é😀": `"1234567é😀"`, "\xffabcdefgh\xc3": "\"\ufffdabcdefgh\ufffd\"", "<a href=\"&\">": `"<a href=\"&\">"`, "\u2028": "\"\u2028\"",
	} {
		if got := string(appendJSONString(nil, in, false)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := string(appendJSONString(nil, "12345678<>&\u2028\u2029", true)); got != `"12345678\u003c\u003e\u0026\u2028\u2029"` {
		t.Error(got)
	}
}
