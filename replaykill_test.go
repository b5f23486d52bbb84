package forebay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

const (
	replayedRecords = 8000
	// One record of so many does not fit.
	replayedMisfits = 100
	// killsOfRun is how often a run is killed before it may end.
	killsOfRun = 7
	// A process is killed after at most as many lines.
	killedAfter = 3
)

// openReplayed opens an engine with a sink that replays the archive in a folder, and imports while it does.
func openReplayed(t *testing.T, archive, data string) *forebay.Engine {
	t.Helper()
	e, err := forebay.Open(data, forebay.Options{Archive: dir.Archive(archive, dir.ArchiveOptions{})})
	must(t, err)
	mustDefine(t, e, again(func(s *forebay.Source) {
		s.Sinks[0].OnReject = forebay.Quarantine
		s.Sinks[0].Table.Columns = mapping.Columns{mapping.Path("n", "n", mapping.DataType(datatype.Int64), mapping.Required())}
		s.Settings = forebay.Settings{Upload: trigger.Conditions{Count: 1000, Interval: time.Second, Size: 1 << 20}}
	}))
	return e
}

// replayUntilKilled prints how many records of the run are on disk, after each commit, and at the end for readers that wait for more lines.
func replayUntilKilled(t *testing.T, place string) {
	var p struct{ Archive, Data, Run string }
	must(t, json.Unmarshal([]byte(place), &p))
	e := openReplayed(t, p.Archive, p.Data)
	done, err := e.Sink("again", "rows").Replay(context.Background(), forebay.ReplayOptions{
		Run: p.Run, Archived: "web", Progress: func(p forebay.ReplayProgress) { fmt.Println(p.Records) },
	})
	for range killedAfter {
		fmt.Println(done.Records)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin) // it ends when this process is killed, or its parent has ended
	}
	fmt.Fprintln(os.Stderr, "the process that replays:", err)
	t.Fatal(err)
}

// A process is killed again and again while it replays an archive. What a run has reported stays done, and when it ends each record is in the table,
// or in the quarantine, once for each run.
func TestKillsDuringReplay(t *testing.T) {
	if place, ok := proctest.Child(); ok {
		replayUntilKilled(t, place)
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	runs := proctest.Kills(t)
	t.Logf("%d runs, %d kills", runs, runs*killsOfRun)
	rng := seedtest.Rand(t)
	archive, data := filepath.Join(t.TempDir(), "archive"), filepath.Join(t.TempDir(), "data")
	fillArchive(t, archive)
	var within int // kills after the first commit of a run and before its end
	for i := range runs {
		run := fmt.Sprintf("run-%d", i)
		place := proctest.JSON(map[string]string{"archive": archive, "data": data, "run": run})
		var reported int64
		for kill := range killsOfRun {
			p := proctest.Start(t, t.Name(), place)
			p.Lines(1+rng.IntN(killedAfter), time.Duration(rng.Int64N(int64(20*time.Millisecond))), func(line string) {
				var records int64
				if _, err := fmt.Sscan(line, &records); err != nil {
					t.Fatalf("%s, kill %d: got %q, %v, want a number of records", run, kill, line, err)
				}
				if records < reported {
					t.Fatalf("%s, kill %d: %d records are done, and %d had been before, want at least %v", run, kill, records, reported, reported)
				}
				reported = records
			})
			if 0 < reported && reported < replayedRecords {
				within++
			}
		}
		finishRun(t, archive, data, run, i+1)
	}
	t.Logf("%d kills within a run", within)
	if within == 0 {
		seedtest.Missed(t, "no kill was within a run: change the number of records")
	}
}

// fillArchive archives the records in several objects.
func fillArchive(t *testing.T, archive string) {
	t.Helper()
	e, err := forebay.Open(t.TempDir(), forebay.Options{Archive: dir.Archive(archive, dir.ArchiveOptions{})})
	must(t, err)
	mustDefine(t, e, events(archived, func(s *forebay.Source) { s.Sinks = nil }))
	for from := 0; from < replayedRecords; from += replayedRecords / 4 {
		var recs []*mapping.Record
		for n := from; n < from+replayedRecords/4; n++ {
			if body := fmt.Sprintf(`{"n":%d}`, n); n%replayedMisfits != 0 {
				recs = append(recs, mapping.JSON([]byte(body)))
			} else {
				recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"n":"%d "}`, n)))
			}
		}
		if _, err := e.IngestBatch(t.Context(), "web", recs); err != nil {
			t.Fatal(err)
		}
		must(t, e.Flush(t.Context(), "web"))
	}
	must(t, e.Close())
}

// finishRun ends a run, and checks what all runs have stored.
func finishRun(t *testing.T, archive, data, run string, runs int) {
	t.Helper()
	e := openReplayed(t, archive, data)
	p, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: run, Archived: "web"})
	const misfits = replayedRecords / replayedMisfits
	if err != nil || !p.Done() || p.Records != replayedRecords || p.Quarantined != misfits || p.Stored != replayedRecords-misfits {
		t.Fatalf("%s: got %+v, %v, want %d records and %d of them in the quarantine", run, p, err, replayedRecords, misfits)
	}
	must(t, e.FlushAll(t.Context()))
	if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
		t.Fatalf("%s: verify: got %+v, %v, want no problems", run, report, err)
	}
	count := make(map[string]int)
	for row, err := range dir.Tables(filepath.Join(data, "tables")).Rows("in.c-again.rows") {
		must(t, err)
		count[row[0]]++
	}
	q := e.Sink("again", "rows").Quarantine()
	for r, err := range q.List(t.Context(), forebay.RejectedFilter{}) {
		must(t, err)
		c, err := q.Get(t.Context(), r.ID)
		var body struct{ N string }
		if err == nil {
			err = json.Unmarshal(c.Record.Body, &body)
		}
		must(t, err)
		count[body.N]++
	}
	for n := range replayedRecords {
		key := fmt.Sprint(n)
		if n%replayedMisfits == 0 {
			key += " "
		}
		if count[key] != runs {
			t.Fatalf("after %d runs the record %q is there %d times", runs, key, count[key])
		}
	}
	must(t, e.Close())
}
