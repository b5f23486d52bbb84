package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
)

// The query that users copy runs, even for a table whose name needs quotes.
func TestQueryRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	target := open(t, path, sqlite.Options{})
	table := driver.Table{ID: `in.c-"web"`, Columns: datatype.UntypedColumns("a")}
	if err := target.Ensure(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	language, query := target.Query(table)
	found, err := database(t, path).QueryContext(t.Context(), query)
	if err != nil || language != "SQLite" {
		t.Fatalf("%s: got %s: %v, want no error and language == \"SQLite\"", language, query, err)
	}
	defer found.Close()
	if _, shadowed := target.Query(driver.Table{ID: "t", Columns: datatype.UntypedColumns("RowID")}); !strings.HasSuffix(shadowed, " ORDER BY _rowid_ DESC LIMIT 20") {
		t.Errorf("with a column rowid: %s", shadowed)
	}
	if found.Next() || found.Err() != nil {
		t.Errorf("the table has rows, or %v", found.Err())
	}
}
