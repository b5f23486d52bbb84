package duckdb_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
)

// The statements that an erasure shows run, for names and texts that need quotes too.
func TestSQLRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	target := open(t, path, duckdb.Options{})
	table := driver.Table{ID: `in.c-"web"`, Columns: datatype.UntypedColumns(`a"`, "b")}
	f := buffertest.NewFile("file-1", table, []string{`O'Br\ien`, "x"}, []string{"ann", `hello O'BR\IEN there`}, []string{"bob", "y"})
	if err := target.Import(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	sql := target.SQL(table)
	for i, where := range []string{
		sql.Quote(`a"`) + " = " + sql.Text(`O'Br\ien`),
		sql.Contains(sql.Quote("b"), sql.Text(`o'br\ien`)),
	} {
		db := target.DB()
		if _, err := db.ExecContext(t.Context(), "DELETE FROM "+sql.Table+" WHERE "+where); err != nil {
			t.Fatalf("%s: got %v, want no error", where, err)
		}
		var left int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+sql.Table+" WHERE b <> 'x'").Scan(&left); err != nil || left != 2-i {
			t.Errorf("after %s there are %d rows, %v", where, left, err)
		}
	}
}
