package clickhouse

import (
	"testing"

	"github.com/forebay/forebay/datatype"
)

// The statements that an erasure shows run, for names and texts that need quotes too.
func TestSQLRuns(t *testing.T) {
	target := open(t, Options{})
	tbl := table(`it's "odd"`, col("a`\"", datatype.Untyped), col("b", datatype.Untyped))
	mustImport(t, target, newFile("file-1", tbl, []string{`O'Br\ien`, "x"}, []string{"ann", `hello O'BR\IEN there`}, []string{"bob", "y"}))
	sql := target.SQL(tbl)
	server.Exec(t, "DELETE FROM "+sql.Table+" WHERE "+sql.Quote("a`\"")+" = "+sql.Text(`O'Br\ien`))
	expectRows(t, target, tbl.ID, []string{"ann", `hello O'BR\IEN there`}, []string{"bob", "y"})
	server.Exec(t, "DELETE FROM "+sql.Table+" WHERE "+sql.Contains(sql.Quote("b"), sql.Text(`o'br\ien`)))
	expectRows(t, target, tbl.ID, []string{"bob", "y"})
}
