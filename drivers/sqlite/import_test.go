package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/drivertest"
)

// file returns a file of one plain slice.
func file(id string, table driver.Table, rows ...[]string) *driver.File {
	return drivertest.OneSlice(id, table, rows...)
}

func columns(of ...datatype.Type) (list []datatype.Column) {
	for i, typ := range of {
		list = append(list, datatype.Column{Name: fmt.Sprintf("c%d", i), Type: typ})
	}
	return list
}

// The values of each type as SQL sees them, read by the library and, if it is installed, by the program sqlite3.
func TestTypes(t *testing.T) {
	table := driver.Table{ID: "t", Columns: columns(datatype.Untyped, datatype.String, datatype.Bool, datatype.Int64, datatype.Float64,
		datatype.Decimal(38, 4), datatype.Timestamp, datatype.Date, datatype.UUID, datatype.JSON, datatype.Bytes)}
	row := []string{
		"a\x00\xff", "", "true", "-9223372036854775808", "1e-7", "-9999999999999999999999999999999999.9999", "2026-11-22T07:47:19.000001Z",
		"2026-11-22", "0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b", `{"a":"null"}`, "AAH/",
	}
	nulls := slices.Repeat([]string{buffertest.Null}, len(row))
	nulls[0] = "null" // untyped columns have no NULL
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	drivertest.Import(t, target, file("f", table, row, nulls))
	var exprs []string
	for i := range row {
		exprs = append(exprs, fmt.Sprintf("typeof(c%d), quote(c%[1]d)", i))
	}
	exprs[0] = "typeof(c0), hex(c0)"
	exprs = append(exprs, "datetime(c6), c9 ->> '$.a'")
	query := "SELECT " + strings.Join(exprs, ", ") + " FROM t ORDER BY rowid"
	want := []string{
		"text|6100FF|text|''|integer|1|integer|-9223372036854775808|real|1.0e-07|text|'-9999999999999999999999999999999999.9999'|" +
			"text|'2026-11-22T07:47:19.000001Z'|text|'2026-11-22'|text|'0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b'|" +
			`text|'{"a":"null"}'|blob|X'0001FF'|2026-11-22 07:47:19|null`,
		"text|6E756C6C" + strings.Repeat("|null|NULL", 10) + "||",
	}
	var got []string
	for _, row := range drivertest.Texts(t, database(t, path), query) {
		got = append(got, strings.ReplaceAll(strings.Join(row, "|"), buffertest.Null, ""))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the library reads\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	needProgram(t)
	out, err := exec.Command("sqlite3", path, query).Output()
	if text := strings.Join(want, "\n") + "\n"; err != nil || string(out) != text {
		t.Errorf("sqlite3: %v\n%s\nwant\n%s", err, out, text)
	}
}

// A row with a value that SQLite would change is named. All other rows are tried too.
func TestRefusedRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	table := driver.Table{ID: "t", Columns: []datatype.Column{{Name: "id", Type: datatype.String, Required: true}, {Name: "x", Type: datatype.Float64}}}
	if err := target.Ensure(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	// A trigger that rolls back the whole transaction must not let the rows after it be committed one by one.
	execute(t, path, `CREATE UNIQUE INDEX one ON t (id);
		CREATE TRIGGER low BEFORE INSERT ON t WHEN NEW.x < 0 BEGIN SELECT RAISE(ROLLBACK, 'too low'); END`)
	list := [][]string{{"a", "1"}, {buffertest.Null, "1"}, {"b", "NaN"}, {"c", "x"}, {"a", "2"}, {"d", "-1"}}
	for i := range 200 {
		list = append(list, []string{fmt.Sprint("e", i), "-Infinity"}, []string{fmt.Sprint("f", i), "Infinity"})
	}
	var refused *driver.RowsError
	err := target.Import(t.Context(), file("f", table, list...))
	if !errors.As(err, &refused) || !refused.Complete || len(refused.Rows) != 205 {
		t.Fatalf("Import = %v, want 205 refused rows", err)
	}
	if !refused.Unsure {
		t.Error("the error of a trigger is taken for sure")
	}
	trusting, err := sqlite.Open(path, sqlite.Options{TrustTriggers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer trusting.Close()
	if err := trusting.Import(t.Context(), file("f", table, list...)); !errors.As(err, &refused) || refused.Unsure {
		t.Errorf("Import with TrustTriggers = %+v", err)
	}
	want := []string{
		`row 1, column "id": nullValue`, `row 2, column "x": notFinite`, `row 3, column "x": malformed`, "row 4: 2067: ", "row 5: 1811: ", "row 6: 1811: ",
	}
	for i, w := range want {
		if got := refused.Rows[i].String(); !strings.HasPrefix(got, w) || strings.HasSuffix(w, ": ") && len(got) == len(w) {
			t.Errorf("got %s, want %s", got, w)
		}
	}
	if got := rows(t, path, "t"); got != nil {
		t.Errorf("the table has %d rows", len(got))
	}
	if n, err := target.CountFile(t.Context(), table, "f"); n != 0 || err != nil {
		t.Errorf("CountFile = %d, %v", n, err)
	}
	var many [][]string
	for range 3000 {
		many = append(many, []string{buffertest.Null, "1"})
	}
	if err := target.Import(t.Context(), file("g", table, many...)); !errors.As(err, &refused) || refused.Complete || len(refused.Rows) != driver.MaxRowErrors {
		t.Errorf("Import of 3000 bad rows = %v", err)
	}
}

// A conflict clause that leaves rows of a statement inserted does not blame them.
func TestRowsRefusedWithConflictClauses(t *testing.T) {
	for _, clause := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		path := filepath.Join(t.TempDir(), "a.db")
		target := open(t, path, sqlite.Options{})
		execute(t, path, `CREATE TABLE t (c0 TEXT UNIQUE ON CONFLICT `+clause+`) STRICT`)
		table := driver.Table{ID: "t", Columns: columns(datatype.Untyped)}
		var list [][]string
		for i := range 120 {
			list = append(list, []string{fmt.Sprint(i)})
		}
		list[70][0], list[71][0] = "3", "65" // of another batch, and of the same
		var refused *driver.RowsError
		err := target.Import(t.Context(), file("f", table, list...))
		if !errors.As(err, &refused) || len(refused.Rows) == 0 || refused.Rows[0].Row != 70 {
			t.Errorf("%s: Import = %v, want row 70 refused", clause, err)
			continue
		}
		// With ROLLBACK the refusal of row 70 removes row 65, with which row 71 conflicts.
		if clause != "ROLLBACK" && (len(refused.Rows) != 2 || refused.Rows[1].Row != 71) {
			t.Errorf("%s: refused %v, want the rows 70 and 71", clause, refused.Rows)
		}
		if got := rows(t, path, "t"); got != nil {
			t.Errorf("%s: the table has %d rows", clause, len(got))
		}
	}
}

// A function in an index refuses a row without a constraint.
func TestRowsRefusedByFunctions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	table := driver.Table{ID: "t", Columns: columns(datatype.Untyped)}
	if err := target.Ensure(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	execute(t, path, `CREATE INDEX page ON t (c0 ->> '$.page'); CREATE INDEX path ON t (iif(c0 LIKE '[1,%', json_extract('[1]', '$' || c0), 0))`)
	var refused *driver.RowsError
	err := target.Import(t.Context(), file("f", table, []string{`{"page":1}`}, []string{"secret"}, []string{"{}"}, []string{`[1,"secret"]`}))
	want := []driver.RowError{
		{Row: 1, Reason: "1", Message: "SQL logic error: malformed JSON (1)"}, {Row: 3, Reason: "1", Message: "SQL logic error: bad JSON path"},
	}
	if !errors.As(err, &refused) || !refused.Complete || !slices.Equal(refused.Rows, want) || strings.Contains(fmt.Sprintf("%v %v", err, refused.Err), "secret") {
		t.Errorf("Import = %v, want the rows %v", err, want)
	}
	if got := rows(t, path, "t"); got != nil {
		t.Errorf("the table has %q", got)
	}
}

// Engines import, extend and read at once, and each spells the path of the file differently. None of them meets a lock that waiting does not
// solve (SQLITE_BUSY_SNAPSHOT), and no row is lost.
func TestEnginesTakeTurns(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	if err := errors.Join(os.Mkdir("data", 0o700), os.Symlink("data", "folder"), os.Symlink("data/a.db", "link.db")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(base, "data", "a.db")
	spellings := []string{path, "folder/a.db", "link.db"}
	var wg sync.WaitGroup
	const engines, files = 3, 8
	for e := range engines {
		target := open(t, spellings[e], sqlite.Options{LockTimeout: time.Minute})
		wg.Go(func() {
			for i := range files {
				table := driver.Table{ID: "t", Extend: true, Columns: []datatype.Column{{Name: "id", Type: datatype.String}, {Name: fmt.Sprint("c", i%3), Type: datatype.Int64}}}
				id := fmt.Sprintf("file-%d-%d", e, i)
				if err := target.Import(t.Context(), file(id, table, []string{id, "1"}, []string{id, buffertest.Null})); err != nil {
					t.Errorf("%s: got %v, want no error", id, err)
				}
				if n, err := target.CountFile(t.Context(), table, id); n != 2 || err != nil {
					t.Errorf("%s has %d rows, %v", id, n, err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(rows(t, path, "t")); n != 2*engines*files {
		t.Errorf("got %d rows, want %d", n, 2*engines*files)
	}
}

// However early or late the context of an import ends, even while SQLite begins the transaction, the next import finds no transaction of
// the first, and a repetition stores the rows once.
func TestContextThatEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	table := driver.Table{ID: "t", Columns: columns(datatype.String)}
	const imports = 300
	for n := range imports {
		id := fmt.Sprint("file-", n)
		ctx, end := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(n)*time.Microsecond, end)
		if err := target.Import(ctx, file(id, table, []string{id})); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the error of its context", id, err)
		}
		timer.Stop()
		end()
		if err := target.Import(t.Context(), file(id, table, []string{id})); err != nil {
			t.Fatalf("%s after one whose context ended: got %v, want no error", id, err)
		}
	}
	if n := len(rows(t, path, "t")); n != imports {
		t.Errorf("got %d rows, want %d", n, imports)
	}
}

// A call that meets the lock of another program fails for now, and soon after the end of its context.
func TestLockedDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{LockTimeout: 10 * time.Millisecond})
	patient := open(t, path, sqlite.Options{LockTimeout: time.Hour})
	lock, err := database(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	table := driver.Table{ID: "t", Columns: columns(datatype.String)}
	if err := target.Import(t.Context(), file("f", table, []string{"a"})); err == nil || driver.IsPermanent(err) {
		t.Errorf("Import beside a lock = %v, want an error for now", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := patient.Import(ctx, file("f", table, []string{"a"})); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Import that waits for a lock = %v, want the end of its context", err)
	}
	if _, err := lock.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	for _, target := range []*sqlite.Target{target, patient} {
		if err := target.Import(t.Context(), file("f", table, []string{"a"})); err != nil {
			t.Error(err)
		}
	}
	if n := len(rows(t, path, "t")); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
}

// hanging is a slice whose reads end only when it is released, whatever their context says.
type hanging struct {
	release chan struct{}
	closed  chan struct{}
}

func (h hanging) Read([]byte) (int, error) {
	<-h.release
	return 0, io.ErrUnexpectedEOF
}

func (h hanging) Close() error {
	close(h.closed)
	return nil
}

// A staging that hangs keeps the only writer until the import's context ends, or for StallTimeout. Then other tables are imported, and the
// slice is closed when its read is over.
func TestHangingStaging(t *testing.T) {
	target := open(t, filepath.Join(t.TempDir(), "a.db"), sqlite.Options{StallTimeout: 20 * time.Millisecond})
	patient := open(t, filepath.Join(t.TempDir(), "b.db"), sqlite.Options{StallTimeout: time.Hour})
	for _, c := range []struct {
		what   string
		target *sqlite.Target
		opens  bool // and hangs afterwards
		want   string
	}{
		{"opening", target, false, "has not responded"},
		{"reading", target, true, "has not responded"},
		{"opening until the context ends", patient, false, context.Canceled.Error()},
		{"reading until the context ends", patient, true, context.Canceled.Error()},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		h := hanging{make(chan struct{}), make(chan struct{})}
		f := file("f "+c.what, driver.Table{ID: "t", Columns: columns(datatype.String)}, []string{"a"})
		whole := f.OpenSlice
		f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
			if c.target == patient {
				cancel()
			}
			if !c.opens {
				<-h.release
			}
			return h, nil
		}
		if err := c.target.Import(ctx, f); err == nil || driver.IsPermanent(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.what, err, c.want)
		}
		if err := c.target.Import(t.Context(), file("other "+c.what, driver.Table{ID: "other", Columns: columns(datatype.String)}, []string{"a"})); err != nil {
			t.Errorf("%s: another table: got %v, want no error", c.what, err)
		}
		close(h.release)
		<-h.closed
		f.OpenSlice = whole
		if err := c.target.Import(t.Context(), f); err != nil {
			t.Errorf("%s: afterwards: got %v, want no error", c.what, err)
		}
		cancel()
	}
}

// An id may be found in a log that was never synced, because its attempt was killed first or the sync failed. So a repeated import commits,
// which syncs the log, and copies the log into the database, unless a reader still uses an old state.
func TestImportThatWasFoundIsSynced(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a.db")
	target := open(t, path, sqlite.Options{})
	f := file("f", driver.Table{ID: "t", Columns: columns(datatype.String)}, []string{"a"})
	reader, err := database(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.ExecContext(t.Context(), "BEGIN; SELECT * FROM _forebay_tables"); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for range 3 {
		drivertest.Import(t, target, f)
		wal, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if wal.Size() <= size {
			t.Fatalf("the log has %d bytes, as before: nothing was committed", size)
		}
		size = wal.Size()
	}
	if _, err := reader.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	drivertest.Import(t, target, f)
	withoutLog := filepath.Join(folder, "b.db")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(withoutLog, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := rows(t, withoutLog, "t"); len(got) != 1 {
		t.Errorf("without the log the database has %q", got)
	}
	if got := rows(t, path, "t"); len(got) != 1 {
		t.Errorf("got %q, want len(got) == 1", got)
	}
}
