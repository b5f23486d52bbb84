package console

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// What a sample shows is computed for the first viewer and shared by the others. With hundreds of sinks each further one costs next to nothing.
func TestViewersShareASample(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	for i := range 5 {
		def := forebay.Source{ID: fmt.Sprintf("web%d", i)}
		for j := range 60 {
			id := fmt.Sprintf("s%d", j)
			def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: def.ID + "." + id, Columns: mapping.Columns{mapping.UUID("id")}}})
		}
		if err := eng.Define(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(eng, Options{Public: Numbers})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := eng.Ingest(t.Context(), "web0", mapping.JSON([]byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	s := c.sampler.current()
	look := func(query string) message {
		r := httptest.NewRequest("GET", "/stream?page=overview&"+query, nil)
		m, verdict := c.viewer(r, c.caller(r)).next(s)
		if len(m.Rows) != pageSize || len(m.Order) != pageSize || len(m.Head) == 0 || !verdict {
			t.Fatalf("got %+v, want a full page with its order, its head and the verdict", m)
		}
		return m
	}
	first := testing.AllocsPerRun(1, func() { s.finish(); look("") }) // its own sample each time
	further := testing.AllocsPerRun(10, func() { look("") })
	if further > 100 || further > first/5 {
		t.Errorf("a further viewer takes %v allocations, the first one %v", further, first)
	}
	if string(look("").Rows[0]) == string(look("sort=-name").Rows[0]) {
		t.Error("viewers with different queries see the same rows")
	}
	for i := range 3 * maxShownViews { // a client that polls with a new query each time
		look(fmt.Sprintf("x=%d", i))
	}
	if n := len(s.unquoted.shown.views); n > maxShownViews {
		t.Errorf("%d views are kept, want at most %v", n, maxShownViews)
	}
}
