package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/forebay/forebay/internal/manytablestest"
)

// Thousands of tables in one database need no more connections than one.
func TestManyTables(t *testing.T) {
	target := openMany(t)
	manytablestest.Run(t, target, func() int { return int(target.pool.Stat().TotalConns()) }, 8)
}

// One row a second in each of many tables:
//
//	FOREBAY_TABLES=2000 FOREBAY_EVERY=1s go test -run '^TestManyTablesLoad$' -v .
func TestManyTablesLoad(t *testing.T) { manytablestest.Load(t, openMany(t)) }

// Small files into many tables, one by one and together:
//
//	FOREBAY_TABLES=2000 go test -run '^TestManyTablesImports$' -v .
func TestManyTablesImports(t *testing.T) { manytablestest.Imports(t, openMany(t)) }

// openMany opens a target whose tables are dropped some at a time.
func openMany(t *testing.T) *Target {
	target := open(t, Options{})
	t.Cleanup(func() { // one statement cannot hold the locks of all tables
		const some = 500
		for dropped := some; dropped == some; {
			err := target.pool.QueryRow(context.Background(), `SELECT count(*) FROM (SELECT 1 FROM pg_tables WHERE schemaname = $1 LIMIT $2) AS t`, target.options.Schema, some).Scan(&dropped)
			if err == nil {
				_, err = target.pool.Exec(context.Background(), fmt.Sprintf(`DO $$ DECLARE r record; BEGIN
					FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = '%s' LIMIT %d LOOP EXECUTE format('DROP TABLE %%I.%%I', '%[1]s', r.tablename); END LOOP; END $$`, target.options.Schema, some))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	return target
}
