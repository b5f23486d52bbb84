package buffertest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// otherColumns are near misses of the columns of eventsTable.
var otherColumns = map[string][]string{
	"order":  {"id", "body", "at"},
	"fewer":  {"id", "at"},
	"more":   {"id", "at", "body", "extra"},
	"other":  {"id", "at", "payload"},
	"joined": {"id", "at,body"},
}

func ensure(t tb, b *bench) {
	table := eventsTable()
	for range 3 {
		b.mustEnsure(table)
	}
	b.expectRows(table.ID)
	mustTogether(t, "Ensure", 8, func(int) error { return b.Ensure(t.Context(), eventsTable()) })
	second := driver.Table{ID: "in.c-buffertest.created-at-once", Columns: datatype.UntypedColumns("a", "b")}
	mustTogether(t, "Ensure of a new table", 8, func(int) error { return b.Ensure(t.Context(), second) })
	b.expectRows(second.ID)
	other := driver.Table{ID: second.ID, Columns: datatype.UntypedColumns("b", "a")}
	b.expectSchemaError(b.Ensure(t.Context(), other), other, second)
}

func ensureKeepsRows(_ tb, b *bench) {
	f := newFile("file-1", eventsTable(), makeRows(1, 10, 3))
	b.mustImport(f)
	b.mustEnsure(f.table)
	b.expectRows(f.table.ID, f)
}

func ensureOtherColumns(t tb, b *bench) {
	f := newFile("file-1", eventsTable(), makeRows(1, 10, 3))
	b.mustEnsure(f.table)
	b.mustImport(f)
	for _, columns := range otherColumns {
		other := eventsTable(columns...)
		b.expectSchemaError(b.Ensure(t.Context(), other), other, f.table)
	}
	b.mustEnsure(f.table)
	b.expectRows(f.table.ID, f)
}

// tableIDs gives each id a separate table, unless the target refuses it permanently.
func tableIDs(t tb, b *bench) {
	ids := []string{
		".", "..", "...", "odd", "a/odd", "../odd", "/odd", `a\odd`, "odd ", "odd.", "od%64", "o'd\"d", "ódd", strings.Repeat("long", 80), strings.Repeat("long", 80) + "er",
	}
	stored := make(map[string]*testFile)
	for i, id := range ids {
		f := newFile(fmt.Sprintf("file-%d", i), eventsTable(), makeRows(uint64(i), 1+i, 3))
		f.table.ID = id
		err := b.Ensure(t.Context(), f.table)
		if err == nil {
			err = b.importFile(t.Context(), f)
		}
		switch {
		case err == nil:
			stored[id] = f
		case !driver.IsPermanent(err):
			t.Errorf("table %.20q: %v, want nil or a permanent error", id, err)
		}
	}
	for id, f := range stored {
		b.expectRows(id, f)
	}
}

func importOne(_ tb, b *bench) {
	f := newFile("file-1", eventsTable(), makeRows(1, 90, 3))
	b.mustEnsure(f.table)
	b.mustStore(f)
}

func importCreatesTable(t tb, b *bench) {
	f := newFile("file-1", eventsTable(), makeRows(1, 5, 3))
	b.mustStore(f)
	other := eventsTable("id")
	b.expectSchemaError(b.Ensure(t.Context(), other), other, f.table)
}

func importOtherColumns(t tb, b *bench) {
	first := newFile("file-1", eventsTable(), makeRows(1, 10, 3))
	b.mustImport(first)
	i := 0
	for name, columns := range otherColumns {
		i++
		f := newFile(fmt.Sprintf("file-2-%d", i), eventsTable(columns...), makeRows(uint64(1+i), 10, len(columns)))
		b.expectSchemaError(b.importFile(t.Context(), f), f.table, first.table)
		b.expectRows(f.table.ID, first)
		b.expectCount(f.table, f.id, 0)
		if name != "order" && name != "other" {
			continue
		}
		// The mapping is corrected. The same file returns with the columns of the table.
		f.table = first.table
		b.mustImport(f)
		first.parts = append(first.parts, f.parts...)
		b.expectRows(f.table.ID, first)
	}
}

func importAgain(_ tb, b *bench) {
	f := newFile("file-1", eventsTable(), makeRows(1, 50, 3))
	for range 3 {
		b.mustStore(f)
	}
	// An earlier file is still known after later ones.
	second := newFile("file-2", eventsTable(), makeRows(2, 50, 3))
	b.mustImport(second)
	b.mustImport(f)
	got := b.read(f.table.ID)
	b.compare(f.table.ID, got, append(f.rows(), second.rows()...), true)
}

func importAgainAfterReopen(t tb, b *bench) {
	if b.reopen == nil {
		t.Skipf("the harness has no Reopen")
	}
	f := newFile("file-1", eventsTable(), makeRows(1, 50, 3))
	b.mustImport(f)
	b.Target = b.reopen()
	b.expectRows(f.table.ID, f)
	b.mustStore(f)
	b.expectCount(f.table, f.id, 50)
	other := eventsTable("id", "body", "at")
	b.expectSchemaError(b.Ensure(t.Context(), other), other, f.table)
}

func importManyFiles(_ tb, b *bench) {
	events := eventsTable()
	second := driver.Table{ID: "in.c-buffertest.second", Columns: datatype.UntypedColumns("only")}
	var all [][]string
	for i := range 5 {
		f := newFile(fmt.Sprintf("file-%d", i), events, makeRows(uint64(i), 30, 3))
		b.mustImport(f)
		all = append(all, f.rows()...)
		b.compare(events.ID, b.read(events.ID), all, true)
	}
	other := newFile("file-5", second, makeRows(9, 3, 1))
	b.mustStore(other)
	// Equal rows in another file are other rows.
	copied := newFile("file-6", second, makeRows(9, 3, 1))
	b.mustStore(copied, other)
	b.compare(events.ID, b.read(events.ID), all, true)
}

// One file mixes all encodings, with one and with several members each, and keeps its order.
func importEncodings(_ tb, b *bench) {
	f := &testFile{id: "file-1", table: eventsTable()}
	seed := uint64(0)
	for _, members := range []int{1, 4} {
		for _, e := range encodings {
			seed++
			f.parts = append(f.parts, slice{rows: makeRows(seed, 40, 3), encoding: e, members: members})
		}
	}
	slices.Reverse(f.parts)
	b.mustStore(f)
	b.expectCount(f.table, f.id, 240)
}

// cellsOf returns a file with each cell in each place of a row, and one row with all of them.
func cellsOf(cells []string) *testFile {
	var rows [][]string
	for _, cell := range cells {
		rows = append(rows, []string{cell, "x", "y"}, []string{"x", cell, "y"}, []string{"x", "y", cell}, []string{cell, cell, cell})
	}
	rows = append(rows, []string{"", strings.Join(cells, ""), strings.Join(cells, ",")})
	return newFile("file-1", eventsTable(), rows)
}

func importCells(_ tb, b *bench) {
	f := cellsOf([]string{
		"", " ", " both sides ", "\t", `"`, `""`, `"quoted"`, `a"b`, ",", `","`, "\n", "\r", "\r\n", "a\nb", "a\r\nb\r\n", "\n\n",
		`\`, `\"`, `\n`, `\.`, `\N`, `\x00`, "NULL", "null", "0", "007", "1e5", "1.10", "true", "2026-03-01", "{\"a\": [1, \"b\"]}",
		"#comment", "--", "'", ";", "$1", "%s", "á", "a\u0301", "日本語", "🙂", "\u2028", "\ufeff", "\ufffd", "\x01\x1f\x7f", strings.Repeat("long \"", 10_000),
	})
	b.mustStore(f)

	// With one column, an empty cell is still a row.
	single := newFile("file-2", driver.Table{ID: "in.c-buffertest.single", Columns: datatype.UntypedColumns("only")}, [][]string{{""}, {"a"}, {""}, {""}})
	b.mustStore(single)
}

func importBinaryCells(t tb, b *bench) {
	cells := []string{"\x00", "a\x00b", "\xff", "\xc3", "\xc3\x28", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80", "\xff\xfe", "a\"\xff\n\x00"}
	if !b.textOnly {
		b.mustStore(cellsOf(cells))
		return
	}
	for i, cell := range cells { // one by one, because an error for one kind of cell must not hide that another is changed
		f := newFile(fmt.Sprintf("file-%d", i), eventsTable(), [][]string{{"x", cell, "y"}})
		f.table.ID = fmt.Sprintf("in.c-buffertest.binary-%d", i)
		b.mustEnsure(f.table)
		err := b.importFile(t.Context(), f)
		switch {
		case err == nil:
			b.expectRows(f.table.ID, f)
			continue
		case !driver.IsPermanent(err):
			t.Errorf("Import of the cell %q = %v, want one of driver.Permanent", cell, err)
		}
		b.expectRows(f.table.ID)
		b.expectCount(f.table, f.id, 0)
	}
}

func importLargeFile(_ tb, b *bench) {
	f := &testFile{id: "file-1", table: eventsTable()}
	for i := range 6 {
		f.parts = append(f.parts, slice{rows: largeRows(uint64(i), 500, 3), encoding: encodings[i%3], members: 1 + i})
	}
	b.mustStore(f)
}

// failThenRetry makes one attempt for each fault, and then one without.
func failThenRetry(t tb, b *bench, faults ...func(i int, data []byte) (io.Reader, error)) {
	t.Helper()
	before := newFile("file-1", eventsTable(), makeRows(1, 10, 3))
	b.mustImport(before)
	f := newFile("file-2", eventsTable(), makeRows(2, 70, 3))
	for i, fault := range faults {
		f.fault = fault
		f.faults.Store(0)
		err := b.importFile(t.Context(), f)
		if f.faults.Load() == 0 && err == nil {
			// The target read no slice through the file, so no fault occurred.
			b.expectRows(f.table.ID, before, f)
			return
		}
		expectRetryable(t, fmt.Sprintf("Import with fault %d of a slice", i), err, errInjected)
		b.expectRows(f.table.ID, before)
		b.expectCount(f.table, f.id, 0)
	}
	f.fault = nil
	b.mustStore(f, before)
	b.expectCount(f.table, f.id, 70)
}

func importOpenFails(t tb, b *bench) {
	at := func(fail int) func(int, []byte) (io.Reader, error) {
		return func(i int, _ []byte) (io.Reader, error) {
			if i != fail {
				return nil, nil
			}
			return nil, fmt.Errorf("open slice: %w", errInjected)
		}
	}
	failThenRetry(t, b, at(0), at(1), at(3))
}

func importReadFails(t tb, b *bench) {
	at := func(fail int, share float64) func(int, []byte) (io.Reader, error) {
		return func(i int, data []byte) (io.Reader, error) {
			if i != fail {
				return nil, nil
			}
			return broken(data, int(float64(len(data))*share)), nil
		}
	}
	failThenRetry(t, b, at(0, 0), at(0, 0.5), at(2, 0.5), at(3, 0.9), at(3, 1))
}

// A slice that lost rows and is intact otherwise stores nothing. A target that reads slices by itself is not checked, because its staging
// vouches for them.
func importMissingRows(t tb, b *bench) {
	if b.staging != nil {
		t.Skipf("the target reads slices by itself")
	}
	for i, e := range encodings {
		f := newFile(fmt.Sprintf("file-%d", i), eventsTable(), makeRows(uint64(i), 50, 3))
		last := &f.parts[len(f.parts)-1]
		last.encoding, last.data = e, encode(e, last.rows[1:], 1)
		if err := b.importFile(t.Context(), f); err == nil {
			t.Errorf("%s: Import = nil although a slice has a row less than Object.Rows: File.ReadRows counts them, and FileRows.Err says so", e)
		}
		b.expectRows(f.table.ID)
		b.expectCount(f.table, f.id, 0)
	}
}

// A file of which an attempt has stored nothing is imported under its id without rows that were erased since. A [driver.Voider] gets another id then.
func importWithoutErasedRows(t tb, b *bench) {
	_, counts := b.Target.(driver.Counter)
	if _, voids := b.Target.(driver.Voider); voids || !counts || b.staging != nil {
		t.Skipf("the target is a driver.Voider, or no driver.Counter, or reads slices by itself")
	}
	rows := makeRows(1, 70, 3)
	f := newFile("file-1", eventsTable(), rows)
	f.fault = func(i int, data []byte) (io.Reader, error) {
		if i < 3 {
			return nil, nil
		}
		return broken(data, len(data)/2), nil
	}
	expectRetryable(t, "Import with a slice that breaks off", b.importFile(t.Context(), f), errInjected)
	b.expectCount(f.table, f.id, 0)
	rest := newFile(f.id, f.table, slices.Concat(rows[:7], rows[9:69]))
	b.mustStore(rest)
	b.expectCount(f.table, f.id, 67)
}

// A slice that is cut off or has a wrong checksum stores nothing.
func importDamagedSlice(t tb, b *bench) {
	n := 0
	for _, e := range []driver.Encoding{driver.Gzip, driver.Zstd} {
		for name, damage := range map[string]func([]byte) []byte{
			"cut in the middle": func(d []byte) []byte { return d[:len(d)/2] },
			"cut at the end":    func(d []byte) []byte { return d[:len(d)-1] },
			"a changed byte":    func(d []byte) []byte { d[len(d)/2] ^= 0x55; return d },
			"other bytes":       func([]byte) []byte { return []byte("\"this\",\"is\",\"plain\"\n") },
		} {
			n++
			f := newFile(fmt.Sprintf("file-%d", n), eventsTable(), makeRows(uint64(n), 50, 3))
			for i := range f.parts {
				f.parts[i].encoding, f.parts[i].members = e, 1
			}
			f.parts[1].data = damage(f.stored(1))
			if err := b.importFile(t.Context(), f); err == nil {
				t.Errorf("%s, %s: Import of a damaged slice = nil: return FileRows.Err and store nothing", e, name)
			}
			b.expectRows(f.table.ID)
			b.expectCount(f.table, f.id, 0)
		}
	}
}

func importCancelled(t tb, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := newFile("file-1", eventsTable(), makeRows(1, 50, 3))
	stream := &endless{row: appendRow(nil, []string{"a", "b", "c"}), cancel: cancel}
	f.fault = func(i int, _ []byte) (io.Reader, error) {
		if i == 1 {
			return stream, nil
		}
		return nil, nil
	}
	err := b.importFile(ctx, f)
	if f.faults.Load() == 0 && err == nil {
		b.expectRows(f.table.ID, f)
		return
	}
	stream.expectNoticed(t, "Import", err)
	b.expectRows(f.table.ID)
	b.expectCount(f.table, f.id, 0)
	f.fault = nil
	if err := b.importFile(ctx, f); err == nil {
		b.expectRows(f.table.ID, f)
	}
	b.mustStore(f)
}

// Several files are imported into a table that does not exist yet.
func importConcurrently(t tb, b *bench) {
	const n = 8
	var files []*testFile
	var all [][]string
	for i := range n {
		f := newFile(fmt.Sprintf("file-%d", i), eventsTable(), makeRows(uint64(i), 60, 3))
		files = append(files, f)
		all = append(all, f.rows()...)
	}
	mustTogether(t, "Import of files", n, func(i int) error { return b.importFile(t.Context(), files[i]) })
	b.compare(files[0].table.ID, b.read(files[0].table.ID), all, true)
	for _, f := range files {
		b.expectCount(f.table, f.id, 60)
	}
}

func importSameFileConcurrently(t tb, b *bench) {
	if b.atLeastOnce {
		t.Skipf("the target promises at least once")
	}
	f := newFile("file-1", eventsTable(), makeRows(1, 60, 3))
	// Each call gets a new file, because a note belongs to one attempt at a time.
	mustTogether(t, "Import of the same file", 8, func(int) error {
		return b.importFile(t.Context(), newFile(f.id, f.table, f.rows()))
	})
	b.mustStore(f)
	b.expectCount(f.table, f.id, 60)
}

// A note that could not be saved ends the attempt, because its remote job would be forgotten.
func saveProgressFails(t tb, b *bench) {
	f := newFile("file-1", eventsTable(), makeRows(1, 50, 3))
	f.saveErr = fmt.Errorf("save progress: %w", errInjected)
	err := b.importFile(t.Context(), f)
	if f.saves.Load() > 0 && err == nil {
		t.Errorf("Import = nil although its progress could not be saved")
	}
	f.saveErr = nil
	if b.atLeastOnce && err != nil {
		return // the lost note may duplicate the rows
	}
	b.mustImport(f)
	b.mustStore(f)
}

func countFile(t tb, b *bench) {
	if _, ok := b.Target.(driver.Counter); !ok {
		t.Skipf("the target is not a driver.Counter")
	}
	table := eventsTable()
	b.expectCount(table, "file-1", 0) // no table yet
	b.mustEnsure(table)
	b.expectCount(table, "file-1", 0)
	first := newFile("file-1", table, makeRows(1, 50, 3))
	b.mustImport(first)
	second := newFile("file-2", table, [][]string{{"a\nb", "\"\n\"", "\n"}, {"", "", ""}})
	b.mustImport(second)
	b.mustImport(first)
	b.expectCount(table, "file-1", 50)
	b.expectCount(table, "file-2", 2)
	b.expectCount(table, "file-3", 0)
	b.expectCount(table, "file", 0)
	b.expectCount(driver.Table{ID: "in.c-buffertest.other", Columns: table.Columns}, "file-1", 0)
	if taker, ok := b.Target.(driver.Taker); ok {
		if taken, err := taker.TakenAway(t.Context(), table, "file-1"); err != nil || taken {
			t.Errorf("TakenAway(file-1) = %v, %v for a file that is there, want false", taken, err)
		}
	}
}

// uncreate removes the tables with a mark and without rows, and no others.
func uncreate(t tb, b *bench) {
	target, ok := b.Target.(driver.Uncreator)
	if !ok {
		t.Skipf("the target is not a driver.Uncreator")
	}
	table := eventsTable()
	changed := eventsTable("id", "other")
	take := func(mark string) {
		t.Helper()
		if err := target.Uncreate(t.Context(), table.ID, mark); err != nil {
			t.Errorf("Uncreate %q: %v", mark, err)
		}
	}
	take("mark-1") // missing
	table.Creation = "mark-1"
	for range 2 {
		b.mustEnsure(table)
	}
	other := changed
	other.Creation = "mark-2"
	b.expectSchemaError(b.Ensure(t.Context(), other), other, table)
	take("mark-2") // refused before
	b.mustEnsure(table)
	if b.reopen != nil {
		b.Target = b.reopen()
		target = b.Target.(driver.Uncreator)
	}
	for range 2 {
		take("mark-1")
	}
	b.mustEnsure(changed) // the corrected table, without a mark
	take("mark-1")
	take("")
	b.expectSchemaError(b.Ensure(t.Context(), table), table, changed)

	table.ID, table.Creation = "in.c-buffertest.with-rows", "mark-3"
	b.mustEnsure(table)
	f := newFile("file-1", table, makeRows(1, 10, 3))
	b.mustImport(f)
	take("mark-3")
	b.expectRows(table.ID, f)
}
