package postgres

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/forebay/forebay/internal/viewtest"
)

// The views of telemetry, and the queries of the page about it, work in PostgreSQL.
func TestTelemetryViews(t *testing.T) {
	for name, o := range map[string]Options{"json": {}, "jsonb": {JSONB: true}} {
		t.Run(name, func(t *testing.T) {
			target := open(t, o)
			db, err := sql.Open("pgx", server.URL(t))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			if _, err := db.Exec("SET search_path = " + quote(target.options.Schema)); err != nil {
				t.Fatal(err)
			}
			viewtest.Run(t, target, viewtest.SQL{DB: db}, viewtest.Where{Dialect: "postgresql", Schema: target.options.Schema})
		})
	}
}
