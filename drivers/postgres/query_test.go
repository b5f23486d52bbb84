package postgres

import (
	"strings"
	"testing"

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
	if language != "PostgreSQL" || query != `SELECT * FROM "a""b"."in.c-web.events" LIMIT 20` || strings.Contains(query, "hunter2") {
		t.Errorf("%s: %s", language, query)
	}
}
