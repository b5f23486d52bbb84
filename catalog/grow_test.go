package catalog_test

import (
	"slices"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
)

// TestExtendIsADefault checks that the option decides for sinks that do not set extend, and two sinks with different columns share a table only if it
// grows for both.
func TestExtendIsADefault(t *testing.T) {
	mem := buffertest.NewMemory()
	cat := openCatalog(t, openEngine(t, forebay.Options{Target: mem}), catalog.Options{Store: newMemory(), Extend: true})
	pair := func(second *bool) catalog.SourceSpec {
		return catalog.SourceSpec{ID: "web", Name: "Web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
			{ID: "a", Name: "a", TableID: growTable, Columns: growColumns("id", "n")},
			{ID: "b", Name: "b", TableID: growTable, Columns: growColumns("more", "id"), Extend: second},
		}}
	}
	if _, err := cat.CreateSource(user, pair(new(false))); code(err) != catalog.BadRequest {
		t.Errorf("a table with two sets of columns, one of which has all columns: %v", err)
	}
	done(t, cat)(cat.CreateSource(user, pair(nil)))
	for _, id := range []string{"a", "b"} {
		if _, s, err := cat.Sink("web", id); err != nil || !s.Extend {
			t.Errorf("got %+v, %v, want no error and s.Extend", s, err)
		}
	}
	var names []string
	for _, c := range mem.Columns(growTable) {
		names = append(names, c.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"id", "more", "n"}) {
		t.Errorf("the table has %v", names)
	}
	done(t, cat)(cat.CreateSink(user, "web", catalog.SinkSpec{ID: "c", Name: "c", TableID: "in.c-web.c", Columns: columns(), Extend: new(false)}))
	if _, s, err := cat.Sink("web", "c"); err != nil || s.Extend {
		t.Errorf("got %+v, %v, want no error and !s.Extend", s, err)
	}
}
