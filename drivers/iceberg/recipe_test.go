package iceberg_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// clicks is the source of the recipe in docs/recipes.md. One import is one commit and at least one data file for each day in it. A file of ten
// minutes or 256 MB is neither small nor late. Rows that wait are on local disk and in staging.
func clicks() forebay.Source {
	return forebay.Source{ID: "site", Settings: forebay.Settings{
		Sync:   forebay.SyncUnsafe, // a kill may lose the clicks of 50 ms
		Import: trigger.Conditions{Interval: 10 * time.Minute, Size: 256 << 20, Count: 5_000_000},
	}, Sinks: []forebay.Sink{{
		ID: "clicks",
		Table: forebay.Table{ID: "clicks", Extend: true, Columns: mapping.Columns{
			mapping.UUID("id", mapping.DataType(datatype.UUID)),
			mapping.Datetime("at", mapping.DataType(datatype.Timestamp)),
			mapping.Path("page", "page", mapping.DataType(datatype.String), mapping.Required()),
			mapping.Path("visitor", "visitor", mapping.DataType(datatype.String)),
		}},
	}}}
}

// lake is a table for each sink, split by the day of the click.
func lake(folder string) (*iceberg.Local, error) {
	return iceberg.Open(folder, iceberg.Options{PartitionBy: "at"})
}

// Thousands of clicks are one commit.
func TestRecipe(t *testing.T) {
	target, err := lake(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if err := eng.Define(t.Context(), clicks()); err != nil {
		t.Fatal(err)
	}
	const n = 3000
	for i := range n {
		click := mapping.JSON(fmt.Appendf(nil, `{"page":"/p/%d","visitor":"v%d"}`, i%10, i%70))
		if _, err := eng.Ingest(t.Context(), "site", click); err != nil {
			t.Fatal(err)
		}
	}
	if err := eng.Flush(t.Context(), "site"); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, target.Catalog(), "clicks"); len(rows) != n {
		t.Errorf("got %d rows, want %d", len(rows), n)
	}
	if commits := len(load(t, target.Catalog(), "clicks").Metadata().Snapshots()); commits != 1 {
		t.Errorf("got %d commits, want 1", commits)
	}
}
