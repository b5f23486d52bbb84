package forebay_test

import (
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/modetest"
	"github.com/forebay/forebay/mapping"
)

// The local level, staging and the default tables are private, while the engine is open and after.
func TestFilesArePrivate(t *testing.T) {
	folder := t.TempDir()
	engine, err := forebay.Open(folder, forebay.Options{})
	must(t, err)
	defer engine.Close()
	if err := engine.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "shop.orders", Columns: mapping.Columns{mapping.Path("id", "id")}},
	}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustIngest(t, engine, "shop", mapping.JSON([]byte(`{"id":"a"}`)))
		modetest.Private(t, folder)
		must(t, engine.Flush(t.Context(), "shop"))
		modetest.Private(t, folder)
	}
	must(t, engine.Close())
	modetest.Private(t, folder)
}
