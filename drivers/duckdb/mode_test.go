package duckdb_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/modetest"
)

// The database and its log are private while they are open, and after.
func TestFilesArePrivate(t *testing.T) {
	folder := t.TempDir()
	target := open(t, filepath.Join(folder, "a.db"), duckdb.Options{})
	for _, id := range []string{"first", "second"} {
		table := driver.Table{ID: "t", Columns: columns(datatype.String)}
		if err := target.Import(t.Context(), file(id, table, []string{id})); err != nil {
			t.Fatal(err)
		}
		modetest.Private(t, folder)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	modetest.Private(t, folder)
}
