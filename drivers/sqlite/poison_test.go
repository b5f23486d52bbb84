package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/killtest"
	"github.com/forebay/forebay/mapping"
)

// sumsSchema is a table that refuses some numbers, with a row.
const sumsSchema = `CREATE TABLE sums (id INTEGER NOT NULL CHECK (id % 60 <> 17 AND id % 60 <> 41), n INTEGER UNIQUE) STRICT; INSERT INTO sums VALUES (0, 0)`

// openSums opens an engine whose sink keeps the rows that its table refuses.
func openSums(ctx context.Context, folder string) (*forebay.Engine, *sqlite.Target, error) {
	target, err := sqlite.Open(filepath.Join(folder, "events.db"), sqlite.Options{LockTimeout: time.Minute})
	if err != nil {
		return nil, nil, err
	}
	engine, err := forebay.Open(filepath.Join(folder, "engine"), forebay.Options{Target: target})
	if err != nil {
		return nil, nil, errors.Join(err, target.Close())
	}
	err = engine.Define(ctx, forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "sums", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "sums", Columns: mapping.Columns{
			mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("n", "n", mapping.DataType(datatype.Int64)),
		}},
	}}})
	if err != nil {
		return nil, nil, errors.Join(err, engine.Close(), target.Close())
	}
	return engine, target, nil
}

// sums returns 60 events from one number on, the numbers that the table takes, and the others with the code of their refusal.
func sums(from int) (recs []*mapping.Record, good, bad []string) {
	for id := from; id < from+60; id++ {
		n, code := id, ""
		switch {
		case id%60 == 17, id%60 == 41:
			code = "275" // SQLITE_CONSTRAINT_CHECK
		case id%60 == 7, id%60 == 42:
			n, code = 0, "2067" // SQLITE_CONSTRAINT_UNIQUE: the row has it
		}
		if code == "" {
			good = append(good, fmt.Sprint(id))
		} else {
			bad = append(bad, fmt.Sprint(id, " ", code))
		}
		recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"id":%d,"n":%d}`, id, n)))
	}
	return recs, good, bad
}

// importUntilKilled is a process that imports what waits, reports it, and waits for its end.
func importUntilKilled(t *testing.T, folder string) {
	engine, _, err := openSums(context.Background(), folder)
	if err == nil {
		fmt.Println("open")
		err = engine.FlushAll(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the process that imports:", err)
		t.Fatal(err)
	}
	fmt.Println("imported")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A process is killed while it imports files with rows that the table refuses. Each row is in the table once, or once in the quarantine with its
// code.
func TestKillsWithRefusedRows(t *testing.T) {
	if folder, ok := killtest.Child(); ok {
		importUntilKilled(t, folder)
		return
	}
	kills, seed := killtest.Count(t), rand.Uint64()
	if testing.Short() {
		kills = 0 // it starts no process
	}
	t.Logf("%d kills, seed %d", kills, seed)
	rng, folder := rand.New(rand.NewPCG(seed, 0)), t.TempDir()
	path := filepath.Join(folder, "events.db")
	execute(t, path, sumsSchema)
	var good, bad []string
	for round := range kills + 1 {
		engine, target, err := openSums(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		recs, g, b := sums((round + 1) * 60)
		if _, err := engine.IngestBatch(t.Context(), "shop", recs); err != nil {
			t.Fatal(err)
		}
		good, bad = append(good, g...), append(bad, b...)
		if err := errors.Join(engine.Close(), target.Close()); err != nil {
			t.Fatal(err)
		}
		if round < kills {
			p := killtest.Start(t, t.Name(), folder)
			p.Lines(1+rng.IntN(2), time.Duration(rng.Int64N(int64(10*time.Millisecond))), func(string) {})
		}
	}
	engine, target, err := openSums(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	defer engine.Close()
	if err := engine.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got, kept []string
	list, err := database(t, path).Query("SELECT id FROM sums WHERE id > 0")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for list.Next() {
		var id string
		if err := list.Scan(&id); err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	q := engine.Quarantine("shop", "sums")
	for r, err := range q.List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		c, err := q.Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(string(c.Record.Body), `{"id":"`), `"`)
		kept = append(kept, id+" "+r.Reason)
	}
	for _, list := range [][]string{got, good, kept, bad} {
		slices.Sort(list)
	}
	if !slices.Equal(got, good) {
		t.Errorf("the table has %q, want %q", got, good)
	}
	if !slices.Equal(kept, bad) {
		t.Errorf("the quarantine has %q, want %q", kept, bad)
	}
	if report, err := engine.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}
