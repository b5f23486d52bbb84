package extractor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor/internal/tree"
	"github.com/forebay/forebay/internal/seedtest"
)

// pageOf is a page with a response, as a job with the only list of the response reads it.
func pageOf(t *testing.T, text string) *page {
	t.Helper()
	n, err := tree.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{response: n}
	dataField{}.find(p)
	return p
}

// TestFingerprintOfPages compares responses that differ in one place. Two fingerprints are equal if, and only if, types and order of everything in
// the responses are, among the items as well as around them.
func TestFingerprintOfPages(t *testing.T) {
	answers := []string{
		`{"n":1,"l":[{"id":1,"b":[2]},{"id":2}]}`, `{"n":2,"l":[{"id":1,"b":[2]},{"id":2}]}`, `{"n":1,"m":[{"id":1,"b":[2]},{"id":2}]}`,
		`{"n":1,"l":[{"id":1,"b":[2]},{"id":3}]}`, `{"n":1,"l":[{"id":1,"b":[2]}]}`, `{"n":1,"l":[{"id":1,"b":[2]},{"id":2},null]}`,
		`{"n":1,"l":[{"id":2},{"id":1,"b":[2]}]}`, `{"l":[{"id":1,"b":[2]},{"id":2}],"n":1}`, `{"n":1,"l":[{"b":[2],"id":1},{"id":2}]}`,
		`{"n":1,"l":[{"id":"1","b":[2]},{"id":2}]}`, `{"n":1,"l":[{"id":1.0,"b":[2]},{"id":2}]}`, `{"n":1,"l":[]}`, `{"n":1,"l":null}`, `{"n":1}`, `{"n":"1"}`,
		`[{"id":1}]`, `[{"id":1},{"id":2}]`, `{"a":{"id":1}}`, `[]`, `[[]]`, `{"l":[[]]}`, `{"l":[],"m":[]}`, `{"l":[1],"m":[1]}`, `{"l":[1],"m":[2]}`, `1`, `"1"`,
	}
	for i, a := range answers {
		for j, b := range answers {
			spaced := strings.NewReplacer(",", " ,\n", ":", ": ").Replace(b)
			if same := pageOf(t, a).fingerprint(new(pageScroller)) == pageOf(t, spaced).fingerprint(new(pageScroller)); same != (i == j) {
				t.Errorf("%s and %s count as the same: %v, want %v", a, b, same, i == j)
			}
		}
	}
	// Any response whose data is one list is the same as itself only.
	rnd := seedtest.Rand(t)
	seen := make(map[string]string)
	for range 2000 {
		text := fmt.Sprintf(`{"a":%d,"l":%s,"z":{"y":%s}}`, rnd.IntN(2), randomList(rnd, 0), randomList(rnd, 1))
		p := pageOf(t, text)
		sum := p.fingerprint(new(pageScroller))
		if before, ok := seen[sum]; ok && before != text {
			t.Fatalf("%s and %s: got the same checksum, want two", before, text)
		}
		if seen[sum] = text; pageOf(t, text).fingerprint(new(pageScroller)) != sum {
			t.Fatalf("%s does not count as the same as itself", text)
		}
	}
}

func randomList(rnd *rand.Rand, depth int) string {
	var items []string
	for range rnd.IntN(3) {
		if rnd.IntN(2) == 0 && depth < 2 {
			items = append(items, randomList(rnd, depth+1))
		} else {
			items = append(items, []string{"1", `"1"`, "null", "true", `{"k":1}`, `{}`}[rnd.IntN(6)])
		}
	}
	return "[" + strings.Join(items, ",") + "]"
}

// TestIDOfPages has the same ID for the same records, whatever stands around them, with the checksum that the fingerprint has left and without.
func TestIDOfPages(t *testing.T) {
	of := func(answer string, change func(*Page)) string {
		p := pageOf(t, answer)
		out := &Page{Number: 1, items: p.items, origin: "run/0/0"}
		without := out.ID()
		p.fingerprint(new(pageScroller))
		if out.sum = p.sum; out.ID() != without {
			t.Errorf("%s: got a different ID with the checksum, want the same", answer)
		}
		change(out)
		return out.ID()
	}
	nothing := func(*Page) {}
	first := of(`{"took":1,"l":[{"id":1},{"id":2}]}`, nothing)
	if first != of(`{"took":2, "l": [ {"id":1}, {"id":2} ]}`, nothing) || first != of(`[{"id":1},{"id":2}]`, nothing) {
		t.Error("an ID depends on what stands around the records")
	}
	seen := map[string]string{first: "the first"}
	for name, id := range map[string]string{
		"another record": of(`[{"id":1},{"id":3}]`, nothing), "fewer records": of(`[{"id":1}]`, nothing), "another order": of(`[{"id":2},{"id":1}]`, nothing),
		"another page": of(`[{"id":1},{"id":2}]`, func(p *Page) { p.Number++ }), "another run": of(`[{"id":1},{"id":2}]`, func(p *Page) { p.origin = "run/0/1" }),
		"an extra column": of(`[{"id":1},{"id":2}]`, func(p *Page) { p.extra = []tree.Member{{Key: "k", Value: tree.OfInt(1)}} }),
		"a skipped one":   of(`[{"id":1},{"id":2},{"id":4}]`, func(p *Page) { p.skip = map[int]bool{1: true} }),
		"another skipped": of(`[{"id":1},{"id":2},{"id":4}]`, func(p *Page) { p.skip = map[int]bool{0: true} }),
	} {
		if other, ok := seen[id]; ok {
			t.Errorf("%s has the ID of %s", name, other)
		}
		seen[id] = name
	}
	if first != of(`[{"id":1},{"id":9},{"id":2}]`, func(p *Page) { p.skip = map[int]bool{1: true} }) {
		t.Error("a record that is skipped counts")
	}
}
