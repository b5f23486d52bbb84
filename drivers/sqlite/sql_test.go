package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/mapping"
)

// The statements that an erasure shows run, for names and texts that need quotes too.
func TestSQLRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	drivertest.SQLRuns(t, tables(t, path, open(t, path, sqlite.Options{})), `in.c-"web"`, `a"`)
}

// The statement of an erasure finds a name however its letters are written: SQLite puts only the letters from A to Z in lower case, and a column with
// the body has the escapes of the sender.
func TestErasureFindsTheSpellingsOfAText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	target := open(t, path, sqlite.Options{})
	e, err := forebay.Open(t.TempDir(), forebay.Options{Target: target, Staging: buffertest.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "rows", Table: forebay.Table{ID: "people", Columns: mapping.Columns{
		mapping.Path("name", "name", mapping.DataType(datatype.String)), mapping.Body("body"),
	}}}}}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"name":"Élodie O\"Brien"}`, `{"name":"ÉLODIE O\"BRIEN"}`, `{"name":"élodie o\"brien"}`, `{"nick":"\u00c9lodie O\"Brien"}`, `{"nick":"\u00E9lodie O\"Brien"}`,
		`{"name":"Elodie O'Brien"}`,
	} {
		if _, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := e.Erase(t.Context(), forebay.Match{Text: `Élodie O"Brien`, DryRun: true})
	if err != nil || len(r.Tables) != 1 {
		t.Fatalf("got %+v %v, want no error and len(r.Tables) == 1", r, err)
	}
	db := database(t, path)
	if _, err := db.ExecContext(t.Context(), r.Tables[0].SQL); err != nil {
		t.Fatalf("%s: got %v, want no error", r.Tables[0].SQL, err)
	}
	var names string
	if err := db.QueryRowContext(t.Context(), "SELECT group_concat(body) FROM people").Scan(&names); err != nil || names != `{"name":"Elodie O'Brien"}` {
		t.Errorf("the table has %s, %v\nafter %s", names, err, r.Tables[0].SQL)
	}
}
