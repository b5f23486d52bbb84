package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/manytablestest"
)

// Thousands of tables in one file, where no table waits for all others.
func TestManyTables(t *testing.T) {
	manytablestest.Run(t, open(t, filepath.Join(t.TempDir(), "many.db"), sqlite.Options{}), func() int { return 0 }, 0)
}

// One row a second in each of many tables:
//
//	FOREBAY_TABLES=2000 FOREBAY_EVERY=1s go test -run '^TestManyTablesLoad$' -v .
func TestManyTablesLoad(t *testing.T) {
	manytablestest.Load(t, open(t, filepath.Join(t.TempDir(), "many.db"), sqlite.Options{}))
}

// Small files into many tables, one by one and together:
//
//	FOREBAY_TABLES=2000 go test -run '^TestManyTablesImports$' -v .
func TestManyTablesImports(t *testing.T) {
	manytablestest.Imports(t, open(t, filepath.Join(t.TempDir(), "many.db"), sqlite.Options{}))
}
