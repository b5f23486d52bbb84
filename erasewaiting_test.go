package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// waitingRows opens an engine with rows of two people on their way to two tables, in files that nothing has closed yet.
func waitingRows(t *testing.T, change ...func(*forebay.Options)) (*forebay.Engine, *buffertest.Memory) {
	t.Helper()
	e, mem := openMemory(t, change...)
	mustDefine(t, e, events())
	for i := range 30 {
		body := fmt.Sprintf(`{"id":%d,"user":{"name":"%s@example.com"}}`, i, []string{"ada", "bob", "eve"}[i%3])
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	return e, mem
}

func wantBalance(t *testing.T, e *forebay.Engine) {
	t.Helper()
	if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// Rows that wait never reach their table, and the other rows do, once. The ledger counts the erased rows as discarded.
func TestEraseWaitingRows(t *testing.T) {
	for name, m := range map[string]forebay.Match{
		"path": {Path: "user.name", Value: "ada@example.com"},
		"text": {Text: "Ada@example"},
	} {
		t.Run(name, func(t *testing.T) {
			e, mem := waitingRows(t)
			dry := m
			dry.DryRun = true
			r := mustErase(t, e, dry)
			for _, sink := range []string{"web/users", "web/raw"} {
				if p := placeOf(r, forebay.ErasedWaiting, sink); p.Found != 10 || p.Left != 10 || p.Searched != 30 {
					t.Errorf("a dry run: %+v", p)
				}
			}
			r = mustErase(t, e, m)
			for _, sink := range []string{"web/users", "web/raw"} {
				if p := placeOf(r, forebay.ErasedWaiting, sink); p.Found != 10 || p.Erased != 10 || p.Left != 0 || p.Moved != 0 || p.Note != "" {
					t.Errorf("got %+v, want 10 erased", p)
				}
			}
			must(t, e.FlushAll(t.Context()))
			for _, table := range []string{"in.c-web.users", "in.c-web.raw"} {
				rows := mem.Rows(table)
				if text := fmt.Sprint(rows); len(rows) != 20 || strings.Contains(text, "ada@") || strings.Count(text, "bob@") != 10 {
					t.Errorf("%s has %q", table, rows)
				}
			}
			for _, s := range e.Stats().Sinks {
				if s.Discarded.Rows != 10 || s.Poison.Rows != 0 || s.Target.Rows != 20 || s.Quarantine.Added != 0 {
					t.Errorf("%s/%s: got %d discarded, %d poison, %d imported, %d in the quarantine, want 10, 0, 20, 0", s.Source, s.Sink, s.Discarded.Rows, s.Poison.Rows, s.Target.Rows, s.Quarantine.Added)
				}
			}
			wantBalance(t, e)
		})
	}
}

// While the target does not respond, Erase returns after its wait and reports the waiting rows. The rows are left out when the target responds,
// even in a process that begins later. A second call marks nothing twice.
func TestEraseWhileTheTargetIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, mem := vfs.NewMem(), buffertest.NewMemory()
		var away atomic.Bool // imports are retried in the background while it changes
		away.Store(true)
		mem.Before = func(_ context.Context, call buffertest.Call) error {
			if away.Load() && (call.Op == buffertest.OpImport || call.Op == buffertest.OpVoid) {
				return errors.New("the database is down")
			}
			return nil
		}
		open := func() *forebay.Engine {
			e, _ := openMemory(t, func(o *forebay.Options) {
				o.Target, o.Staging, o.Buffer = mem, mem, localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disk)
			})
			return e
		}
		e := open()
		mustDefine(t, e, events())
		for i := range 6 {
			mustIngest(t, e, "web", mapping.JSON(fmt.Appendf(nil, `{"id":%d,"user":{"name":"%s"}}`, i, []string{"Ada L.", "Bob"}[i%2])))
		}
		begin := time.Now()
		for range 2 {
			r := mustErase(t, e, forebay.Match{Text: "Ada L.", Wait: time.Minute})
			p := placeOf(r, forebay.ErasedWaiting, "web/users")
			if p.Found != 3 || p.Erased != 0 || p.Left != 3 || !strings.Contains(p.Note, "the database is down") {
				t.Errorf("got %+v, want 3 found and left, none erased, and a note with the cause", p)
			}
		}
		if took := time.Since(begin); took > 3*time.Minute {
			t.Errorf("it took %s", took)
		}
		must(t, e.Close())
		e = open()
		mustDefine(t, e, events())
		away.Store(false)
		must(t, e.FlushAll(t.Context()))
		for _, table := range []string{"in.c-web.users", "in.c-web.raw"} {
			if rows := mem.Rows(table); len(rows) != 3 || strings.Contains(fmt.Sprint(rows), "Ada") {
				t.Errorf("%s has %q", table, rows)
			}
		}
		wantBalance(t, e)
		if r := mustErase(t, e, forebay.Match{Text: "Ada L."}); r.Found() != 0 {
			t.Errorf("afterwards: %+v", r)
		}
	})
}

// Where the rows of a table lack the field that the match names, the report says so.
func TestEraseOfRowsWithoutTheColumn(t *testing.T) {
	e, _ := waitingRows(t)
	for _, m := range []forebay.Match{{Path: "email", Value: "ada@example.com"}, {Header: "X-User", HeaderValue: "Ada"}} {
		m.DryRun = true
		r := mustErase(t, e, m)
		if p := placeOf(r, forebay.ErasedWaiting, "web/users"); p.Found != 0 || !strings.Contains(p.Note, "No column has the") {
			t.Errorf("got %+v: %+v, want p.Found == 0 and strings.Contains(p.Note, \"No column has the\")", m, p)
		}
	}
}

// Rows that the target refuses go to the quarantine, even if other rows of their file are erased, and an erased row that would be refused goes
// nowhere.
func TestEraseBesideRefusedRows(t *testing.T) {
	refused := func(row []string) bool { return strings.Contains(row[1], "eve") || row[0] == "3" } // 3 is of ada
	e, mem := openMemory(t)
	mem.Refuse = func(_ string, row []string) (why driver.RowError) {
		if refused(row) {
			why = driver.RowError{Column: "user", Reason: "odd", Message: "the target does not take it"}
		}
		return why
	}
	mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks = s.Sinks[:1] }))
	for i := range 30 {
		body := fmt.Sprintf(`{"id":%d,"user":{"name":"%s@example.com"}}`, i, []string{"ada", "bob", "eve"}[i%3])
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	r := mustErase(t, e, forebay.Match{Path: "user.name", Value: "ada@example.com"})
	if r.Erased() != 10 || r.Left() != 0 {
		t.Errorf("got %+v, want r.Erased() == 10 and r.Left() == 0", r)
	}
	must(t, e.FlushAll(t.Context()))
	if rows := mem.Rows("in.c-web.users"); len(rows) != 10 || strings.Contains(fmt.Sprint(rows), "ada") {
		t.Errorf("the table has %q", rows)
	}
	if held := rejectedOf(t, e, forebay.RejectedFilter{}); len(held) != 10 {
		t.Errorf("the quarantine has %d rows, want the 10 that the target refuses", len(held))
	}
	// The refused rows are of a person too. They have the columns of the table.
	r = mustErase(t, e, forebay.Match{Path: "user.name", Value: "eve@example.com"})
	if p := placeOf(r, forebay.ErasedQuarantine, "web/users"); p.Erased != 10 || len(rejectedOf(t, e, forebay.RejectedFilter{})) != 0 {
		t.Errorf("the quarantine: %+v", p)
	}
	wantBalance(t, e)
}

// A file of a sink that wants its files whole is imported without the erased rows too, because nothing is refused.
func TestEraseRowsOfWholeFiles(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events(keeping, func(s *forebay.Source) { s.Sinks[0].Quarantine.HoldFiles = true }))
	for _, body := range []string{adaGood, bobGood} {
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	r := mustErase(t, e, forebay.Match{Text: "ada@example.com"})
	if rows := mem.Rows("in.c-web.users"); r.Erased() != 2 || len(rows) != 1 || rows[0][1] != "bob@example.com" {
		t.Errorf("%+v, and the table has %q", r, rows)
	}
	wantBalance(t, e)
}

// The end of the context ends an erasure, and the imports that it holds continue.
func TestEraseIsCancelled(t *testing.T) {
	mem := buffertest.NewMemory()
	ctx, cancel := context.WithCancel(t.Context())
	var reads atomic.Int64
	mem.Before = func(_ context.Context, call buffertest.Call) error {
		if call.Op == buffertest.OpOpen {
			if reads.Add(1) == 1 {
				cancel()
			}
		}
		return nil
	}
	e, _ := openMemory(t, func(o *forebay.Options) { o.Target, o.Staging = mem, mem })
	mustDefine(t, e, events(func(s *forebay.Source) { s.Sinks = s.Sinks[:1] }))
	mustIngest(t, e, "web", mapping.JSON([]byte(adaGood)))
	if _, err := e.Erase(ctx, forebay.Match{Text: "ada@example.com"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the erasure: %v", err)
	}
	must(t, e.FlushAll(t.Context()))
	wantBalance(t, e)
}

// An erasure whose context has ended searches only a part, even if no place reports that. So it must not look like a success.
func TestEraseReportsAnEndedContext(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping))
	mustIngest(t, e, "web", mapping.JSON([]byte(adaGood)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := e.Erase(ctx, forebay.Match{Text: "ada@example.com"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got report %+v and error %v, want the error of the context", r, err)
	}
}

// A target without any optional interface gets the other rows alone.
func TestEraseWithAPlainTarget(t *testing.T) {
	mem := buffertest.NewMemory()
	e, _ := openMemory(t, func(o *forebay.Options) { o.Target, o.Staging = struct{ driver.Target }{mem}, mem })
	mustDefine(t, e, events())
	for _, body := range []string{adaGood, bobGood} {
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	r := mustErase(t, e, forebay.Match{Text: "ada@example.com"})
	if p := placeOf(r, forebay.ErasedWaiting, "web/users"); p.Found != 1 || p.Erased != 1 || p.Left != 0 || p.Note != "" {
		t.Errorf("got %+v, want 1 found and erased, none left, no note", p)
	}
	if rows := mem.Rows("in.c-web.users"); len(rows) != 1 || rows[0][1] != "bob@example.com" {
		t.Errorf("the table has %q", rows)
	}
	if i := slices.IndexFunc(r.Tables, func(t forebay.ErasedTable) bool { return t.Sink == "users" }); i < 0 || r.Tables[i].SQL != "" || r.Tables[i].Note == "" {
		t.Errorf("the tables: %+v", r.Tables)
	}
	wantBalance(t, e)
}

// Raw records that wait are imported into the archive first, so that they do not come after the erasure.
func TestEraseRawRecordsThatWait(t *testing.T) {
	archive := dir.Archive(t.TempDir(), dir.ArchiveOptions{})
	e, _ := openArchive(t, archive)
	mustDefine(t, e, events(archived, keeping))
	for _, body := range []string{adaGood, bobGood} {
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	dry := mustErase(t, e, forebay.Match{Text: "ada@example.com", DryRun: true})
	if p := placeOf(dry, forebay.ErasedWaiting, "web/.archive"); p.Found != 1 || p.Searched != 2 {
		t.Errorf("a dry run: %+v", dry.Places)
	}
	r := mustErase(t, e, forebay.Match{Text: "ada@example.com"})
	if p := placeOf(r, forebay.ErasedArchive, "web"); p.Erased != 1 {
		t.Errorf("got %+v, want p.Erased == 1", r.Places)
	}
	must(t, e.FlushAll(t.Context()))
	if text := objectText(t, archive, "web"); strings.Contains(text, "ada@") || strings.Count(text, "bob@") != 1 {
		t.Errorf("the archive has\n%s", text)
	}
}

// A file that arrives from another engine is not searched, even if no other row of its sink waits. The caller learns of it, and repeats the call.
func TestEraseWhileAFileArrives(t *testing.T) {
	staging := buffertest.NewMemory()
	var takes atomic.Pointer[[]string] // all but these ids: of files with all rows, which the engine repeats by itself, also before the erasure
	staging.Before = func(_ context.Context, call buffertest.Call) error {
		if but := takes.Load(); call.Op == buffertest.OpImport && (but == nil || slices.Contains(*but, call.ID)) {
			return driver.Permanent(errors.New("a column is missing"))
		}
		return nil
	}
	on := func(o *forebay.Options) { o.Staging, o.Target = staging, staging }
	first, _ := waitingRows(t, on)
	second, _ := openMemory(t, on)
	mustDefine(t, second, events())
	if err := first.FlushAll(t.Context()); err == nil {
		t.Fatal("the table takes the file")
	}
	moveFiles(t, first, second)
	ada := forebay.Match{Text: "ada@example"}
	if r, err := second.Erase(t.Context(), ada); !errors.Is(err, buffer.ErrFileMoves) {
		t.Errorf("Erase while files arrive: %+v, %v, want ErrFileMoves", r, err)
	}
	must(t, errors.Join(second.Buffer().Moves().EndArrival(t.Context(), "1st", true), first.Buffer().Moves().EndDeparture(t.Context(), true)))
	var whole []string
	for _, s := range second.Stats().Sinks {
		for _, f := range s.Files {
			whole = append(whole, f.ID)
		}
	}
	takes.Store(&whole)
	mustErase(t, second, ada)
	must(t, second.FlushAll(t.Context()))
	if rows := staging.Rows("in.c-web.users"); len(rows) != 20 || strings.Contains(fmt.Sprint(rows), "ada@") {
		t.Errorf("the table has %q", rows)
	}
	wantBalance(t, second)
}

// oneSink leaves the first sink.
func oneSink(s *forebay.Source) { s.Sinks = s.Sinks[:1] }

// An operator replays the quarantine during an erasure. The record was erased before, so it does not become a row that nobody searches.
func TestQuarantineReplayDuringErase(t *testing.T) {
	var e *forebay.Engine
	mem := buffertest.NewMemory()
	var once sync.Once
	mem.Before = func(ctx context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpOpen { // the rows that wait are searched
			once.Do(func() {
				if _, err := e.Sink("web", "users").Quarantine().ReplayAll(context.WithoutCancel(ctx), forebay.RejectedFilter{}); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	}
	e, _ = openMemory(t, func(o *forebay.Options) { o.Target, o.Staging = mem, mem })
	mustDefine(t, e, events(keeping, oneSink))
	_, _ = e.Ingest(t.Context(), "web", mapping.JSON([]byte(adaBad)))
	if n := len(rejectedOf(t, e, forebay.RejectedFilter{})); n != 1 {
		t.Fatalf("%d records are rejected, want 1", n)
	}
	mustDefine(t, e, events(keeping, lenient, oneSink)) // which imports the rows with the columns before
	mustIngest(t, e, "web", mapping.JSON([]byte(adaGood)))
	r := mustErase(t, e, forebay.Match{Text: "ada@example.com"})
	if p := placeOf(r, forebay.ErasedQuarantine, "web/users"); p.Found != 1 || p.Erased != 1 || p.Left != 0 {
		t.Errorf("the quarantine: %+v, want 1 erased", p)
	}
	must(t, e.FlushAll(t.Context()))
	if rows := mem.Rows("in.c-web.users"); len(rows) != 0 || r.Left() != 0 {
		t.Errorf("the table has %q, and %d are left", rows, r.Left())
	}
	wantBalance(t, e)
}

// An object in staging is damaged. The error names it, because its rows are not searched. When its rows count as damage, a report names it, because the
// object stays in staging.
func TestEraseReportsDamagedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		staging := t.TempDir()
		mem := buffertest.NewMemory()
		var down atomic.Bool
		down.Store(true)
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImport && down.Load() {
				return errors.New("the target is down")
			}
			return nil
		}
		e, _ := openMemory(t, func(o *forebay.Options) { o.Target, o.Staging = mem, dir.Staging(staging) })
		mustDefine(t, e, events(oneSink))
		mustIngest(t, e, "web", mapping.JSON([]byte(adaGood)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_ = e.FlushAll(ctx)
		cancel()
		objects, err := filepath.Glob(filepath.Join(staging, "*.slice"))
		if err != nil || len(objects) != 1 {
			t.Fatalf("staging has %q, %v", objects, err)
		}
		must(t, os.WriteFile(objects[0], []byte("no rows"), 0o600))
		slice := strings.TrimSuffix(filepath.Base(objects[0]), ".slice")
		r, err := e.Erase(t.Context(), forebay.Match{Text: "ada@example.com"})
		if err == nil || !strings.Contains(err.Error(), slice) {
			t.Errorf("Erase = %+v, %v, want an error that names %s", r, err, slice)
		}
		down.Store(false)
		must(t, e.FlushAll(t.Context()))
		r = mustErase(t, e, forebay.Match{Text: "ada@example.com"})
		if !slices.ContainsFunc(r.Places, func(p forebay.ErasedPlace) bool {
			return p.Place == forebay.ErasedDamage && strings.Contains(p.Note, slice)
		}) {
			t.Errorf("got %+v, want a place that names %s", r.Places, slice)
		}
		wantBalance(t, e)
	})
}

// moveFiles lets the files of an engine arrive at another engine, under the name "1st".
func moveFiles(t *testing.T, first, second *forebay.Engine) {
	t.Helper()
	files, err := first.Buffer().Moves().BeginDeparture(t.Context())
	for err != nil && t.Context().Err() == nil { // until all is in staging
		runtime.Gosched()
		files, err = first.Buffer().Moves().BeginDeparture(t.Context())
	}
	if n, err := second.Buffer().Moves().ReceiveFiles(t.Context(), first.Buffer(), buffer.Mover{Instance: "1st"}); err != nil || n != files || n == 0 {
		t.Fatalf("ReceiveFiles = %d, %v, want %d", n, err, files)
	}
}
