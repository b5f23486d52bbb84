package mapping

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// TestNoValueLeaksBetweenRecords runs several mappers over pooled records of every kind on many goroutines. Every value of a record
// carries its number, so a cell with any other number came out of another record. Parsers and evaluators that go back to
// a pool while their result is in use fail here.
func TestNoValueLeaksBetweenRecords(t *testing.T) {
	mappers := []*Mapper{
		mustCompile(t, Body("b"), Path("p", "id"), Path("n", "deep.id"), Path("e", "esc"), Path("r", "esc", RawString()), Path("o", "deep")),
		mustCompile(t, Template("t", `Body("id") + "/" + Header("X-Id") + "/" + Body("deep.id")`),
			Template("u", `{ id: Body("id"), list: [x + Body("id") for x in Body("arr")], h: Header("X-Id") }`),
			Template("v", `std.join("-", std.map(function(x) std.asciiUpper(x), Body("arr"))) + Body("esc")`)),
		mustCompile(t, Headers("h"), Template("w", `local b = Body(); std.md5(b.id) + b.deep.id + HeaderStr()`), Path("d", "nope", Default("x"))),
		mustCompile(t, Columns{
			Path("p", "id", RawString()), Path("e", "esc"), Path("o", "deep"), Path("i", "deep.id"), Body("b"), Headers("h"), Template("t", `Body("esc")`),
			Path("doc", "esc", RawString()),
		}.Typed()...),
	}
	failing := mustCompile(t, Template("t", `local x = Body("id"); [x, Body("nope")]`))
	deep := mustCompile(t, Template("t", `local f(x) = f(x) + Body("id"); f(1)`))

	pool := sync.Pool{New: func() any { return new(Record) }}
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := range rounds {
				id := fmt.Sprintf("<%06d>", w*1_000_000/32+i)
				body := fmt.Sprintf(`{"id":%q, "deep":{"id":%q}, "esc":"\u0041%s\n", "arr":[%q,%q]}`, id, id, id, id, id)
				r := pool.Get().(*Record)
				r.Reset()
				r.Header = map[string][]string{"X-Id": {id}, "A": {"a"}}
				switch i % 5 {
				case 0:
					e := url.QueryEscape(id)
					r.Body, r.Format = fmt.Appendf(nil, "id=%s&deep[id]=%s&esc=A%s%%0A&arr[]=%s&arr[]=%s", e, e, e, e, e), FormatForm
				case 1:
					r.Document = &jsonDocument{text: body}
				case 2:
					r.Document = plainDocument(body)
				default:
					r.Body, r.Format = []byte(body), FormatJSON
				}
				if i%7 == 0 {
					if _, err := failing.AppendRow(nil, r); reasonOf(err) != MissingValue {
						t.Errorf("got %v", err)
					}
				}
				if i%50 == 0 {
					if _, err := deep.AppendRow(nil, r); reasonOf(err) != BudgetExceeded {
						t.Errorf("got %v", err)
					}
				}
				for _, m := range mappers {
					row, err := m.AppendRow(nil, r)
					if err != nil {
						t.Error(err)
						return
					}
					if n := strings.Count(string(row), "<"); n == 0 || n != strings.Count(string(row), id) {
						t.Errorf("record %s got %s", id, row)
						return
					}
				}
				switch i % 3 {
				case 0:
					r.Release()
				case 1:
					// A copy has neither the right to the state nor a way to give it away twice.
					dup := *r
					row, err := mappers[0].AppendRow(nil, &dup)
					if err != nil || strings.Count(string(row), "<") != strings.Count(string(row), id) {
						t.Errorf("the copy of record %s got %s %v", id, row, err)
						return
					}
					dup.Release()
				}
				pool.Put(r)
			}
		})
	}
	wg.Wait()
}

// A failing template does not harm the next evaluation, of itself or of others.
func TestFailuresDoNotHarmLaterEvaluations(t *testing.T) {
	failing := map[string]string{
		"missing":   `Body("nope")`,
		"recursion": `local f(x) = f(x + 1) + 1; f(0)`,
		"thunk":     `local x = x; [x]`,
		"object":    `{ assert false, a: 1 }`,
		"nested":    `std.map(function(x) [[error "x"]], [1, 2, 3])`,
		"memory":    `std.repeat("x", 1e9)`,
		"output":    `std.makeArray(3, function(i) error "later")`,
		"tail":      `local f(n) = if n == 0 then error "end" else f(n - 1) tailstrict; f(100)`,
	}
	good := mustCompile(t, Template("g", `local f(n) = if n == 0 then [] else [f(n - 1)]; [std.length(f(100)), Body("id"), std.join(",", ["a", "b"])]`))
	for name, content := range failing {
		bad := mustCompile(t, Template("t", content))
		for i := range 600 {
			if _, err := bad.AppendRow(nil, JSON([]byte(`{}`))); err == nil {
				t.Fatalf("%s: got no error, want one", name)
			}
			if i%100 != 99 {
				continue
			}
			row, err := good.AppendRow(nil, JSON([]byte(`{"id":"x"}`)))
			if want := `"[1,""x"",""a,b""]"` + "\n"; string(row) != want || err != nil {
				t.Fatalf("after %d times %s: %s %v", i+1, name, row, err)
			}
		}
	}
}
