package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Tables is a target with tables that a test reads and changes without the driver.
type Tables struct {
	driver.Target
	// Rows reads a table as canonical texts.
	Rows func(table string) [][]string
	// Exec runs a statement.
	Exec func(statement string)
}

// Expect compares the rows of a table, which have no order.
func (tables Tables) Expect(tb testing.TB, table string, want ...[]string) {
	tb.Helper()
	Rows(tb, table, tables.Rows(table), want)
}

// Count checks how many rows of a file count as imported.
func (tables Tables) Count(tb testing.TB, f *driver.File, want int) {
	tb.Helper()
	if n, err := tables.Target.(driver.Counter).CountFile(tb.Context(), f.Table, f.ID); err != nil || n != int64(want) {
		tb.Errorf("CountFile(%s) = %d, %v, want %d", f.ID, n, err, want)
	}
}

// Import imports files.
func Import(tb testing.TB, target driver.Target, files ...*driver.File) {
	tb.Helper()
	for _, f := range files {
		if err := target.Import(context.Background(), f); err != nil {
			tb.Fatalf("Import(%s) = %v, want no error", f.ID, err)
		}
	}
}

// Compact lets a target do its work on tables.
func Compact(tb testing.TB, target driver.Target, tables ...driver.Table) {
	tb.Helper()
	for _, table := range tables {
		if err := target.(driver.Compactor).Compact(tb.Context(), table); err != nil {
			tb.Fatalf("Compact(%s) = %v, want no error", table.ID, err)
		}
	}
}

// Patiently retries errors that a retry fixes, as the buffer does. A change of a table gives up while the table is in use.
func Patiently(tb testing.TB, target driver.Target, f *driver.File) (err error) {
	for range 20 {
		if err = target.Import(tb.Context(), f); err == nil || driver.IsPermanent(err) {
			return err
		}
	}
	return err
}

// OneSlice returns a file of one plain slice.
func OneSlice(id string, table driver.Table, rows ...[]string) *driver.File {
	var text strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				text.WriteByte(',')
			}
			if cell != buffertest.Null {
				text.WriteString(`"` + strings.ReplaceAll(cell, `"`, `""`) + `"`)
			}
		}
		text.WriteByte('\n')
	}
	n, size := int64(len(rows)), int64(text.Len())
	return &driver.File{
		ID: id, Table: table, Slices: []driver.Object{{ID: id + "-s", FileID: id, Rows: n, RawBytes: size}}, Rows: n, RawBytes: size,
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text.String())), nil
		},
	}
}

// Held is a file whose second slice waits in its middle.
type Held struct {
	// File is the file, and Whole the same file that does not wait.
	File, Whole *driver.File
	// Rows are its rows, 60 numbers.
	Rows [][]string
	// Reading is closed when the import waits for the slice, which continues when the test closes Release.
	Reading, Release chan struct{}

	once sync.Once
}

// Hold returns a file for a table of one column of type int64.
func Hold(id string, table driver.Table) *Held {
	h := &Held{Reading: make(chan struct{}), Release: make(chan struct{})}
	for i := range 60 {
		h.Rows = append(h.Rows, []string{fmt.Sprint(i)})
	}
	h.Whole = buffertest.NewFile(id, table, h.Rows...)
	h.File = new(*h.Whole)
	h.File.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		r, err := h.Whole.OpenSlice(ctx, obj)
		if err == nil && obj == h.File.Slices[1] {
			return heldSlice{r, h}, nil
		}
		return r, err
	}
	return h
}

type heldSlice struct {
	io.ReadCloser
	held *Held
}

func (s heldSlice) Read(p []byte) (int, error) {
	s.held.once.Do(func() {
		close(s.held.Reading)
		<-s.held.Release
	})
	return s.ReadCloser.Read(p)
}

// Percent is a refusal by a check of a number, which prepare adds to the column "share, in percent". It must be at most 100.
func Percent(prepare func(t *testing.T, table string)) *buffertest.Refusal {
	return &buffertest.Refusal{
		Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "share, in percent", Type: datatype.Float64}},
		Good:    []string{"1", "99.5"}, Bad: []string{"1", "100.4711"},
		Prepare: prepare,
	}
}

// EnginesTogether lets several targets of the same tables import the same files and others into the table events, which they create and extend.
func EnginesTogether(t *testing.T, open func(n int) driver.Target, rows func(table string) [][]string) {
	t.Helper()
	const engines, files = 4, 8
	id := datatype.Column{Name: "id", Type: datatype.Int64}
	var wg sync.WaitGroup
	for n := range engines {
		target := open(n)
		wg.Go(func() {
			for i := range files {
				own := datatype.Column{Name: fmt.Sprint("c", n), Type: datatype.Int64}
				for file, columns := range map[string][]datatype.Column{
					fmt.Sprintf("shared-%d", i):    {id},
					fmt.Sprintf("own-%d-%d", n, i): {own, id},
				} {
					table, row := driver.Table{ID: "events", Columns: columns, Extend: true}, []string{"1", "2"}
					if err := Patiently(t, target, buffertest.NewFile(file, table, row[:len(columns)], row[:len(columns)])); err != nil {
						t.Errorf("%s: got %v, want no error", file, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if got, want := len(rows("events")), 2*(files+engines*files); got != want {
		t.Errorf("got %d rows, want %d", got, want)
	}
}

// Server is a server that a test kills.
type Server interface {
	// Kill ends the server as a crash of its process does.
	Kill(tb testing.TB)
	// Restart starts the server after Kill, and returns when it is ready.
	Restart(tb testing.TB)
}

// ServerIsKilled kills the server of a target while it imports. The server returns.
func ServerIsKilled(t *testing.T, tables Tables, server Server) {
	t.Helper()
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}}}
	first := buffertest.NewFile("file-1", table, []string{"1"})
	Import(t, tables, first)
	h := Hold("file-2", table)
	done := make(chan error, 1)
	go func() { done <- tables.Import(context.Background(), h.File) }()
	<-h.Reading
	server.Kill(t)
	server.Restart(t)
	close(h.Release)
	Retryable(t, "an import whose server was killed", <-done)
	if err := Patiently(t, tables, h.Whole); err != nil { // the pool has connections to the killed server
		t.Fatalf("Import(%s) = %v, want no error", h.Whole.ID, err)
	}
	Import(t, tables, first)
	tables.Expect(t, "events", append(h.Rows, []string{"1"})...)
	tables.Count(t, h.Whole, len(h.Rows))
}

// KeepFor checks that a target that keeps rows for 24 hours, by the columns at and DAY, removes the rows whose time has passed, in several
// transactions, and no others. The file that brought them still counts as imported. name is the name of the table. fill inserts so many old rows
// that one transaction does not remove them all.
func KeepFor(t *testing.T, tables Tables, name, fill string) {
	t.Helper()
	now := time.Now().UTC()
	stamp := func(age time.Duration) string { return now.Add(-age).Format("2006-01-02T15:04:05.000000Z") }
	day := func(age time.Duration) string { return now.Add(-age).Format(time.DateOnly) }
	const hour, null = time.Hour, buffertest.Null
	table := driver.Table{ID: name, Columns: []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "at", Type: datatype.Timestamp}, {Name: "day", Type: datatype.Date},
	}}
	stay := [][]string{
		{"1", stamp(23 * hour), null}, {"2", stamp(-1000 * hour), day(100 * hour)}, {"3", null, day(24 * hour)}, {"4", null, null},
	}
	gone := [][]string{{"5", stamp(25 * hour), day(0)}, {"6", null, day(49 * hour)}, {"7", "1969-12-31T23:59:59.000000Z", null}}
	f := buffertest.NewFile("file-1", table, slices.Concat(stay, gone)...)
	other, old := driver.Table{ID: "other", Columns: []datatype.Column{{Name: "at", Type: datatype.String}}}, []string{stamp(1000 * hour)}
	Import(t, tables, f, buffertest.NewFile("file-2", other, old))
	tables.Exec(fill)
	Compact(t, tables.Target, table, other, driver.Table{ID: "absent", Columns: table.Columns})
	Import(t, tables, f)
	tables.Expect(t, name, stay...)
	tables.Expect(t, other.ID, old)
	tables.Count(t, f, len(stay)+len(gone))
}

// ForgetsIDs checks that a target whose table with the ids of the imported files is imports forgets old ids, in batches and once an hour. fill inserts
// n of them.
func ForgetsIDs(t *testing.T, tables Tables, imports, fill string, n int) {
	t.Helper()
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}}}
	Import(t, tables, buffertest.NewFile("young", table, []string{"1"}))
	tables.Exec(fill)
	for range 2 {
		Compact(t, tables.Target, table)
		if n := len(tables.Rows(imports)); n != 1 {
			t.Errorf("%d ids are known, want the young one", n)
		}
	}
	tables.Exec(fill)
	Compact(t, tables.Target, table)
	if got := len(tables.Rows(imports)); got != n+1 {
		t.Errorf("got %d ids, want %d: cleaned twice in an hour", got, n+1)
	}
}

// SQLRuns checks that the statements that an erasure shows run, for names of a table and of a column and for texts that need quotes too.
func SQLRuns(t *testing.T, tables Tables, name, column string) {
	t.Helper()
	table := driver.Table{ID: name, Columns: datatype.UntypedColumns(column, "b")}
	ann, bob := []string{"ann", `hello O'BR\IEN there`}, []string{"bob", "y"}
	Import(t, tables, buffertest.NewFile("file-1", table, []string{`O'Br\ien`, "x"}, ann, bob))
	sql := tables.Target.(driver.SQLTarget).SQL(table)
	tables.Exec("DELETE FROM " + sql.Table + " WHERE " + sql.Quote(column) + " = " + sql.Text(`O'Br\ien`))
	tables.Expect(t, name, ann, bob)
	tables.Exec("DELETE FROM " + sql.Table + " WHERE " + sql.Contains(sql.Quote("b"), sql.Text(`o'br\ien`)))
	tables.Expect(t, name, bob)
}

// TailIDs returns the first cells of a tail.
func TailIDs(t *testing.T, target driver.Tailer, table string, n int) string {
	t.Helper()
	tail, err := target.Tail(t.Context(), table, n)
	if err != nil {
		t.Errorf("Tail(%s) = %v, want no error", table, err)
	}
	var ids []string
	for _, row := range tail.Rows {
		ids = append(ids, string(row[0]))
	}
	return strings.Join(ids, " ")
}

// TailIsBounded checks that a tail returns no large cells, but fewer rows or none. most is the limit of a driver. The table has a number and a text.
func TailIsBounded(t *testing.T, target driver.Target, table driver.Table, most int) {
	t.Helper()
	for i, size := range []int{10, most, 20, 30} {
		Import(t, target, buffertest.NewFile(fmt.Sprint("file-", i), table, []string{fmt.Sprint(i), strings.Repeat("x", size)}))
		tail, err := target.(driver.Tailer).Tail(t.Context(), table.ID, 5)
		switch want := []int{1, 0, 1, 2}[i]; {
		case want == 0 && !errors.Is(err, driver.ErrTailTooLarge):
			t.Errorf("a last row that is too large: got %d rows, %v, want %v", len(tail.Rows), err, driver.ErrTailTooLarge)
		case want > 0 && (err != nil || len(tail.Rows) != want || string(tail.Rows[want-1][0]) != fmt.Sprint(i)):
			t.Errorf("after row %d: got %d rows, %v, want %d", i, len(tail.Rows), err, want)
		}
	}
}

// Many is the table of [TailEnds] and [BenchmarkTail].
func Many() driver.Table {
	return driver.Table{ID: "many", Columns: []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "a", Type: datatype.String}, {Name: "b", Type: datatype.String}, {Name: "c", Type: datatype.String}, {Name: "at", Type: datatype.Timestamp},
	}}
}

// TailEnds checks that a tail of the rows of the table many ends with its context, and that an import does not wait for it.
func TailEnds(t *testing.T, target driver.Target, rows int) {
	t.Helper()
	tailer := target.(driver.Tailer)
	begin := time.Now()
	if _, err := tailer.Tail(t.Context(), "many", rows); err != nil {
		t.Fatalf("Tail(many, %d) = %v, want no error", rows, err)
	}
	whole := time.Since(begin)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := tailer.Tail(ctx, "many", rows)
		ended <- err
	}()
	Import(t, target, buffertest.NewFile("file-1", driver.Table{ID: "other", Columns: datatype.UntypedColumns("a")}, []string{"x"}))
	select {
	case err := <-ended:
		t.Fatalf("the tail ended before the import that runs at the same time: %v", err)
	default:
	}
	cancel()
	begin = time.Now()
	if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begin) > whole/2 {
		t.Errorf("after the end of the context: got %v, %v later, want %v within half of %v, the time for all rows", err, time.Since(begin), context.Canceled, whole)
	}
	if tail, err := tailer.Tail(t.Context(), "other", 5); err != nil || len(tail.Rows) != 1 || tail.Imported.IsZero() {
		t.Errorf("the next tail: got %d rows, %v, imported at %v, want one row and a time", len(tail.Rows), err, tail.Imported)
	}
}

// BenchmarkTail reads 20 rows of the table many.
func BenchmarkTail(b *testing.B, target driver.Tailer) {
	for b.Loop() {
		if tail, err := target.Tail(b.Context(), "many", 20); err != nil || len(tail.Rows) != 20 {
			b.Fatalf("got %d rows, %v, want 20", len(tail.Rows), err)
		}
	}
}
