package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// A replay of an archive without any record is refused, so that a wrong name does not look like a success. It stores no run. The archive of a
// source that keeps its records may be empty, and a time range may have no records.
func TestReplayOfUnknownArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openArchive(t, dir.Archive(t.TempDir(), dir.ArchiveOptions{}))
		mustDefine(t, e, events(archived, lenient))
		mustDefine(t, e, again())
		replay := func(o forebay.ReplayOptions) error {
			o.Run = "r"
			p, err := e.Sink("again", "rows").Replay(t.Context(), o)
			if err == nil && (!p.Done() || p.Records != 0) {
				t.Errorf("a replay of %q without records gives %+v", o.Archived, p)
			}
			return err
		}
		for _, o := range []forebay.ReplayOptions{{Archived: "none"}, {Archived: "none", Generation: "g"}, {}} { // again keeps no records
			if err := replay(o); !errors.Is(err, forebay.ErrUnknownArchive) {
				t.Errorf("a replay of the archive %q: %v, want %v", o.Archived, err, forebay.ErrUnknownArchive)
			}
		}
		if runs, err := e.Sink("again", "rows").Replays(t.Context()); len(runs) != 0 || err != nil {
			t.Errorf("refused replays leave the runs %+v, %v", runs, err)
		}
		if err := replay(forebay.ReplayOptions{Archived: "web"}); err != nil {
			t.Errorf("a replay of an empty archive of a source that keeps its records: %v", err)
		}
		ingestN(t, e, 0, 10)
		must(t, e.FlushAll(t.Context()))
		must(t, e.Remove(t.Context(), "web"))
		p, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "late", Archived: "web", From: time.Now().Add(24 * time.Hour), To: time.Now().Add(48 * time.Hour)})
		if err != nil || p.Records != 0 {
			t.Errorf("a replay of a day without records, of a removed source: %+v, %v", p, err)
		}
	})
}

// A run stores each record once, however often it is called, and another run stores it again.
func TestReplayOfArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openArchive(t, dir.Archive(t.TempDir(), dir.ArchiveOptions{}))
		mustDefine(t, e, events(archived, lenient))
		ingestN(t, e, 0, 700)
		time.Sleep(90 * time.Minute)
		from := time.Now()
		ingestN(t, e, 700, 1300)
		time.Sleep(time.Minute)
		to := time.Now()
		ingestN(t, e, 1300, 1400)
		mustDefine(t, e, again())
		replay := func(o forebay.ReplayOptions) forebay.ReplayProgress {
			t.Helper()
			o.Archived = "web"
			p, err := e.Sink("again", "rows").Replay(t.Context(), o)
			must(t, err)
			must(t, e.FlushAll(t.Context()))
			return p
		}
		var seen []int64
		p := replay(forebay.ReplayOptions{Run: "part", From: from, To: to, Progress: func(p forebay.ReplayProgress) { seen = append(seen, p.Stored) }})
		if !p.Done() || p.Records != 600 || p.Stored != 600 || p.Rejected+p.Quarantined+p.Skipped+p.Gone != 0 {
			t.Errorf("got %+v, want a finished run with 600 stored records", p)
		}
		if len(seen) < 3 || !slices.IsSorted(seen) || seen[len(seen)-1] != 600 {
			t.Errorf("progress %v", seen)
		}
		wantN(t, mem, 700, 1300)
		if at := mem.Rows("in.c-again.rows")[0][1]; at != from.UTC().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("a row has the time %s, want %s", at, from)
		}
		if p2 := replay(forebay.ReplayOptions{Run: "part", From: from}); p2 != p {
			t.Errorf("the second call says %+v, the first %+v", p2, p)
		}
		wantN(t, mem, 700, 1300)
		if _, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "part", Archived: "web"}); !errors.Is(err, forebay.ErrOtherReplay) {
			t.Errorf("another time range: %v", err)
		}
		time.Sleep(time.Second)
		if p := replay(forebay.ReplayOptions{Run: "all"}); p.Stored != 1400 {
			t.Errorf("got %+v, want p.Stored == 1400", p)
		}
		if n := len(mem.Rows("in.c-again.rows")); n != 2000 {
			t.Errorf("got %d rows after a second run, want 2000", n)
		}
		all, err := e.Sink("again", "rows").Replays(t.Context())
		if err != nil || len(all) != 2 || all[0] != p {
			t.Errorf("runs %+v, %v", all, err)
		}
		if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
			t.Errorf("verify: %+v, %v", report, err)
		}
	})
}

// What the sink cannot map goes where live records go.
func TestReplayOfWhatDoesNotFit(t *testing.T) {
	e, _ := openArchive(t, dir.Archive(t.TempDir(), dir.ArchiveOptions{}))
	mustDefine(t, e, events(archived, lenient))
	ingestN(t, e, 0, 10)
	shadowed(t, e, `{"m":1}`, `{`, `{"n":3}`)
	for onReject, want := range map[forebay.OnReject]forebay.ReplayProgress{
		forebay.Refuse: {Records: 13, Stored: 11, Rejected: 2}, forebay.Quarantine: {Records: 13, Stored: 11, Quarantined: 2},
	} {
		id := fmt.Sprint("again", onReject)
		mustDefine(t, e, again(func(s *forebay.Source) { s.ID, s.Sinks[0].OnReject = id, onReject }))
		p, err := e.Sink(id, "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "r", Archived: "web"})
		if err != nil || p.Records != want.Records || p.Stored != want.Stored || p.Rejected != want.Rejected || p.Quarantined != want.Quarantined {
			t.Errorf("got %+v, %v, want %+v", p, err, want)
		}
		held := 0
		for r, err := range e.Sink(id, "rows").Quarantine().List(t.Context(), forebay.RejectedFilter{}) {
			if err != nil || r.Column != "n" {
				t.Errorf("got %+v, %v, want no error and r.Column == \"n\"", r, err)
			}
			held++
		}
		if held != int(want.Quarantined) {
			t.Errorf("the quarantine has %d records", held)
		}
	}
}

// A run keeps to its pace, and continues after its last commit when it was cancelled.
func TestReplayPaceAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openArchive(t, dir.Archive(t.TempDir(), dir.ArchiveOptions{}))
		mustDefine(t, e, events(archived, lenient))
		ingestN(t, e, 0, 1000)
		mustDefine(t, e, again())
		o := forebay.ReplayOptions{Run: "r", Archived: "web", RowsPerSecond: 100}
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 4200*time.Millisecond, enough)
		defer cancel()
		p, err := e.Sink("again", "rows").Replay(ctx, o)
		if !errors.Is(err, enough) || p.Stored < 350 || p.Stored > 500 || p.Done() {
			t.Fatalf("got %+v, %v, want 350 to 500 stored records of an unfinished run, %v", p, err, enough)
		}
		began := time.Now()
		rest := 1000 - p.Stored
		if p, err = e.Sink("again", "rows").Replay(t.Context(), o); err != nil || p.Stored != 1000 {
			t.Fatalf("got %+v, %v, want no error and p.Stored == 1000", p, err)
		}
		if took, want := time.Since(began), time.Duration(rest)*time.Second/100; took < want || took > want+time.Second {
			t.Errorf("%d rows took %v, want %v", rest, took, want)
		}
		must(t, e.FlushAll(t.Context()))
		wantN(t, mem, 0, 1000)
	})
}

// The machine stops in the middle of runs, with a part of the unsynced data. Each record becomes one row.
func TestReplaySurvivesCrashes(t *testing.T) {
	rng := seedtest.Rand(t)
	archive := dir.Archive(t.TempDir(), dir.ArchiveOptions{})
	disk := vfs.NewCrashableMem()
	staging := buffertest.NewMemory() // tables that a crash leaves as they are, and none is filled before the last opening
	on := func(o *forebay.Options) {
		o.Buffer, o.Staging = localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disk), staging
	}
	const records = 12000
	e, _ := openArchive(t, archive, on)
	mustDefine(t, e, events(archived, lenient))
	ingestN(t, e, 0, records)
	mustDefine(t, e, again())
	o := forebay.ReplayOptions{Run: "r", Archived: "web"}
	least := int64(0) // rows that were on the disk before the crash
	for crash := 0; ; crash++ {
		ctx, cancel := context.WithCancel(t.Context())
		after := make(chan *vfs.MemFS, 1)
		commits, stop, rest, crashes := 0, 1+rng.IntN(4), rng.IntN(1000), false
		options := o
		options.Progress = func(p forebay.ReplayProgress) {
			if p.Stored < least {
				t.Errorf("crash %d: the run went back from %d rows to %+v", crash, least, p)
			}
			if commits++; commits != stop || p.Done() {
				return
			}
			least, crashes = p.Stored, true
			go func() { // somewhere in the commits that follow
				for range rest {
					runtime.Gosched()
				}
				after <- disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
				cancel()
			}()
		}
		p, err := e.Sink("again", "rows").Replay(ctx, options)
		if !crashes {
			cancel()
			if err != nil || !p.Done() || p.Stored != records {
				t.Fatalf("got %+v, %v, want no error and p.Done() and p.Stored == %v", p, err, records)
			}
			if crash < 3 {
				t.Errorf("the run was over after %d crashes", crash)
			}
			break
		}
		next := <-after
		if err := e.Close(); err != nil { // its work after the crash is not on the disk that continues
			t.Fatal(err)
		}
		disk = next
		e, _ = openArchive(t, archive, on)
		mustDefine(t, e, events(archived, lenient))
		mustDefine(t, e, again())
	}
	must(t, e.Close())
	e, mem := openArchive(t, archive, on)
	must(t, e.FlushAll(t.Context()))
	wantN(t, mem, 0, records)
	if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// noisy is an archive whose objects can vanish and break.
type noisy struct {
	forebay.Archive
	open func(object string) (io.ReadCloser, error)
}

func (n noisy) Open(_ context.Context, _, object string) (io.ReadCloser, error) {
	return n.open(object)
}

func (n noisy) Objects(context.Context, string, time.Time, time.Time) ([]string, error) {
	return []string{"1", "2", "3"}, nil
}

// A record that cannot be read stops the run before it. What the retention has removed is counted.
func TestReplayOfABrokenArchive(t *testing.T) {
	row := func(n int, version int) string {
		return fmt.Sprintf("\"2026-01-02T03:04:05.000000Z\",\"{\"\"v\"\":%d,\"\"format\"\":1,\"\"received\"\":\"\"2026-01-02T03:04:05Z\"\"}\",\"{\"\"n\"\":%d}\"\n", version, n)
	}
	objects := map[string]string{"1": row(0, 1), "3": row(1, 1) + row(2, 2) + row(3, 1)}
	archive := noisy{dir.Archive(t.TempDir(), dir.ArchiveOptions{}), func(object string) (io.ReadCloser, error) {
		if text, ok := objects[object]; ok {
			return io.NopCloser(strings.NewReader("\"received\",\"head\",\"body\"\n" + text)), nil
		}
		return nil, os.ErrNotExist
	}}
	e, mem := openArchive(t, archive)
	mustDefine(t, e, again())
	for range 2 {
		p, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "r"})
		if err == nil || !strings.Contains(err.Error(), "object 3 of the archive, record 1: the row has version 2") || p.Stored != 2 || p.Gone != 1 || p.Done() {
			t.Errorf("got %+v, %v, want 2 stored, 1 gone, and an error about record 1 of object 3", p, err)
		}
	}
	objects["3"] = row(1, 1) + row(2, 1) + row(3, 1)
	if p, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "r"}); err != nil || p.Stored != 4 || !p.Done() {
		t.Errorf("got %+v, %v, want no error and p.Stored == 4 and p.Done()", p, err)
	}
	must(t, e.FlushAll(t.Context()))
	wantN(t, mem, 0, 4)
}

// A commit that fails takes the position back. Its records are mapped again, and its rejected records are counted once, when the commit
// is on disk.
func TestReplayBehindAFailedCommit(t *testing.T) {
	body := strings.Repeat(" ", 2<<20)
	archive := noisy{dir.Archive(t.TempDir(), dir.ArchiveOptions{}), func(object string) (io.ReadCloser, error) {
		text := "\"received\",\"head\",\"body\"\n"
		text += "\"2026-01-02T03:04:05.000000Z\",\"{\"\"v\"\":1,\"\"format\"\":1,\"\"received\"\":\"\"2026-01-02T03:04:05Z\"\"}\",\"{}\"\n"
		for n := range 3 {
			text += fmt.Sprintf("\"2026-01-02T03:04:05.000000Z\",\"{\"\"v\"\":1,\"\"format\"\":1,\"\"received\"\":\"\"2026-01-02T03:04:05Z\"\"}\",\"{\"\"n\"\":%s%d,\"\"text\"\":\"\"%s\"\"}\"\n", object, n, body)
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}}
	e, mem := openArchive(t, archive, func(o *forebay.Options) { o.MaxRowBytes, o.Buffer.MaxPendingBytes = 4<<20, 1<<20 })
	mustDefine(t, e, again(func(s *forebay.Source) {
		s.Sinks[0].Table.Columns = append(s.Sinks[0].Table.Columns, mapping.Path("text", "text"))
	}))
	rejected := func(want int64) {
		t.Helper()
		for _, s := range e.Stats().Sinks {
			if n := s.Rejected["missingValue"]; s.Source == "again" && n != want {
				t.Errorf("%d records were rejected, want %d", n, want)
			}
		}
	}
	for range 2 {
		p, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "r"})
		rejected(0)
		if tooLarge := (*buffer.TooLargeError)(nil); !errors.As(err, &tooLarge) || p.Records != 0 || p.Row != 0 {
			t.Errorf("rows that have no room: %+v, %v", p, err)
		}
	}
	body = ""
	if p, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "r"}); err != nil || p.Stored != 9 || p.Rejected != 3 || !p.Done() {
		t.Errorf("got %+v, %v, want a finished run with 9 stored and 3 rejected records, no error", p, err)
	}
	rejected(3)
	must(t, e.FlushAll(t.Context()))
	if n := len(mem.Rows("in.c-again.rows")); n != 9 {
		t.Errorf("the table has %d rows, want 9", n)
	}
}

// A sink remembers 16 runs. The oldest that is done makes room, and one that is not done is never forgotten.
func TestReplayRunsAreBounded(t *testing.T) {
	e, _ := openArchive(t, dir.Archive(t.TempDir(), dir.ArchiveOptions{}))
	mustDefine(t, e, again(archived))
	run := func(name string, o forebay.ReplayOptions) error {
		o.Run = name
		_, err := e.Sink("again", "rows").Replay(t.Context(), o)
		return err
	}
	for i := range 20 {
		must(t, run(fmt.Sprint("done", i), forebay.ReplayOptions{}))
	}
	all, err := e.Sink("again", "rows").Replays(t.Context())
	if err != nil || len(all) != 16 || all[0].Run != "done4" || all[15].Run != "done19" {
		t.Errorf("got %d runs, %v, want 16 from done4 to done19, no error", len(all), err)
	}
	for i := range 16 {
		o := forebay.ReplayOptions{Run: fmt.Sprint("open", i)}
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(forebay.ReplayProgress) { cancel() }
		if p, err := e.Sink("again", "rows").Replay(ctx, o); err == nil || p.Done() {
			t.Fatalf("got %+v, %v, want an error and !p.Done()", p, err)
		}
	}
	if err := run("more", forebay.ReplayOptions{}); !errors.Is(err, buffer.ErrTooManyPositions) {
		t.Errorf("a 17th run: %v", err)
	}
	must(t, e.Sink("again", "rows").ForgetReplay(t.Context(), "open3"))
	if err := run("more", forebay.ReplayOptions{}); err != nil {
		t.Error(err)
	}
}

// The run that ended first is forgotten first, because the caller of a long run that ended last may not have heard of its end.
func TestLongReplayIsNotForgottenFirst(t *testing.T) {
	e, _ := openArchive(t, dir.Archive(t.TempDir(), dir.ArchiveOptions{}))
	mustDefine(t, e, again(archived))
	sink := e.Sink("again", "rows")
	ctx, cancel := context.WithCancel(t.Context())
	if p, err := sink.Replay(ctx, forebay.ReplayOptions{Run: "long", Progress: func(forebay.ReplayProgress) { cancel() }}); err == nil || p.Done() {
		t.Fatalf("got %+v, %v, want a run that is not done", p, err)
	}
	run := func(name string) {
		t.Helper()
		if _, err := sink.Replay(t.Context(), forebay.ReplayOptions{Run: name}); err != nil {
			t.Fatalf("run %q: got %v, want no error", name, err)
		}
	}
	for i := range 15 {
		run(fmt.Sprint("done", i))
	}
	run("long")
	run("more")
	all, err := sink.Replays(t.Context())
	var names []string
	for _, p := range all {
		names = append(names, p.Run)
	}
	if err != nil || len(names) != 16 || !slices.Contains(names, "long") || slices.Contains(names, "done0") {
		t.Errorf("got the runs %q, %v, want 16 with long and without done0", names, err)
	}
}

func TestReplayRefuses(t *testing.T) {
	archive := dir.Archive(t.TempDir(), dir.ArchiveOptions{})
	e, _ := openArchive(t, archive)
	plain, _ := openMemory(t)
	if err := plain.Define(t.Context(), again(archived)); err == nil || !strings.Contains(err.Error(), "has no archive") {
		t.Errorf("a source with an archive that the engine does not have: %v", err)
	}
	mustDefine(t, e, again(archived))
	mustDefine(t, plain, again())
	if _, err := plain.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "r"}); err == nil {
		t.Error("an engine without an archive replays")
	}
	for want, try := range map[error][2]string{
		forebay.ErrUnknownSource: {"none", "rows"}, forebay.ErrUnknownSink: {"again", forebay.ArchiveSink},
	} {
		if _, err := e.Sink(try[0], try[1]).Replay(t.Context(), forebay.ReplayOptions{Run: "r"}); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want errors.Is(err, want)", try, err)
		}
	}
	err := forebay.ReplayOptions{Archived: "A", From: time.Unix(2, 0), To: time.Unix(1, 0), RowsPerSecond: -1}.Validate()
	for _, field := range []string{"Run", "Archived", "To", "RowsPerSecond"} {
		if err == nil || !strings.Contains(err.Error(), "ReplayOptions."+field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	inside := false
	_, err = e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "r", Progress: func(forebay.ReplayProgress) {
		if inside {
			return
		}
		inside = true
		if _, err := e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "r"}); !errors.Is(err, forebay.ErrReplayRuns) {
			t.Errorf("a second call: %v", err)
		}
	}})
	if err != nil || !inside {
		t.Error(err)
	}
}

// A run that another engine has, or may have, does not begin here, and leaves nothing. It is in progress here while others are asked. A run of this
// engine continues without a question, so that it does not depend on other engines.
func TestReplayElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *forebay.Engine
		elsewhere, asked := true, 0
		e, mem := openArchive(t, dir.Archive(t.TempDir(), dir.ArchiveOptions{}), func(o *forebay.Options) {
			o.ReplayElsewhere = func(ctx context.Context, source, sink, run string) error {
				asked++
				if has, err := e.Sink(source, sink).HasReplay(ctx, run); err != nil || !has {
					t.Errorf("while others are asked: got %t, %v, want that the engine has the run", has, err)
				}
				if elsewhere {
					return forebay.ErrReplayElsewhere
				}
				return nil
			}
		})
		mustDefine(t, e, events(archived, lenient))
		ingestN(t, e, 0, 300)
		mustDefine(t, e, again())
		sink := e.Sink("again", "rows")
		replay := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := sink.Replay(ctx, forebay.ReplayOptions{Run: "r", Archived: "web", RowsPerSecond: 100})
			return err
		}
		if err := replay(); !errors.Is(err, forebay.ErrReplayElsewhere) {
			t.Errorf("a run of another engine: got %v, want ErrReplayElsewhere", err)
		}
		if has, err := sink.HasReplay(t.Context(), "r"); err != nil || has {
			t.Errorf("after the refusal: got %t, %v, want that the engine does not have the run", has, err)
		}
		elsewhere = false
		if err := replay(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a new run: got %v, want that it is not done in time", err)
		}
		elsewhere = true
		if err := replay(); err != nil {
			t.Errorf("the run continues: got %v, want no error", err)
		}
		if asked != 2 {
			t.Errorf("others were asked %d times, want 2", asked)
		}
		if err := e.FlushAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantN(t, mem, 0, 300)
	})
}
