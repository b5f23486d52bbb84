// Package refusedtest checks that rows which a table refuses are in the quarantine once, and all others in the table once, although
// processes are killed while they import.
package refusedtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/killtest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// Target is a target that is closed before another process opens its tables.
type Target interface {
	buffer.Target
	io.Closer
}

// Harness gives [Kills] what it needs.
type Harness struct {
	// Create makes the table sums in a folder. Its column id refuses the numbers whose remainder by 60 is 17 or 41. Its column n refuses
	// numbers that it has, and has 0 in a row with the id 0.
	Create func(t *testing.T, folder string)
	// Open opens the tables of the folder, also in other processes.
	Open func(folder string) (Target, error)
	// Database returns the database of the folder, whose target is open.
	Database func(t *testing.T, folder string, target Target) *sql.DB
	// Check and Unique are the reasons of the two refusals.
	Check, Unique string
	// Moment bounds how long after its start an import is killed.
	Moment time.Duration
}

const (
	sourceID = "shop"
	sinkID   = "sums"
)

// Kills kills a process that imports files with refused rows, as often as the environment variable FOREBAY_KILLS says, three times if it
// is not set, and never with -short. In that process, which runs the calling test alone, it does not return before the kill.
func Kills(t *testing.T, h Harness) {
	t.Helper()
	if folder, ok := killtest.Child(); ok {
		h.importUntilKilled(t, folder)
		return
	}
	kills := killtest.Count(t)
	if testing.Short() {
		kills = 0 // it starts no process
	}
	t.Logf("%d kills", kills)
	rng, folder := seedtest.Rand(t), t.TempDir()
	h.Create(t, folder)
	good, bad := []string{"0"}, []string(nil)
	for round := range kills + 1 {
		engine, target, err := h.open(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		recs, g, b := h.events((round + 1) * 60)
		if _, err := engine.IngestBatch(t.Context(), sourceID, recs); err != nil {
			t.Fatal(err)
		}
		good, bad = append(good, g...), append(bad, b...)
		if err := errors.Join(engine.Close(), target.Close()); err != nil {
			t.Fatal(err)
		}
		if round < kills {
			p := killtest.Start(t, t.Name(), folder)
			p.Lines(1+rng.IntN(2), time.Duration(rng.Int64N(int64(h.Moment))), func(string) {})
		}
	}
	engine, target, err := h.open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	defer engine.Close()
	if err := engine.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	Equal(t, "the table", ids(t, h.Database(t, folder, target)), good)
	Equal(t, "the quarantine", Kept(t, engine.Quarantine(sourceID, sinkID)), bad)
	if report, err := engine.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}

// open opens an engine. Its sink refuses records that cannot be mapped. Rows that its table refuses still go to its quarantine.
func (h Harness) open(ctx context.Context, folder string) (*forebay.Engine, Target, error) {
	target, err := h.Open(folder)
	if err != nil {
		return nil, nil, err
	}
	engine, err := forebay.Open(filepath.Join(folder, "engine"), forebay.Options{Target: target})
	if err != nil {
		return nil, nil, errors.Join(err, target.Close())
	}
	err = engine.Define(ctx, forebay.Source{ID: sourceID, Sinks: []forebay.Sink{{
		ID: sinkID, Table: forebay.Table{ID: "sums", Columns: mapping.Columns{
			mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("n", "n", mapping.DataType(datatype.Int64)),
		}},
	}}})
	if err != nil {
		return nil, nil, errors.Join(err, engine.Close(), target.Close())
	}
	return engine, target, nil
}

// events returns 60 events from one id on, the ids that the table takes, and the others with their reasons.
func (h Harness) events(from int) (recs []*mapping.Record, good, bad []string) {
	for id := from; id < from+60; id++ {
		n, reason := id, ""
		switch id % 60 {
		case 17, 41:
			reason = h.Check
		case 7, 42:
			n, reason = 0, h.Unique
		}
		if reason == "" {
			good = append(good, fmt.Sprint(id))
		} else {
			bad = append(bad, fmt.Sprint(id, " ", reason))
		}
		recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"id":%d,"n":%d}`, id, n)))
	}
	return recs, good, bad
}

// importUntilKilled is a process that imports what waits, reports it, and waits for its end.
func (h Harness) importUntilKilled(t *testing.T, folder string) {
	engine, _, err := h.open(context.Background(), folder)
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

func ids(t *testing.T, db *sql.DB) (all []string) {
	t.Helper()
	list, err := db.Query("SELECT id FROM sums")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for list.Next() {
		var id string
		if err := list.Scan(&id); err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Kept returns the values of the column id of all rows in a quarantine, each with the reason.
func Kept(t *testing.T, q forebay.SinkQuarantine) (kept []string) {
	t.Helper()
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
	return kept
}

// Equal demands that both lists have the same elements as often, in any order. It sorts them.
func Equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %d rows, want %d: %q, want %q", what, len(got), len(want), got, want)
	}
}
