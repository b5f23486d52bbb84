package postgres

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/refusedtest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// The server is killed while files with rows that it refuses are imported, such as a number or text that does not fit the table, or a row that breaks
// a check. Each row is in the table once, or in the quarantine once with its code.
func TestKillsOfTheServerWithRefusedRows(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts the server")
	}
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	target := open(t, Options{})
	exec(t, target, `CREATE TABLE sums (id bigint NOT NULL CHECK (id % 97 <> 5), n bigint CHECK (n::smallint IS NOT NULL), raw varchar(9))`)
	engine, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	err = engine.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "sums", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "sums", Columns: mapping.Columns{
			mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("n", "n", mapping.DataType(datatype.Int64)),
			mapping.Path("raw", "raw", mapping.RawString()),
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var good, bad []string
	next := 0
	for range kills {
		var recs []*mapping.Record
		for range 60 {
			n, raw, reason := next%1000, "v", ""
			switch {
			case next%97 == 5:
				reason = "23514"
			case next%61 == 7:
				n, reason = 40_000+next, "22003"
			case next%89 == 11:
				raw, reason = "ten letters", "22001"
			}
			if reason == "" {
				good = append(good, fmt.Sprint(next))
			} else {
				bad = append(bad, fmt.Sprintf("%d %s", next, reason))
			}
			recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"id":%d,"n":%d,"raw":"%s"}`, next, n, raw)))
			next++
		}
		if _, err := engine.IngestBatch(t.Context(), "shop", recs); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- engine.Flush(t.Context(), "shop") }()
		want := 1 + rng.IntN(4) // ids that are ruled out or imported before the kill
		before := len(readTable(t, target.options.Schema, imports))
		ended := false
		for !ended && len(readTable(t, target.options.Schema, imports)) < before+want {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				ended = true
			default:
			}
		}
		server.Kill(t)
		server.Restart(t)
		if !ended {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	for _, row := range readTable(t, target.options.Schema, "sums") {
		got = append(got, row[0])
	}
	refusedtest.Equal(t, "the table", got, good)
	refusedtest.Equal(t, "the quarantine", refusedtest.Kept(t, engine.Sink("shop", "sums").Quarantine()), bad)
	report, err := engine.Verify(t.Context())
	for tries := 0; err != nil && tries < 100; tries++ { // each connection that the last kill has broken fails once
		report, err = engine.Verify(t.Context())
	}
	if err != nil || !report.OK() {
		t.Errorf("got %+v, %v, want no error and report.OK()", report, err)
	}
}

// The process of the engine is killed while it imports files with rows that the server refuses. Each row is in the table once, or once in the
// quarantine with its code.
func TestKillsWithRefusedRows(t *testing.T) {
	at := func(folder string) (address, schema string) {
		text, _ := os.ReadFile(filepath.Join(folder, "server"))
		address, schema, _ = strings.Cut(string(text), "\n")
		return address, schema
	}
	refusedtest.Kills(t, refusedtest.Harness{
		Create: func(t *testing.T, folder string) {
			target := open(t, Options{})
			exec(t, target, `CREATE TABLE sums (id bigint NOT NULL CHECK (id % 60 <> 17 AND id % 60 <> 41), n bigint UNIQUE); INSERT INTO sums VALUES (0, 0)`)
			if err := os.WriteFile(filepath.Join(folder, "server"), []byte(server.URL(t)+"\n"+target.options.Schema), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		Open: func(folder string) (refusedtest.Target, error) {
			address, schema := at(folder)
			return Open(address, Options{Schema: schema})
		},
		Database: func(t *testing.T, folder string, _ refusedtest.Target) *sql.DB {
			address, schema := at(folder)
			config, err := pgx.ParseConfig(address)
			if err != nil {
				t.Fatal(err)
			}
			config.RuntimeParams["search_path"] = schema
			db := stdlib.OpenDB(*config)
			t.Cleanup(func() { _ = db.Close() })
			return db
		},
		Check: "23514", Unique: "23505", Moment: 150 * time.Millisecond,
	})
}
