package jsontext_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// The output reads back as the text, with U+FFFD for invalid UTF-8, at every position of special bytes in a word.
func TestAppendString(t *testing.T) {
	for n := range 40 {
		for at := 0; at <= n; at++ {
			for _, special := range []string{"", `"`, `\`, "\n", "\x00", "\x1f", "é", "👍", "\xff", "<", "\u2028"} {
				text := strings.Repeat("a", at) + special + strings.Repeat("b", n-at)
				for _, html := range []bool{false, true} {
					got := jsontext.AppendString([]byte("x"), text, html)
					var back string
					if err := json.Unmarshal(got[1:], &back); err != nil || back != strings.ToValidUTF8(text, "\ufffd") || !utf8.Valid(got) {
						t.Fatalf("%q is written %s, %v", text, got, err)
					}
					if html && strings.ContainsAny(string(got), "<>&\u2028\u2029") {
						t.Fatalf("%q is written %s", text, got)
					}
				}
			}
		}
	}
}

func TestAppendStringEscapesAsLittleAsCanBe(t *testing.T) {
	if got, want := string(jsontext.AppendString(nil, "</>&\u2028\"\\\b\f\n\r\t\x01\x7f", false)), "\"</>&\u2028"+`\"\\\b\f\n\r\t\u0001`+"\x7f\""; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func BenchmarkAppendString(b *testing.B) {
	for _, n := range []int{8, 150, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			text, out := strings.Repeat("x", n), []byte(nil)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				out = jsontext.AppendString(out[:0], text, false)
			}
		})
	}
}

func TestAppendStringOfChosenTexts(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a": `"a"`, "plain text of some length": `"plain text of some length"`, "12345678\n": `"12345678\n"`,
		"1234\"67": `"1234\"67"`, "12345678\\": `"12345678\\"`, "\x00\x1f\x7f\b\f\t\r": "\"\\u0000\\u001f\x7f\\b\\f\\t\\r\"",
		"1234567é😀": `"1234567é😀"`, "\xffabcdefgh\xc3": "\"\ufffdabcdefgh\ufffd\"", "<a href=\"&\">": `"<a href=\"&\">"`, "\u2028": "\"\u2028\"",
	} {
		if got := string(jsontext.AppendString(nil, in, false)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	if got := string(jsontext.AppendString(nil, "12345678<>&\u2028\u2029", true)); got != `"12345678\u003c\u003e\u0026\u2028\u2029"` {
		t.Error(got)
	}
}

// A plain text is one that is written unchanged.
func TestIsPlain(t *testing.T) {
	for n := range 40 {
		for at := 0; at <= n; at++ {
			for _, special := range []string{"", `"`, `\`, "\n", "\x1f", "é", "\xff", "<", "\x7f"} {
				text := strings.Repeat("a", at) + special + strings.Repeat("b", n-at)
				if got, want := jsontext.IsPlain(text), string(jsontext.AppendString(nil, text, false)) == `"`+text+`"` && utf8.ValidString(text) && len([]rune(text)) == len(text); got != want {
					t.Fatalf("%q: got %v, want %v", text, got, want)
				}
			}
		}
	}
}

// The end of the plain part is found from every place of a text on, whatever bytes stand around it.
func TestEnd(t *testing.T) {
	for n := range 30 {
		for at := 0; at <= n; at++ {
			for _, special := range []string{"", `"`, `\`, "\x00", "\x1f", "\x7f", "\x80", "\xff", " ", "é"} {
				for _, after := range []string{"a", "\"", "\x01", "\xff"} {
					text := strings.Repeat("a", at) + special + strings.Repeat(after, n-at)
					for from := range len(text) + 1 {
						want := from
						for want < len(text) && text[want] >= ' ' && text[want] != '"' && text[want] != '\\' {
							want++
						}
						if got := jsontext.End(text, from); got != want {
							t.Fatalf("%q from %d on ends at %d, want %d", text, from, got, want)
						}
					}
				}
			}
		}
	}
}
