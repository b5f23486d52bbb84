package forebay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/mapping"
)

func mustErase(t *testing.T, e *forebay.Engine, m forebay.Match) forebay.EraseReport {
	t.Helper()
	r, err := e.Erase(t.Context(), m)
	if err != nil {
		t.Fatalf("erase %+v: %v", m, err)
	}
	return r
}

// placeOf returns the place of a report, the zero value if it has none.
func placeOf(r forebay.EraseReport, place, name string) (found forebay.ErasedPlace) {
	for _, p := range r.Places {
		if p.Place == place && p.Name == name {
			return p
		}
	}
	return found
}

// bodiesIn returns the bodies of a quarantine and of an archive, as one text.
func bodiesIn(t *testing.T, e *forebay.Engine, archive forebay.Archive) string {
	t.Helper()
	var all strings.Builder
	for _, r := range rejectedOf(t, e, forebay.RejectedFilter{}) {
		c, err := e.Sink("web", "users").Quarantine().Get(t.Context(), r.ID)
		must(t, err)
		fmt.Fprintf(&all, "%s\n%s\n", c.Record.Body, c.Came)
	}
	all.WriteString(strings.ReplaceAll(objectText(t, archive, "web"), `""`, `"`))
	return all.String()
}

const (
	adaBad, adaGood = `{"user":{"name":"ada@example.com"}}`, `{"id":1,"user":{"name":"ada@example.com"}}`
	bobBad, bobGood = `{"user":{"name":"bob@example.com"}}`, `{"id":2,"user":{"name":"bob@example.com"}}`
)

// openPeople opens an engine whose quarantine and archive have two records of each of two people.
func openPeople(t *testing.T, change ...func(*forebay.Options)) (*forebay.Engine, *buffertest.Memory, *dir.ArchiveDir) {
	t.Helper()
	archive := dir.Archive(t.TempDir(), dir.ArchiveOptions{})
	e, mem := openArchive(t, archive, change...)
	mustDefine(t, e, events(keeping, archived, func(s *forebay.Source) { s.KeepHeaders = []string{"X-User"} }))
	for i, body := range []string{adaBad, bobBad, adaGood, bobGood} {
		rec := mapping.JSON([]byte(body))
		rec.Header = http.Header{"X-User": {[]string{"Ada", "Bob"}[i%2]}}
		mustIngest(t, e, "web", rec)
	}
	must(t, e.FlushAll(t.Context()))
	return e, mem, archive
}

// Each kind of condition erases the records of one person from quarantine and archive, and no other record. A dry run changes nothing.
func TestErase(t *testing.T) {
	for name, m := range map[string]forebay.Match{
		"path":     {Path: "user.name", Value: "ada@example.com"},
		"header":   {Header: "x-user", HeaderValue: "Ada"},
		"text":     {Text: "ADA@example.com"},
		"together": {Path: "user.name", Value: "ada@example.com", Header: "X-User", HeaderValue: "Ada", Text: "ada@", Sources: []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, archive := openPeople(t)
			before := bodiesIn(t, e, archive)
			dry := m
			dry.DryRun = true
			for _, m := range []forebay.Match{dry, m, m} {
				again := !dry.DryRun
				r := mustErase(t, e, m)
				q, a := placeOf(r, forebay.ErasedQuarantine, "web/users"), placeOf(r, forebay.ErasedArchive, "web")
				found, erased := int64(1), int64(1)
				if m.DryRun {
					erased = 0
				}
				if again {
					found, erased = 0, 0
				}
				if q.Found != found || q.Erased != erased || q.Left != found-erased {
					t.Errorf("the quarantine: %+v, want %d found and %d erased", q, found, erased)
				}
				if a.Found != 2*found || a.Erased != 2*erased || a.Left != 2*(found-erased) || a.Unreadable != 0 {
					t.Errorf("the archive: %+v, want %d found and %d erased", a, 2*found, 2*erased)
				}
				if r.Found() != 3*found || r.Erased() != 3*erased || r.Left() != 3*(found-erased) || r.DryRun != m.DryRun {
					t.Errorf("the report: %+v", r)
				}
				after := bodiesIn(t, e, archive)
				if m.DryRun && after != before {
					t.Errorf("a dry run has changed\n%s\nto\n%s", before, after)
				}
				if !m.DryRun && (strings.Contains(after, "ada") || strings.Count(after, "bob@example.com") != strings.Count(before, "bob@example.com")) {
					t.Errorf("after the erasure there is\n%s", after)
				}
				dry.DryRun = m.DryRun
			}
		})
	}
}

// A record that was edited is found by the original body, and a text is found within the escapes of JSON and of forms.
func TestEraseFindsWhatIsWrittenOtherwise(t *testing.T) {
	e, _, _ := openPeople(t)
	all := rejectedOf(t, e, forebay.RejectedFilter{})
	q := e.Sink("web", "users").Quarantine()
	must(t, q.Edit(t.Context(), all[0].ID, all[0].Revision, []byte(`{"id":1}`)))
	for _, body := range []string{
		`{"user":"` + `\u0061da\u0040ex\u0061mple.com"}`, `{"nested":"{\"user\":\"\\u0061da@example.com\"}"}`, `{"link":"https:\/\/h\/?u=ada%40example.com"}`, `{"note":"x\\ada@example.com"}`,
	} {
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	form := &mapping.Record{Body: []byte("user%5Bname%5D=ada%40example.com&x=%zz"), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}
	mustIngest(t, e, "web", form)
	r := mustErase(t, e, forebay.Match{Text: "ada@example.com"})
	if p := placeOf(r, forebay.ErasedQuarantine, "web/users"); p.Erased != 6 || p.Searched != 7 {
		t.Errorf("the quarantine: %+v, want 6 of 7 erased", p)
	}
	if left := rejectedOf(t, e, forebay.RejectedFilter{}); len(left) != 1 {
		t.Errorf("%d records are left, want the one of Bob", len(left))
	}
}

// A run that was interrupted continues after the erasure where it was. It skips no record of other people, and stores none of the
// person.
func TestEraseKeepsThePositionsOfReplays(t *testing.T) {
	archive := dir.Archive(t.TempDir(), dir.ArchiveOptions{})
	e, mem := openArchive(t, archive)
	mustDefine(t, e, events(archived, lenient))
	mustDefine(t, e, again())
	const records = 2000
	ingestN(t, e, 0, records)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := e.Sink("again", "rows").Replay(ctx, forebay.ReplayOptions{Run: "run", Archived: "web", Progress: func(p forebay.ReplayProgress) {
		if p.Records > 0 {
			cancel(stop)
		}
	}})
	if !errors.Is(err, stop) || p.Records == 0 || p.Records >= records {
		t.Fatalf("the run: %+v, %v", p, err)
	}
	before, after := 3, int(p.Records)+3 // on both sides of the position
	for _, n := range []int{before, after} {
		r := mustErase(t, e, forebay.Match{Path: "n", Value: fmt.Sprint(n), Sources: []string{"web"}})
		if p := placeOf(r, forebay.ErasedArchive, "web"); p.Erased != 1 {
			t.Fatalf("got %d: %+v, want p.Erased == 1", n, p)
		}
	}
	if p, err = e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "run", Archived: "web"}); err != nil || p.Stored != records-1 {
		t.Fatalf("the run goes on: %+v, %v, want %d rows", p, err, records-1)
	}
	if p, err = e.Sink("again", "rows").Replay(t.Context(), forebay.ReplayOptions{Run: "second", Archived: "web"}); err != nil || p.Stored != records-2 {
		t.Fatalf("the second run: %+v, %v, want %d rows", p, err, records-2)
	}
	must(t, e.FlushAll(t.Context()))
	count := map[string]int{}
	for _, row := range mem.Rows("in.c-again.rows") {
		count[row[0]]++
	}
	for n := range records {
		want := 2
		switch n {
		case before:
			want = 1
		case after:
			want = 0
		}
		if got := count[fmt.Sprint(n)]; got != want {
			t.Fatalf("record %d was stored %d times, want %d", n, got, want)
		}
	}
}

// While an archive is replayed nothing is erased, because the run has records in memory.
func TestEraseRefusesDuringAReplay(t *testing.T) {
	e, _, _ := openPeople(t)
	var once, dry error
	_, err := e.Sink("web", "raw").Replay(t.Context(), forebay.ReplayOptions{Run: "run", Progress: func(forebay.ReplayProgress) {
		_, once = e.Erase(t.Context(), forebay.Match{Text: "ada@example.com"})
		_, dry = e.Erase(t.Context(), forebay.Match{Text: "ada@example.com", DryRun: true})
	}})
	if err != nil || !errors.Is(once, forebay.ErrReplayRuns) || dry != nil {
		t.Errorf("during a replay: %v, a dry run %v, and the replay %v", once, dry, err)
	}
}

func TestMatchValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		m    forebay.Match
		want string
	}{
		"empty":         {forebay.Match{Sources: []string{"web"}}, "is empty"},
		"no value":      {forebay.Match{Path: "a"}, "Path and Value"},
		"no path":       {forebay.Match{Value: "a"}, "Path and Value"},
		"wrong path":    {forebay.Match{Path: "a[", Value: "x"}, "Match.Path"},
		"no header":     {forebay.Match{HeaderValue: "a"}, "Header and HeaderValue"},
		"short text":    {forebay.Match{Text: "ab"}, "records of other people"},
		"spaces":        {forebay.Match{Text: " a  "}, "records of other people"},
		"no letter":     {forebay.Match{Text: `":"`}, "records of other people"},
		"source":        {forebay.Match{Text: "abc", Sources: []string{"A B"}}, "Match.Sources"},
		"negative wait": {forebay.Match{Text: "abc", Wait: -1}, "Match.Wait"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, archive := openPeople(t)
			before := bodiesIn(t, e, archive)
			_, err := e.Erase(t.Context(), tt.m)
			if err == nil || !strings.Contains(err.Error(), tt.want) || bodiesIn(t, e, archive) != before {
				t.Errorf("got %+v: %v, want %q and nothing erased", tt.m, err, tt.want)
			}
		})
	}
	e, _, _ := openPeople(t)
	if _, err := e.Erase(t.Context(), forebay.Match{Text: "abc", Sources: []string{"wbe"}}); !errors.Is(err, forebay.ErrUnknownSource) {
		t.Errorf("an unknown source: %v", err)
	}
}

// The line in the log has no value of the match.
func TestEraseLog(t *testing.T) {
	var log bytes.Buffer
	e, _, _ := openPeople(t, func(o *forebay.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	m := forebay.Match{Path: "user.name", Value: "ada@example.com", By: "grace", Reason: "request 4711", DryRun: true}
	mustErase(t, e, m)
	if strings.Contains(log.String(), "erased") {
		t.Errorf("a dry run has logged\n%s", &log)
	}
	m.DryRun = false
	r := mustErase(t, e, m)
	var lines []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "msg=erased ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || strings.Contains(log.String(), "ada@") {
		t.Fatalf("the log has\n%s", &log)
	}
	for _, want := range []string{"match=" + r.Match, "found=3", "erased=3", "left=0", "by=grace", `reason="request 4711"`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("no %s in %s", want, lines[0])
		}
	}
}

// Raw records and rejected records of a removed source are erased too, and the records of another source are not if the match names its
// source.
func TestEraseOfRemovedSources(t *testing.T) {
	e, _, archive := openPeople(t)
	must(t, e.Remove(t.Context(), "web"))
	mustDefine(t, e, again(archived))
	mustIngest(t, e, "again", mapping.JSON([]byte(`{"n":"ada@example.com"}`)))
	r := mustErase(t, e, forebay.Match{Text: "ada@example.com", Sources: []string{"web"}})
	if r.Erased() != 3 || strings.Contains(objectText(t, archive, "web"), "ada@") {
		t.Errorf("the removed source: %+v", r)
	}
	must(t, e.Flush(t.Context(), "again"))
	if !strings.Contains(objectText(t, archive, "again"), "ada@") {
		t.Error("the record of a source that the match does not name is erased")
	}
}

// An archive that cannot replace its objects keeps them, and the error and the report say so. The other places are done.
func TestEraseWithAnArchiveThatCannotReplace(t *testing.T) {
	root := t.TempDir()
	e, _ := openArchive(t, struct{ forebay.Archive }{dir.Archive(root, dir.ArchiveOptions{})})
	mustDefine(t, e, events(keeping, archived))
	mustIngest(t, e, "web", mapping.JSON([]byte(adaBad)))
	must(t, e.FlushAll(t.Context()))
	r, err := e.Erase(t.Context(), forebay.Match{Text: "ada@example.com"})
	a := placeOf(r, forebay.ErasedArchive, "web")
	if err == nil || !strings.Contains(err.Error(), "cannot replace") || a.Found != 1 || a.Left != 1 || placeOf(r, forebay.ErasedQuarantine, "web/users").Erased != 1 {
		t.Errorf("got %+v, %v, want the archive's record left, the quarantine's erased, and an error that names the cause", r, err)
	}
}

// A disk that fails while an object is replaced leaves the old one, and the next call erases.
func TestEraseAfterAFailure(t *testing.T) {
	e, _ := openArchive(t, &failingReplace{ArchiveDir: dir.Archive(t.TempDir(), dir.ArchiveOptions{}), failures: 1})
	mustDefine(t, e, events(keeping, archived))
	for _, body := range []string{adaGood, bobGood} {
		mustIngest(t, e, "web", mapping.JSON([]byte(body)))
	}
	must(t, e.FlushAll(t.Context()))
	m := forebay.Match{Text: "ada@example.com"}
	if r, err := e.Erase(t.Context(), m); !errors.Is(err, errReplace) || r.Left() != 1 {
		t.Fatalf("got %+v, %v, want errors.Is(err, errReplace) and r.Left() == 1", r, err)
	}
	if r := mustErase(t, e, m); r.Erased() != 1 || r.Left() != 0 {
		t.Errorf("the next call: %+v", r)
	}
}

var errReplace = errors.New("the disk fails")

type failingReplace struct {
	*dir.ArchiveDir
	failures int
}

func (f *failingReplace) Replace(ctx context.Context, archive, object string, rows io.Reader) error {
	if f.failures--; f.failures < 0 {
		return f.ArchiveDir.Replace(ctx, archive, object, rows)
	}
	return f.ArchiveDir.Replace(ctx, archive, object, io.MultiReader(io.LimitReader(rows, 40), failingReader{}))
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errReplace }

// The copies that a data directory has are listed with their times.
func TestEraseListsCopies(t *testing.T) {
	data := t.TempDir()
	mem := buffertest.NewMemory()
	e, err := forebay.Open(data, forebay.Options{Staging: mem, Target: mem})
	must(t, err)
	defer e.Close()
	before := time.Now().Add(-time.Minute)
	must(t, e.Checkpoint(t.Context(), data+"/checkpoints/one"))
	r := mustErase(t, e, forebay.Match{Text: "ada@example.com"})
	p := placeOf(r, forebay.ErasedCopy, "checkpoints/one")
	if p.Place == "" || p.At.Before(before) || !strings.Contains(p.Note, "Delete") {
		t.Errorf("got %+v, want p.Place != \"\" and !p.At.Before(before) and strings.Contains(p.Note, \"Delete\")", r.Places)
	}
	if !slices.IsSortedFunc(r.Places, func(a, b forebay.ErasedPlace) int { return strings.Compare(a.Place+a.Name, b.Place+b.Name) }) {
		t.Errorf("the places are not sorted: %+v", r.Places)
	}
}

// An object that cannot be read does not keep the others from being erased, and the error names it.
func TestEraseBesideADamagedObject(t *testing.T) {
	root := t.TempDir()
	e, _ := openArchive(t, dir.Archive(root, dir.ArchiveOptions{}))
	mustDefine(t, e, events(keeping, archived))
	for hour := range 3 {
		rec := mapping.JSON([]byte(adaGood))
		rec.Received = time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)
		mustIngest(t, e, "web", rec)
	}
	must(t, e.FlushAll(t.Context()))
	damaged, err := filepath.Glob(filepath.Join(root, "web", "2026-01-01T01", "*"))
	if err != nil || len(damaged) != 1 {
		t.Fatalf("got %q, %v, want no error and len(damaged) == 1", damaged, err)
	}
	must(t, os.WriteFile(damaged[0], []byte("no gzip"), 0o600))
	r, err := e.Erase(t.Context(), forebay.Match{Text: "ada@example.com"})
	if p := placeOf(r, forebay.ErasedArchive, "web"); err == nil || !strings.Contains(err.Error(), "2026-01-01T01") || p.Erased != 2 || !strings.Contains(p.Note, "not searched to its end") {
		t.Errorf("got %+v, %v, want 2 erased, and an error and a note about the object that cannot be read", p, err)
	}
}

// A replay that begins during an erasure is refused because it could read an object before its record is erased.
func TestReplayIsRefusedDuringErase(t *testing.T) {
	var e *forebay.Engine
	var refused atomic.Bool
	archive := &hookedReplace{ArchiveDir: dir.Archive(t.TempDir(), dir.ArchiveOptions{}), hook: func() {
		_, err := e.Sink("web", "raw").Replay(context.Background(), forebay.ReplayOptions{Run: "run"})
		refused.Store(errors.Is(err, forebay.ErrEraseRuns))
	}}
	e, _ = openArchive(t, archive)
	mustDefine(t, e, events(archived))
	mustIngest(t, e, "web", mapping.JSON([]byte(adaGood)))
	if r := mustErase(t, e, forebay.Match{Text: "ada@example.com"}); placeOf(r, forebay.ErasedArchive, "web").Erased != 1 || !refused.Load() {
		t.Errorf("got %+v, and the replay was refused: %t, want 1 erased in the archive, and %v", r, refused.Load(), forebay.ErrEraseRuns)
	}
	if p, err := e.Sink("web", "raw").Replay(t.Context(), forebay.ReplayOptions{Run: "run"}); err != nil || p.Records != 0 {
		t.Errorf("afterwards: %+v, %v", p, err)
	}
}

type hookedReplace struct {
	*dir.ArchiveDir
	hook func()
}

func (h *hookedReplace) Replace(ctx context.Context, archive, object string, rows io.Reader) error {
	h.hook()
	return h.ArchiveDir.Replace(ctx, archive, object, rows)
}

// A text that is part of every time of arrival selects no row by it.
func TestEraseIgnoresTimesOfArrival(t *testing.T) {
	e, _ := waitingRows(t)
	r := mustErase(t, e, forebay.Match{Text: time.Now().UTC().Format("2006-01"), DryRun: true})
	if r.Found() != 0 {
		t.Errorf("got %+v, want r.Found() == 0", r)
	}
}

// The statement of a table compares the column of the path, and otherwise searches.
func TestEraseSQL(t *testing.T) {
	mem := buffertest.NewMemory()
	e, _ := openMemory(t, func(o *forebay.Options) { o.Target = sqlTarget{mem} })
	mustDefine(t, e, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "rows", Table: forebay.Table{ID: "t", Columns: mapping.Columns{
		mapping.UUID("uuid"), mapping.Datetime("at"), mapping.Path("user", "user.name", mapping.RawString()), mapping.Path("n", "n", mapping.DataType(datatype.Int64)),
		mapping.Path("doc", "doc", mapping.DataType(datatype.JSON)), mapping.Path("price", "price", mapping.DataType(datatype.Float64)),
	}}}}})
	for _, tt := range []struct {
		m     forebay.Match
		want  string
		exact bool
	}{
		{forebay.Match{Path: "n", Value: "007"}, ``, false},
		{forebay.Match{Path: "n", Value: "7"}, `DELETE FROM <t> WHERE <n> = '7';`, true},
		{forebay.Match{Path: "user.name", Value: "Ada"}, `DELETE FROM <t> WHERE (<user> = 'Ada' OR <user> = '"Ada"');`, true},
		{forebay.Match{Path: "doc", Value: "Ada"}, `DELETE FROM <t> WHERE <doc> has 'ada';`, false},
		{forebay.Match{Path: "email", Value: "Ada"}, `DELETE FROM <t> WHERE (<user> has 'ada' OR <n> has 'ada' OR <doc> has 'ada');`, false},
		{forebay.Match{Path: "doc", Value: `Zo"É`}, "DELETE FROM <t> WHERE (<doc> has 'zo\"é' OR <doc> has 'zo\\\"é' OR <doc> has 'zo\\\"\\u00e9' OR " +
			"<doc> has 'zo\"É' OR <doc> has 'zo\\\"É' OR <doc> has 'zo\\\"\\u00c9');", false},
		{forebay.Match{Text: "Ada", Path: "n", Value: "7"}, `DELETE FROM <t> WHERE <n> = '7' AND (<user> has 'ada' OR <n> has 'ada' OR <doc> has 'ada');`, false},
	} {
		tt.m.DryRun = true
		r := mustErase(t, e, tt.m)
		if len(r.Tables) != 1 || r.Tables[0].SQL != tt.want || r.Tables[0].Exact != tt.exact {
			t.Errorf("%+v:\ngot  %+v\nwant %s", tt.m, r.Tables, tt.want)
		}
	}
}

// A statement cannot tell the rows of one source from the rows of a different source in the same table, and says so.
func TestEraseSQLOfASharedTable(t *testing.T) {
	e, _ := openMemory(t, func(o *forebay.Options) { o.Target = sqlTarget{buffertest.NewMemory()} })
	for _, id := range []string{"one", "two"} {
		mustDefine(t, e, forebay.Source{ID: id, Sinks: []forebay.Sink{{ID: "rows", Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Path("user", "user", mapping.DataType(datatype.String)), mapping.Path("n", "n", mapping.DataType(datatype.Int64))}}}}})
	}
	r := mustErase(t, e, forebay.Match{Path: "user", Value: "Ada", Sources: []string{"one"}, DryRun: true})
	if len(r.Tables) != 1 || r.Tables[0].Exact || !strings.Contains(r.Tables[0].Note, "other sources too, which the statement does not tell apart: two.") {
		t.Errorf("got %+v, want one table with a statement that is not exact, and a note about the source two", r.Tables)
	}
	r = mustErase(t, e, forebay.Match{Path: "user", Value: "Ada", DryRun: true})
	if len(r.Tables) != 2 || !r.Tables[0].Exact || r.Tables[0].Note != "" {
		t.Errorf("got %+v, want len(r.Tables) == 2 and r.Tables[0].Exact and r.Tables[0].Note == \"\"", r.Tables)
	}
}

type sqlTarget struct{ *buffertest.Memory }

func (sqlTarget) SQL(t driver.Table) driver.SQLSyntax {
	return driver.SQLSyntax{
		Table: "<" + t.ID + ">", Quote: func(name string) string { return "<" + name + ">" }, Text: func(text string) string { return "'" + text + "'" },
		Contains: func(column, literal string) string { return column + " has " + literal },
	}
}

// The key of a call as the only condition erases its receipts, durably, and a repeated call stores its record again.
func TestEraseKeyOfACall(t *testing.T) {
	dir, mem := t.TempDir(), buffertest.NewMemory()
	e := openFolder(t, dir, forebay.Options{Target: mem})
	mustDefine(t, e, events())
	call := func(key string) {
		t.Helper()
		if _, err := e.IngestOnce(t.Context(), "web", forebay.Once{Key: key}, []*mapping.Record{mapping.JSON([]byte(bobGood))}); err != nil {
			t.Fatal(err)
		}
	}
	event, err := callkey.Event([]string{"a"})
	must(t, err)
	for _, key := range []string{"a", event, "b"} {
		call(key)
	}
	match := forebay.Match{Header: "idempotency-key", HeaderValue: "a", DryRun: true}
	if p := placeOf(mustErase(t, e, match), forebay.ErasedKeys, "web"); p.Found != 2 || p.Erased != 0 || p.Left != 2 {
		t.Errorf("a dry run: got %+v, want 2 found and left", p)
	}
	match.DryRun = false
	if p := placeOf(mustErase(t, e, match), forebay.ErasedKeys, "web"); p.Found != 2 || p.Erased != 2 || p.Left != 0 {
		t.Errorf("got %+v, want 2 found and erased", p)
	}
	copied := filepath.Join(dir, "checkpoints", "a")
	must(t, e.Checkpoint(t.Context(), copied))
	again := openFolder(t, copied, forebay.Options{Target: mem})
	for key, want := range map[string]int64{"a": 0, "b": 1} {
		r := mustErase(t, again, forebay.Match{Header: "Idempotency-Key", HeaderValue: key, DryRun: true})
		if got := placeOf(r, forebay.ErasedKeys, "web").Found; got != want {
			t.Errorf("got %d receipts of the key %q on disk, want %d", got, key, want)
		}
	}
	for _, key := range []string{"a", "b"} {
		call(key)
	}
	must(t, e.FlushAll(t.Context()))
	if rows := mem.Rows("in.c-web.users"); len(rows) != 4 {
		t.Errorf("the table has %d rows, want 4: one for each key, and the repetition of the key that was erased", len(rows))
	}
}

// The report says how many calls have keys, and until when they stay. The keys of the person's calls stay too, so a repeated call stores nothing.
func TestEraseKeepsTheKeysOfCalls(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	call := func(key, body string) {
		t.Helper()
		if _, err := e.IngestOnce(t.Context(), "web", forebay.Once{Key: key}, []*mapping.Record{mapping.JSON([]byte(body))}); err != nil {
			t.Fatal(err)
		}
	}
	call("a", adaGood)
	call("b", bobGood)
	r := mustErase(t, e, forebay.Match{Text: "ada@example.com"})
	note := placeOf(r, forebay.ErasedKeys, "").Note
	_, after, _ := strings.Cut(note, "The keys of 2 calls are known, and stay until ")
	text, _, _ := strings.Cut(after, " ")
	if until, err := time.Parse(time.RFC3339, text); err != nil || time.Until(until) < 24*time.Hour || time.Until(until) > 26*time.Hour {
		t.Errorf("the note is %q: %v", note, err)
	}
	call("a", adaGood)
	must(t, e.FlushAll(t.Context()))
	if rows := mem.Rows("in.c-web.users"); len(rows) != 1 || rows[0][1] != "bob@example.com" {
		t.Errorf("the table has %q", rows)
	}
}
