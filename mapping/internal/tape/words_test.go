package tape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// Text is read in words of several bytes, so special bytes must be found anywhere in a word, including the last word of
// the text.
func TestSpecialBytesAtEveryPlace(t *testing.T) {
	specials := []string{"", `\n`, `\"`, `\u00e9`, "é", "\xff", "\x01", `\x`, "\\"}
	var tp Tape
	for n := range 75 {
		for at := 0; at <= n; at++ {
			for _, sp := range specials {
				content := strings.Repeat("a", at) + sp + strings.Repeat("b", n-at)
				for _, text := range []string{
					`"` + content + `"`, `["` + content + `"]`, `{"` + content + `":1}`, `{"k":"` + content + `"}`,
					`["` + content + `",0,"",""` + strings.Repeat(" ", 20) + "]",
				} {
					valid := json.Valid([]byte(text))
					if err := tp.Parse([]byte(text)); (err == nil) != valid {
						t.Fatalf("%q: %v, but valid is %v", text, err, valid)
					}
					if !valid {
						continue
					}
					if got, want := tp.AppendCSV([]byte("x")), "x"+strings.ReplaceAll(text, `"`, `""`); string(got) != want {
						t.Fatalf("%q: the cell is %q", text, got)
					}
					var want any
					if err := json.Unmarshal([]byte(text), &want); err != nil {
						t.Fatal(err)
					}
					var got any
					if err := json.Unmarshal(tp.AppendValue(nil, 0), &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("%q: the value is %v (%v), want %v", text, got, err, want)
					}
				}
				for _, html := range []bool{false, true} {
					var b bytes.Buffer
					enc := json.NewEncoder(&b)
					enc.SetEscapeHTML(html)
					if err := enc.Encode(content); err != nil {
						t.Fatal(err)
					}
					var got, want string
					written := jsontext.AppendString(nil, content, html)
					if err := json.Unmarshal(written, &got); err != nil {
						t.Fatalf("%q: got %s: %v, want no error", content, written, err)
					}
					if err := json.Unmarshal(b.Bytes(), &want); err != nil || got != want {
						t.Fatalf("%q: got %q, want %q", content, got, want)
					}
				}
			}
		}
	}
}
