package iceberg

import (
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// The query to copy gives the latest rows first, if the table has a time, and has an order in any case.
func TestQueryHasAnOrder(t *testing.T) {
	target := New(nil, Options{})
	columns := []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: `re"ceived`, Type: datatype.Timestamp}}
	for want, table := range map[string]driver.Table{
		`SELECT * FROM "forebay"."events" ORDER BY "n" DESC NULLS LAST LIMIT 20`:          {ID: "events", Columns: columns[:1]},
		`SELECT * FROM "forebay"."events" ORDER BY "re""ceived" DESC NULLS LAST LIMIT 20`: {ID: "events", Columns: columns},
	} {
		if language, got := target.Query(table); got != want || language != "SQL" {
			t.Errorf("%s: got %s, want %s", language, got, want)
		}
	}
}
