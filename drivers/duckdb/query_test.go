package duckdb_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
)

// The query that users copy runs, even for a table whose name needs quotes.
func TestQueryRuns(t *testing.T) {
	target, err := duckdb.Open(filepath.Join(t.TempDir(), "events.duckdb"), duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	table := driver.Table{ID: `in.c-"web"`, Columns: datatype.UntypedColumns("a")}
	if err := target.Ensure(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	language, query := target.Query(table)
	rows, err := target.DB().QueryContext(t.Context(), query)
	if err != nil || language != "DuckDB" {
		t.Fatalf("%s: got %s: %v, want no error and language == \"DuckDB\"", language, query, err)
	}
	defer rows.Close()
	if rows.Next() || rows.Err() != nil {
		t.Errorf("the table has rows, or %v", rows.Err())
	}
}
