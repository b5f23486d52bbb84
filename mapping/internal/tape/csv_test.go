package tape

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
		got := AppendCSV([]byte(prefix), b)
		if want := prefix + strings.ReplaceAll(string(b), `"`, `""`); string(got) != want {
			t.Fatalf("%q\n got %q\nwant %q", b, got, want)
		}
	}
}
