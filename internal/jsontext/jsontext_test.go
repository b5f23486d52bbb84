package jsontext_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forebay/forebay/internal/jsontext"
)

// What is written reads back as the text, with U+FFFD for what is not UTF-8, wherever the special bytes stand in a word.
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
		t.Errorf("%s, want %s", got, want)
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
