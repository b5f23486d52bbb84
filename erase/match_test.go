package erase

import (
	"testing"

	"github.com/forebay/forebay/mapping"
)

// A text is found however its sender has escaped it, and not where it is not.
func TestTextIsFoundBehindEscapes(t *testing.T) {
	for _, tt := range []struct {
		text, in string
		want     bool
	}{
		{"René", `{"name":"Ren\u00e9"}`, true},
		{"RENÉ", `{"name":"Ren\u00e9\\", "x":1}`, true},                                                     // the next escape ends after a quote
		{"René", `{"name":"Ren\u00C9\n"` + "\n}", true},                                                     // and here after the line
		{"René", "payload=%7B%22name%22%3A%22Ren%5Cu00e9%22%7D", true},                                      // JSON in a form
		{"ada@example.com", `{"to":"https%3A%2F%2Fh%2F%3Fu%3Dada%2540example.com"}`, true},                  // a link in a link
		{"ada+news@example.com", `{"link":"https:\/\/h\/?u=ada+news%40example.com"}`, true},                 // the + of a path
		{"Ada Lovelace", "name=Ada+Lovelace&mail=ada%40example.com", true},                                  // the + of a form
		{"Ada Lovelace", `{"payload":"name=Ada+Lov%65lace"}`, true},                                         //
		{"😀 ada", `{"x":"\ud83d\ude00 Ada"}`, true},                                                         // a pair of surrogates
		{`O"Brien`, `{"name":"O\"Brien"}`, true},                                                            //
		{"ada@example.com", `{"a":"ada","b":"@example.com"}`, false},                                        //
		{"ada@example.com", `{"a":"ada@example.co","b":"%zz%4","c":"\u00","d":"\ud83d\u0041` + "\\", false}, // ends within an escape
	} {
		m, err := newMatcher(Match{Text: tt.text}, mapping.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.in([]byte(tt.in)); got != tt.want {
			t.Errorf("%q in %q: got %v, want %v", tt.text, tt.in, got, tt.want)
		}
	}
}
