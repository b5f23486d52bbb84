// Package erasetest kills processes that erase rows on their way to a target, and checks the table afterwards.
package erasetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

const (
	files        = 12
	rowsOfFile   = 300 // every third is of the person
	ofPerson     = files * rowsOfFile / 3
	killsOfRound = 3
	person       = "ada@example.com"
)

// Harness is the target under test.
type Harness struct {
	// Open opens the target with its data in a folder.
	Open func(t *testing.T, folder string) driver.Target
	// Rows returns the cells of [Columns] in the table "people". No process has the target open.
	Rows func(t *testing.T, folder string) [][]string
	// Moment is how long an erasure takes about. Default: 150 ms.
	Moment time.Duration
	// After gets the report of the last erasure, when the engine is closed. It may be nil.
	After func(t *testing.T, folder string, r forebay.EraseReport)
}

// Columns returns the columns of the table.
func Columns() []datatype.Column {
	return []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "email", Type: datatype.String}}
}

// staging gives no object to imports until it is up, so that files wait.
type staging struct {
	*dir.StagingDir
	up *atomic.Bool
}

func (s staging) Open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	if !s.up.Load() {
		return nil, errors.New("staging is down")
	}
	return s.StagingDir.Open(ctx, obj)
}

func (h Harness) open(t *testing.T, folder string, up *atomic.Bool) *forebay.Engine {
	t.Helper()
	e, err := forebay.Open(filepath.Join(folder, "data"), forebay.Options{
		Staging: staging{dir.Staging(filepath.Join(folder, "staging")), up}, Target: h.Open(t, folder), Buffer: buffer.Tuning{MemTableBytes: 1 << 20},
	})
	if err == nil {
		err = e.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "people", Table: forebay.Table{
			ID: "people", Columns: mapping.Columns{
				mapping.Path("n", "n", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("email", "email", mapping.DataType(datatype.String)),
			},
		}}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// fill stores rows in files that wait. The last one still gathers rows.
func (h Harness) fill(t *testing.T, folder string) {
	t.Helper()
	var up atomic.Bool
	e := h.open(t, folder, &up)
	for file := range files {
		var recs []*mapping.Record
		for i := range rowsOfFile {
			n := file*rowsOfFile + i
			recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"n":%d,"email":"%s@example.com"}`, n, []string{"ada", "bob", "eve"}[n%3])))
		}
		if _, err := e.IngestBatch(t.Context(), "web", recs); err != nil {
			t.Fatal(err)
		}
		if file < files-1 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_ = e.Flush(ctx, "web") // it closes the file
			cancel()
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// Kills kills a process again and again while it erases rows that wait. Each row of other people reaches the table once. Each row of the person is erased,
// or in the table because its import began before its erasure. None of the rows is in the table that a process has reported as erased.
func (h Harness) Kills(t *testing.T) {
	match := forebay.Match{Path: "email", Value: person, Wait: time.Minute}
	if folder, ok := proctest.Child(); ok {
		var up atomic.Bool
		e := h.open(t, folder, &up)
		fmt.Println("begin")
		up.Store(true)
		r, err := e.Erase(t.Context(), match)
		fmt.Println("erased", r.Erased(), err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		t.FailNow()
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	rounds, rng := proctest.Kills(t), seedtest.Rand(t)
	moment := h.Moment
	if moment == 0 {
		moment = 150 * time.Millisecond
	}
	within, erased := 0, int64(0)
	for round := range rounds {
		folder := t.TempDir()
		h.fill(t, folder)
		told := int64(0)
		for range killsOfRound {
			p := proctest.Start(t, t.Name(), folder)
			p.Lines(1, time.Duration(rng.Int64N(int64(moment))), func(line string) {
				var n int64
				if _, err := fmt.Sscanf(line, "erased %d", &n); err == nil {
					told += n
				}
			})
			if n := len(h.Rows(t, folder)); 0 < n && n < 2*ofPerson {
				within++
			}
		}
		var up atomic.Bool
		up.Store(true)
		e := h.open(t, folder, &up)
		r, err := e.Erase(t.Context(), match)
		if err == nil {
			err = e.FlushAll(t.Context())
		}
		if err != nil || r.Left() != 0 {
			t.Fatalf("round %d: %+v, %v", round, r, err)
		}
		told += r.Erased()
		if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
			t.Fatalf("round %d: verify: %+v, %v", round, report, err)
		}
		st := e.Stats().Sinks[0]
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		moved := h.check(t, folder)
		if st.Discarded.Rows+moved != ofPerson || st.Discarded.Rows < told || st.Poison.Rows != 0 {
			t.Errorf("round %d: %d rows were erased, of which processes have reported %d, %d are in the table and %d count as refused; want %d erased or in the table", round,
				st.Discarded.Rows, told, moved, st.Poison.Rows, ofPerson)
		}
		if h.After != nil {
			h.After(t, folder, r)
		}
		erased += st.Discarded.Rows
	}
	t.Logf("%d of %d rows were erased, %d of %d kills were while files were imported", erased, rounds*ofPerson, within, rounds*killsOfRound)
	if erased == 0 {
		t.Error("no row was erased before its import")
	}
	if within == 0 {
		seedtest.Missed(t, "no kill was while files were imported: change the number of rows")
	}
}

// check compares the rows of other people with the rows that were sent, and returns how many rows of the person the table has.
func (h Harness) check(t *testing.T, folder string) (moved int64) {
	t.Helper()
	var all []string
	for _, row := range h.Rows(t, folder) {
		all = append(all, row[0])
		if row[1] == person {
			moved++
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != len(all) || int64(n) != 2*ofPerson+moved {
		t.Fatalf("the table has %d rows, %d of them different and %d of the person, want %d of other people", len(all), n, moved, 2*ofPerson)
	}
	return moved
}
