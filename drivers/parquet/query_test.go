package parquet_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
)

func TestQueryQuotesThePath(t *testing.T) {
	target, err := parquet.Tables("/data/it's", parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	language, query := target.Query(driver.Table{ID: "in.c-web.events"})
	if language != "DuckDB" || !strings.Contains(query, "read_parquet('/data/it''s/in.c-web.events/**/*.parquet'") {
		t.Errorf("got a query in %s, want DuckDB with an escaped path: %s", language, query)
	}
}
