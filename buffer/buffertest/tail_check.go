package buffertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay/driver"
)

// tailRows reads the newest rows of tables of which the suite knows the order.
func tailRows(t tb, b *bench) {
	tailer, ok := b.Target.(driver.Tailer)
	if !ok {
		t.Skipf("the target is not a driver.Tailer")
	}
	table := eventsTable()
	if _, err := tailer.Tail(t.Context(), table.ID, 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Tail of a missing table = %v, want an error that matches fs.ErrNotExist", err)
	}
	b.mustEnsure(table)
	// A table of folders has its first version with the first import, so the empty table may be missing.
	if tail, err := tailer.Tail(t.Context(), table.ID, 5); err != nil && !errors.Is(err, fs.ErrNotExist) || len(tail.Rows) > 0 || !tail.Imported.IsZero() {
		t.Errorf("Tail of an empty table = %d rows, imported %v, %v, want no row", len(tail.Rows), tail.Imported, err)
	}
	begin := time.Now()
	first, second := newFile("file-1", table, makeRows(1, 30, 3)), newFile("file-2", table, makeRows(31, 30, 3))
	b.mustImport(first)
	b.mustStore(second, first)
	for _, n := range []int{0, 1, 20, 45, 1000} {
		b.expectTail(tailer, table, n, begin, second, first)
	}

	// A tail waits for no import, and sees no row of one that has not ended.
	running := newFile("file-3", table, makeRows(61, 60, 3))
	reading, release := make(chan struct{}), make(chan struct{})
	running.fault = heldAt(1, reading, release)
	var wg sync.WaitGroup
	var importErr error
	wg.Go(func() { importErr = b.importFile(t.Context(), running) })
	<-reading
	b.expectTail(tailer, table, 45, begin, second, first)
	close(release)
	wg.Wait()
	if importErr != nil {
		t.Fatalf("Import during Tail = %v, want nil", importErr)
	}
	b.expectTail(tailer, table, 70, begin, running, second)

	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := tailer.Tail(ended, table.ID, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("Tail after the end of its context = %v, want an error that matches context.Canceled", err)
	}
}

// tailOfTypes reads a value of each type, and NULL, as a tail.
func tailOfTypes(t tb, b *bench) {
	tailer, ok := b.Target.(driver.Tailer)
	if !ok {
		t.Skipf("the target is not a driver.Tailer")
	}
	b.needTyped()
	table := typedTable()
	f := newFile("file-1", table, nil)
	f.parts = []slice{{rows: b.typedRows(table.Columns), members: 1}}
	begin := time.Now()
	b.mustStore(f)
	b.expectTail(tailer, table, 1000, begin, f)
	tail, err := tailer.Tail(t.Context(), table.ID, 1)
	if err != nil {
		t.Fatalf("Tail = %v", err)
	}
	for i, c := range table.Columns {
		if tail.Columns[i].Name != c.Name || tail.Columns[i].Type != c.Type {
			t.Errorf("Tail has the column %v, want %v", tail.Columns[i], c)
		}
	}
}

// tailBesideImports reads the end of a table while files are imported into it.
func tailBesideImports(t tb, b *bench) {
	tailer, ok := b.Target.(driver.Tailer)
	if !ok {
		t.Skipf("the target is not a driver.Tailer")
	}
	table := eventsTable()
	files := []*testFile{newFile("file-0", table, makeRows(1, 30, 3))}
	b.mustImport(files[0])
	calls := make(chan error)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			tail, err := tailer.Tail(t.Context(), table.ID, 20)
			if err == nil && len(tail.Rows) != 20 {
				err = fmt.Errorf("%d rows of 20", len(tail.Rows))
			}
			select {
			case calls <- err:
			case <-stop:
				return
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	for i := range uint64(5) {
		f := newFile(fmt.Sprintf("file-%d", i+1), table, makeRows(31+30*i, 30, 3))
		b.mustImport(f)
		files = append(files, f)
		for range 2 { // the first call may have begun before the import
			if err := <-calls; err != nil {
				t.Errorf("Tail during imports = %v, want nil", err)
			}
		}
	}
	b.expectFiles(table.ID, files...)
}

// expectTail demands the newest n rows of a table. files are the imports that have rows among them, the newest first.
func (b *bench) expectTail(tailer driver.Tailer, table driver.Table, n int, begin time.Time, files ...*testFile) {
	b.t.Helper()
	tail, err := tailer.Tail(b.t.Context(), table.ID, n)
	if err != nil {
		b.t.Errorf("Tail of %d rows = %v", n, err)
		return
	}
	var got [][]string
	for _, row := range tail.Rows {
		got = append(got, texts(row))
	}
	if len(tail.Columns) != len(table.Columns) || slices.ContainsFunc(tail.Rows, func(row [][]byte) bool { return len(row) != len(tail.Columns) }) {
		b.t.Errorf("Tail has the columns %v, or a row with others, want %v", tail.Columns, table.Columns)
	}
	// A clock of a server may differ from ours.
	const skew = time.Minute
	if at := tail.Imported; !at.IsZero() && (at.Before(begin.Add(-skew)) || at.After(time.Now().Add(skew)) || n == 0) {
		b.t.Errorf("Tail of %d rows was imported at %v, and the import began at %v", n, at, begin)
	}
	for _, f := range files {
		rows := f.rows()
		want := min(n, len(rows))
		if len(got) < want {
			b.t.Errorf("Tail lacks %d rows of %s", want-len(got), f.id)
			return
		}
		part := got[len(got)-want:]
		if !b.unordered {
			b.compare(table.ID, part, rows[len(rows)-want:], false)
		}
		for _, row := range part {
			at := slices.IndexFunc(rows, func(r []string) bool { return slices.Equal(r, row) })
			if at < 0 {
				b.t.Errorf("Tail has the row %.200q among the rows of %s, which has no such row, or has it once", row, f.id)
				return
			}
			rows = slices.Delete(rows, at, at+1)
		}
		got, n = got[:len(got)-want], n-want
	}
	if len(got) > 0 {
		b.t.Errorf("Tail has %d rows too many", len(got))
	}
}
