package sqlite_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/mapping"
)

// An engine rejects what SQLite would change when the event arrives, so that no file is held by it.
func TestLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	engine, err := forebay.Open(t.TempDir(), forebay.Options{Target: open(t, path, sqlite.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	err = engine.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{
		ID: "orders", Columns: mapping.Columns{
			mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
			mapping.Path("x", "x", mapping.DataType(datatype.Float64)),
		},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]mapping.Reason{
		`{"id":1,"x":1.5}`: 0, `{"id":2,"x":null}`: 0, `{"id":3,"x":"NaN"}`: mapping.NotFinite, `{"id":4,"x":"-Infinity"}`: mapping.NotFinite,
	} {
		_, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(body)))
		var fault *mapping.Error
		if errors.As(err, &fault) != (want != 0) || fault != nil && fault.Reason != want {
			t.Errorf("%s: error %v, want reason %v", body, err, want)
		}
	}
	if err := engine.FlushAll(t.Context()); err != nil {
		t.Error(err)
	}
	got := rows(t, path, "orders")
	slices.SortFunc(got, slices.Compare)
	if want := [][]string{{"1", "1.5"}, {"2", buffertest.Null}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the table has %q, want %q", got, want)
	}
}
