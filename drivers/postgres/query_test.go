package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/driver"
)

// The query names schema and table, quoted, and nothing of the connection.
func TestQueryHasNoPassword(t *testing.T) {
	target, err := Open("host=/nowhere user=u password=hunter2 dbname=db", Options{Schema: `a"b`})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	language, query := target.Query(driver.Table{ID: "in.c-web.events"})
	if language != "PostgreSQL" || !strings.HasPrefix(query, `SELECT * FROM "a""b"."in.c-web.events"`) || !strings.HasSuffix(query, " LIMIT 20") || strings.Contains(query, "hunter2") {
		t.Errorf("got a query in %s, want PostgreSQL, quoted names, 20 rows and no password: %s", language, query)
	}
}

// The query that people copy runs, for names that need quotes too. It gives the newest rows first, and reads the last blocks alone.
func TestQueryRuns(t *testing.T) {
	target := open(t, Options{})
	tbl := table(`it's \ "odd"`, idColumn)
	mustEnsure(t, target, tbl)
	exec(t, target, "INSERT INTO "+quote(tbl.ID)+" SELECT generate_series(1, 100000)")
	_, query := target.Query(tbl)
	rows, err := target.pool.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(ids) != 20 || ids[0] != 100_000 || ids[19] != 99_981 {
		t.Errorf("got ids %d, %v, want 20 from 100000 to 99981, no error", ids, err)
	}
	if rows, err = target.pool.Query(t.Context(), "EXPLAIN "+query); err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "Tid Range Scan") {
		t.Errorf("got %q, %v, want no error and strings.Contains(strings.Join(plan, \"\\n\"), \"Tid Range Scan\")", plan, err)
	}
}
