package buffertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// TargetHarness provides the parts that the suite of [Target] needs beyond [driver.Target].
type TargetHarness struct {
	// Open returns a target without tables and registers cleanup with t.Cleanup. The suite uses one target at a time, because the
	// other functions refer to the one opened last.
	Open func(t *testing.T) driver.Target
	// Rows reads a table as any other reader would, and returns the cells of each row in the order of the columns, with [Null] for NULL. A
	// missing table gives nil.
	Rows func(t *testing.T, table string) [][]string
	// Reopen returns a new driver for the same tables, as after a restart of the process. The suite may continue to use the other driver
	// at the same time. If it is nil, a driver that remembers the imported ids in memory alone is not caught, and engines that feed one
	// table at once are not checked.
	Reopen func(t *testing.T) driver.Target
	// Staging, if not nil, returns the staging from which the target reads slices by itself. The suite puts them there
	// before each import. Otherwise slices come from memory.
	Staging func(t *testing.T) driver.Staging

	// Unordered says that tables do not keep the order of rows.
	Unordered bool
	// TextOnly says that some cells of NUL or invalid UTF-8 cannot be stored. A file with such a cell must then fail with an
	// error for which [driver.IsPermanent] is true, or be stored byte for byte.
	TextOnly bool
	// Typed says that tables keep the type of a column and tell NULL from the empty text. Rows gives values as the canonical
	// text of their type. A target that implements [driver.Extender] must be Typed.
	Typed bool
	// ServerParses says that the database parses the stored rows, and reads the rest of a row as its last text if the text begins without a quote. Rows
	// with too many cells, of which the last one of the table is NULL, are then not checked.
	ServerParses bool
	// AtLeastOnce says that two concurrent imports of one file may duplicate its rows. Sequential imports must not, each
	// with the note that the previous one saved.
	AtLeastOnce bool
	// Process lets [Kills] use the tables from a second process. [Target] does not need it.
	Process *Process
	// Refusal, if not nil, is a row that the target refuses. Import must then name it in a [*driver.RowsError].
	Refusal *Refusal
}

// Refusal describes a table that takes one row and refuses another, for example by a constraint.
type Refusal struct {
	// Columns are the columns of the table.
	Columns []datatype.Column
	// Good and Bad are the cells of the rows, with [Null] for NULL. The table takes Good any number of times.
	Good, Bad []string
	// Column is the name of the column that is wrong in Bad, "" if the target does not tell.
	Column string
	// Prepare, if not nil, makes the table refuse Bad. The suite has created it with Ensure.
	Prepare func(t *testing.T, table string)
}

// Target checks a driver against the contract of [driver.Target]. Each check is a subtest with a fresh target.
func Target(t *testing.T, h TargetHarness) {
	t.Helper()
	for _, c := range targetChecks {
		t.Run(c.name, func(t *testing.T) { c.run(t, h.bench(t)) })
	}
}

// bench opens a target.
func (h TargetHarness) bench(t *testing.T) *bench {
	b := &bench{
		Target: h.Open(t), t: t,
		read:        func(table string) [][]string { return h.Rows(t, table) },
		unordered:   h.Unordered,
		textOnly:    h.TextOnly,
		atLeastOnce: h.AtLeastOnce,
		typed:       h.Typed,
		loose:       h.ServerParses,
		refusal:     h.Refusal,
	}
	if h.Refusal != nil && h.Refusal.Prepare != nil {
		b.prepare = func(table string) { h.Refusal.Prepare(t, table) }
	}
	if h.Reopen != nil {
		b.reopen = func() driver.Target { return h.Reopen(t) }
	}
	if h.Staging != nil {
		b.staging = h.Staging(t)
	}
	return b
}

type targetCheck struct {
	name string
	run  func(t tb, b *bench)
}

var targetChecks = []targetCheck{
	{"Ensure", ensure},
	{"EnsureKeepsRows", ensureKeepsRows},
	{"EnsureOtherColumns", ensureOtherColumns},
	{"TableIDs", tableIDs},
	{"Import", importOne},
	{"ImportCreatesTable", importCreatesTable},
	{"ImportOtherColumns", importOtherColumns},
	{"ImportAgain", importAgain},
	{"ImportAgainAfterReopen", importAgainAfterReopen},
	{"ImportManyFiles", importManyFiles},
	{"ImportEncodings", importEncodings},
	{"ImportCells", importCells},
	{"ImportBinaryCells", importBinaryCells},
	{"ImportLargeFile", importLargeFile},
	{"ImportOpenFails", importOpenFails},
	{"ImportReadFails", importReadFails},
	{"ImportDamagedSlice", importDamagedSlice},
	{"ImportMissingRows", importMissingRows},
	{"ImportCancelled", importCancelled},
	{"ImportConcurrently", importConcurrently},
	{"ImportSameFileConcurrently", importSameFileConcurrently},
	{"ImportInterrupted", importInterrupted},
	{"ImportWithoutErasedRows", importWithoutErasedRows},
	{"ImportBesideAbandoned", importBesideAbandoned},
	{"ImportManyTogether", manyTogether},
	{"ImportManyOneBad", manyOneBad},
	{"ImportManyInterrupted", manyInterrupted},
	{"ImportManyBeside", manyBeside},
	{"SaveProgressFails", saveProgressFails},
	{"CountFile", countFile},
	{"Uncreate", uncreate},
	{"Alone", alone},
	{"TypedColumns", typedColumns},
	{"NullCells", nullCells},
	{"WrongCells", wrongCells},
	{"RefusedRows", refusedRows},
	{"Void", voidFiles},
	{"Extend", extend},
	{"ExtendConcurrently", extendConcurrently},
	{"ImportExtends", importExtends},
	{"Tail", tailRows},
	{"TailOfTypes", tailOfTypes},
	{"TailBesideImports", tailBesideImports},
	{"Engines", engines},
}

// bench is one target under test.
type bench struct {
	driver.Target
	t       tb
	read    func(table string) [][]string
	reopen  func() driver.Target // may be nil
	staging driver.Staging       // may be nil
	refusal *Refusal             // may be nil
	prepare func(table string)   // may be nil

	unordered, textOnly, atLeastOnce, typed, loose bool
}

func (b *bench) expectRows(table string, files ...*testFile) {
	b.t.Helper()
	b.compare(table, b.read(table), rowsOf(files), b.unordered)
}

// expectFiles is expectRows for files in any order.
func (b *bench) expectFiles(table string, files ...*testFile) {
	b.t.Helper()
	b.compare(table, b.read(table), rowsOf(files), true)
}

func rowsOf(files []*testFile) (all [][]string) {
	for _, f := range files {
		all = append(all, f.rows()...)
	}
	return all
}

func (b *bench) compare(table string, got, want [][]string, unordered bool) {
	b.t.Helper()
	if unordered {
		got, want = slices.Clone(got), slices.Clone(want)
		slices.SortFunc(got, slices.Compare[[]string])
		slices.SortFunc(want, slices.Compare[[]string])
	}
	if len(got) != len(want) {
		b.t.Errorf("table %s has %d rows, want %d", table, len(got), len(want))
		return
	}
	for i := range got {
		if !slices.Equal(got[i], want[i]) {
			b.t.Errorf("table %s, row %d: got %.200q, want %.200q%s", table, i, got[i], want[i], aboutBytes(want[i]))
			return
		}
	}
}

// aboutBytes says what to do if cells that are no plain text come back changed.
func aboutBytes(cells []string) string {
	if row := strings.Join(cells, ""); utf8.ValidString(row) && !strings.Contains(row, "\x00") {
		return ""
	}
	return ": store each byte as it is, or set TargetHarness.TextOnly and fail with driver.Permanent"
}

func (b *bench) mustEnsure(table driver.Table) {
	b.t.Helper()
	if err := b.Ensure(b.t.Context(), table); err != nil {
		b.t.Fatalf("Ensure(%s) = %v, want nil", table.ID, err)
	}
}

// expectSchemaError checks every field of the error.
func (b *bench) expectSchemaError(err error, want, got driver.Table) {
	b.t.Helper()
	var schema *driver.SchemaError
	if !errors.As(err, &schema) {
		b.t.Errorf("columns %q for a table with %q: error %v, want a *driver.SchemaError: compare with Table.Fit", want.Columns, got.Columns, err)
		return
	}
	if schema.Table != want.ID || !slices.Equal(schema.Want, want.Columns) || !slices.Equal(schema.Got, got.Columns) {
		b.t.Errorf("got %+v, want table %s, Want %q, Got %q", schema, want.ID, want.Columns, got.Columns)
	}
}

// expectCount checks a target that implements [driver.Counter].
func (b *bench) expectCount(table driver.Table, file string, want int) {
	b.t.Helper()
	counter, ok := b.Target.(driver.Counter)
	if !ok {
		return
	}
	if got, err := counter.CountFile(b.t.Context(), table, file); err != nil || got != int64(want) {
		b.t.Errorf("CountFile(%s, %s) = %d, %v, want %d: count the rows of this file in this table; what is not there is 0", table.ID, file, got, err, want)
	}
}

// slice is a slice of a test file.
type slice struct {
	rows     [][]string
	encoding driver.Encoding
	members  int
	// data, if not nil, replaces the encoded rows.
	data []byte
}

// testFile is a file as the buffer keeps it between attempts to import it.
type testFile struct {
	id    string
	table driver.Table
	parts []slice
	note  []byte // the last note

	// fault, if not nil, replaces the result for a slice, where nil, nil means that the slice is intact.
	fault func(i int, data []byte) (io.Reader, error)
	// saveErr is the error of SaveProgress. The note is then lost.
	saveErr error

	faults atomic.Int64 // calls whose result came from fault
	saves  atomic.Int64 // calls whose result came from saveErr
	open   atomic.Int64 // readers not yet closed
}

func eventsTable(columns ...string) driver.Table {
	if columns == nil {
		columns = []string{"id", "at", "body"}
	}
	return driver.Table{ID: "in.c-buffertest.events", Columns: datatype.UntypedColumns(columns...)}
}

// newFile returns a file with the rows in plain slices of at most 20 rows.
func newFile(id string, table driver.Table, rows [][]string) *testFile {
	f := &testFile{id: id, table: table}
	for part := range slices.Chunk(rows, 20) {
		f.parts = append(f.parts, slice{rows: part, members: 1})
	}
	return f
}

func (f *testFile) rows() [][]string {
	var rows [][]string
	for _, p := range f.parts {
		rows = append(rows, p.rows...)
	}
	return rows
}

func (f *testFile) stored(i int) []byte {
	if p := f.parts[i]; p.data == nil {
		return encode(p.encoding, p.rows, p.members)
	}
	return f.parts[i].data
}

// attempt returns the file for one attempt to import it.
func (f *testFile) attempt() *driver.File {
	file := &driver.File{
		ID: f.id, SinkID: "source/sink",
		Table:    driver.Table{ID: f.table.ID, Columns: slices.Clone(f.table.Columns), Extend: f.table.Extend},
		Progress: slices.Clone(f.note),
	}
	for i, p := range f.parts {
		obj := driver.Object{
			ID: fmt.Sprintf("%s-slice-%d", f.id, i), FileID: f.id, SinkID: file.SinkID,
			Encoding: p.encoding, Rows: int64(len(p.rows)), RawBytes: int64(len(encode(driver.None, p.rows, 1))),
		}
		file.Slices = append(file.Slices, obj)
		file.Rows += obj.Rows
		file.RawBytes += obj.RawBytes
	}
	objects := slices.Clone(file.Slices)
	file.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		i := slices.Index(objects, obj)
		if i < 0 {
			return nil, fmt.Errorf("OpenSlice: no slice %+v", obj)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		data := f.stored(i)
		if f.fault != nil {
			r, err := f.fault(i, data)
			if r != nil || err != nil {
				f.faults.Add(1)
			}
			if err != nil {
				return nil, err
			}
			if r != nil {
				return newStream(r, &f.open), nil
			}
		}
		return newStream(broken(data, whole), &f.open), nil
	}
	file.SaveProgress = func(_ context.Context, note []byte) error {
		if len(note) > 4<<10 {
			return fmt.Errorf("SaveProgress: a note of %d bytes, at most 4096 are allowed", len(note))
		}
		if f.saveErr != nil {
			f.saves.Add(1)
			return f.saveErr
		}
		f.note = slices.Clone(note)
		return nil
	}
	return file
}

// importFile makes one attempt and checks what every attempt must satisfy.
func (b *bench) importFile(ctx context.Context, f *testFile) error {
	b.t.Helper()
	if b.staging != nil {
		for i, obj := range f.attempt().Slices {
			if err := b.staging.Put(b.t.Context(), obj, bytesSource(f.stored(i))); err != nil {
				return fmt.Errorf("staging: Put(%s): %w", obj.ID, err)
			}
		}
	}
	file, before := f.attempt(), f.attempt()
	err := b.Import(ctx, file)
	if n := f.open.Load(); n != 0 {
		b.t.Errorf("Import returned with %d readers open: close the FileRows, or what OpenSlice gave", n)
	}
	if file.ID != before.ID || !slices.Equal(file.Table.Columns, before.Table.Columns) || !slices.Equal(file.Slices, before.Slices) {
		b.t.Errorf("Import has modified the file: change a copy of its slices and columns")
	}
	return err
}

func (b *bench) mustImport(f *testFile) {
	b.t.Helper()
	if err := b.importFile(b.t.Context(), f); err != nil {
		b.t.Fatalf("Import(%s) = %v, want nil", f.id, err)
	}
}

// mustStore imports a file and demands that its table then has the rows of the earlier files and its own.
func (b *bench) mustStore(f *testFile, earlier ...*testFile) {
	b.t.Helper()
	b.mustImport(f)
	b.expectRows(f.table.ID, append(earlier, f)...)
}
