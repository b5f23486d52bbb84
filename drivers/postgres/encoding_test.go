package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/mapping"
)

// A database in LATIN1 cannot store an emoji. The row goes to the quarantine, and its neighbours are imported.
func TestEmojiInALatin1Database(t *testing.T) {
	url := strings.Replace(server.URL(t), "dbname=postgres", "dbname=latin1", 1)
	admin := server.Connect(t)
	pgtest.Exec(t, admin, "CREATE DATABASE latin1 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	t.Cleanup(func() { pgtest.Exec(t, server.Connect(t), "DROP DATABASE latin1 WITH (FORCE)") })
	target, err := Open(url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	engine, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	err = engine.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "events", Table: forebay.Table{ID: "events", Columns: mapping.Columns{mapping.Path("text", "text", mapping.RawString())}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"before", "é", "\U0001F600", "after"} {
		if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"text":"`+text+`"}`))); err != nil {
			t.Fatalf("Ingest(%q) = %v", text, err)
		}
	}
	if err := engine.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var texts string
	err = target.pool.QueryRow(context.Background(), "SELECT string_agg(text, ' ' ORDER BY ctid) FROM events").Scan(&texts)
	if err != nil || texts != "before é after" {
		t.Errorf("the table has %q, %v, want the rows but for the emoji", texts, err)
	}
	if s := engine.Stats().Sinks[0]; s.Poison.Rows != 1 {
		t.Errorf("%d rows were refused, want 1: %+v", s.Poison.Rows, s)
	}
}
