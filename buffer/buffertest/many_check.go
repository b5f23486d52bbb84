package buffertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/forebay/forebay/driver"
)

// otherTable is a second table for files that are imported together with files of eventsTable.
func otherTable() driver.Table {
	t := eventsTable()
	t.ID = "in.c-buffertest.other"
	return t
}

// importMany makes one call, and checks what every call must satisfy.
func (b *bench) importMany(ctx context.Context, files ...*testFile) error {
	b.t.Helper()
	var args []*driver.File
	for _, f := range files {
		if b.staging != nil {
			for i, obj := range f.attempt().Slices {
				if err := b.staging.Put(b.t.Context(), obj, bytesSource(f.stored(i))); err != nil {
					return fmt.Errorf("staging: Put(%s): %w", obj.ID, err)
				}
			}
		}
		args = append(args, f.attempt())
	}
	err := b.Target.(driver.ManyImporter).ImportMany(ctx, args)
	for i, f := range files {
		if n := f.open.Load(); n != 0 {
			b.t.Errorf("ImportMany returned with %d readers open: close the FileRows, or what OpenSlice gave", n)
		}
		if before := f.attempt(); args[i].ID != before.ID || !slices.Equal(args[i].Table.Columns, before.Table.Columns) || !slices.Equal(args[i].Slices, before.Slices) {
			b.t.Errorf("ImportMany has modified the file: change a copy of its slices and columns")
		}
	}
	return err
}

func (b *bench) mustImportMany(files ...*testFile) {
	b.t.Helper()
	if err := b.importMany(b.t.Context(), files...); err != nil {
		b.t.Fatalf("ImportMany = %v, want nil", err)
	}
}

// manyBench prepares a check of [driver.ManyImporter].
func manyBench(t tb, b *bench) {
	t.Helper()
	if _, ok := b.Target.(driver.ManyImporter); !ok {
		t.Skipf("the target is not a driver.ManyImporter")
	}
	if b.atLeastOnce {
		t.Fatalf("a target that promises at least once does not record the ids in the transaction of the rows: it is no driver.ManyImporter")
	}
	b.mustEnsure(eventsTable())
	b.mustEnsure(otherTable())
}

// manyFile returns a file of 25 rows, in two slices.
func manyFile(id int, table driver.Table) *testFile {
	return newFile(fmt.Sprintf("file-%04d", id), table, makeRows(uint64(id), 25, 3))
}

// manyTogether imports files of two tables, and repeats them with others.
func manyTogether(_ tb, b *bench) {
	manyBench(b.t, b)
	one, two := eventsTable(), otherTable()
	first := []*testFile{manyFile(1, one), manyFile(2, two), manyFile(3, one)}
	expect := func(b *bench, files ...*testFile) {
		b.t.Helper()
		var ofOne, ofTwo []*testFile
		for _, f := range files {
			if b.expectCount(f.table, f.id, 25); f.table.ID == one.ID {
				ofOne = append(ofOne, f)
			} else {
				ofTwo = append(ofTwo, f)
			}
		}
		b.expectRows(one.ID, ofOne...)
		b.expectRows(two.ID, ofTwo...)
	}
	b.mustImportMany(first...)
	expect(b, first...)
	b.mustImportMany(first...)
	expect(b, first...)

	alone := manyFile(4, two)
	b.mustImport(alone)
	mixed := []*testFile{manyFile(5, two), first[2], alone, manyFile(6, one)}
	b.mustImportMany(mixed...)
	all := append(slices.Clone(first), alone, mixed[0], mixed[3])
	expect(b, all...)
	for _, f := range all {
		b.mustImport(f)
	}
	expect(b, all...)
	if b.reopen == nil {
		return
	}
	next := *b
	next.Target = b.reopen()
	next.mustImportMany(all...)
	expect(&next, all...)
}

// manyOneBad imports good files together with one that cannot be imported. Nothing of the call may stay.
func manyOneBad(t tb, b *bench) {
	manyBench(t, b)
	one, two := eventsTable(), otherTable()
	before := []*testFile{manyFile(1, one), manyFile(2, two)}
	b.mustImportMany(before...)
	bad := map[string]*testFile{}
	other := manyFile(10, eventsTable("id", "body", "at"))
	bad["a table with other columns"] = other
	if b.staging == nil {
		short := manyFile(11, two)
		short.parts[1].data = encode(driver.None, short.parts[1].rows[1:], 1)
		bad["a slice without its first row"] = short
		cut := manyFile(12, two)
		cut.parts[1].encoding, cut.parts[1].members = driver.Gzip, 1
		data := cut.stored(1)
		cut.parts[1].data = data[:len(data)/2]
		bad["a slice that is cut off"] = cut
		if voider, ok := b.Target.(driver.Voider); ok {
			void := manyFile(13, two)
			b.expectVoid(voider, two, void.id, false)
			bad["a file that is ruled out"] = void
		}
	}
	if r := b.refusal; r != nil {
		table := driver.Table{ID: "in.c-buffertest.refusal", Columns: r.Columns}
		b.mustEnsure(table)
		if b.prepare != nil {
			b.prepare(table.ID)
		}
		bad["a refused row"] = newFile("file-0014", table, [][]string{r.Good, r.Bad})
	}
	n := 20
	for name, f := range bad {
		good := []*testFile{manyFile(n, one), manyFile(n+1, two)}
		n += 2
		if err := b.importMany(t.Context(), good[0], f, before[0], good[1]); err == nil {
			t.Errorf("ImportMany with %s = nil, want an error", name)
		}
		b.expectRows(one.ID, before[0])
		b.expectRows(two.ID, before[1])
		for _, f := range append(good, f) {
			b.expectCount(f.table, f.id, 0)
		}
	}
	last := []*testFile{manyFile(3, one), manyFile(4, two)}
	for _, f := range last {
		b.mustImport(f)
	}
	b.expectRows(one.ID, before[0], last[0])
	b.expectRows(two.ID, before[1], last[1])
}

// manyInterrupted is importInterrupted for files of two tables.
func manyInterrupted(t tb, b *bench) {
	manyBench(t, b)
	one, two := eventsTable(), otherTable()
	for i, n := 0, 1; i < maxInterruptions; i, n = i+1, n+1+n/10 {
		files := []*testFile{manyFile(2*i, one), manyFile(2*i+1, two)}
		ctx := newFading(t.Context(), n)
		err := b.importMany(ctx, files...)
		ended := ctx.left.Load() <= 0
		ctx.end()
		got, other := len(b.read(one.ID)), len(b.read(two.ID))
		if got < other { // a database that was told to commit may do so after the call, here between the two reads
			got = len(b.read(one.ID))
		}
		if got != other || got != 25*i && got != 25*(i+1) {
			t.Fatalf("the context ended at look %d of ImportMany, and the tables have %d and %d rows, want the %d of before or %d: "+
				"commit the rows of all files together", n, got, other, 25*i, 25*(i+1))
		}
		for _, f := range files {
			if err := b.importFile(t.Context(), f); err != nil {
				t.Fatalf("Import after an ImportMany whose context ended = %v, want nil", err)
			}
			if got := len(b.read(f.table.ID)); got != 25*(i+1) {
				t.Fatalf("the context ended at look %d of ImportMany (%v), and after Import the table has %d rows, want %d: "+
					"commit the ids in the same transaction as the rows", n, err, got, 25*(i+1))
			}
			b.expectCount(f.table, f.id, 25)
		}
		if err == nil && !ended {
			return
		}
	}
}

// manyBeside runs ImportMany at the same time as Import and ImportMany of the same files in a different order, as after an abandoned call.
func manyBeside(t tb, b *bench) {
	manyBench(t, b)
	files := func() (all []*testFile) {
		for i := range 6 {
			table := eventsTable()
			if i%2 == 1 {
				table = otherTable()
			}
			all = append(all, manyFile(i, table))
		}
		return all
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			mine := files()
			if n == 1 {
				slices.Reverse(mine)
			}
			if n < 2 {
				_ = b.importMany(t.Context(), mine...) // it may give up on a lock
				return
			}
			for _, f := range mine {
				_ = b.importFile(t.Context(), f)
			}
		})
	}
	wg.Wait()
	all := files()
	for _, f := range all {
		b.mustImport(f)
		b.expectCount(f.table, f.id, 25)
	}
	b.expectFiles(eventsTable().ID, all[0], all[2], all[4])
	b.expectFiles(otherTable().ID, all[1], all[3], all[5])
}
