package buffertest

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// tailTarget is a driver whose tail is changed.
type tailTarget struct {
	brokenTarget
	// change is called with the tail of a sound driver, and with the tail of all rows.
	change func(tail *driver.Tail, all [][][]byte, n int)
	// mu, if not nil, is locked by an import and by Tail.
	mu *sync.Mutex
	// lazy ignores the context, vague the table that is missing.
	lazy, vague bool
}

func (b *tailTarget) Import(ctx context.Context, f *driver.File) error {
	if b.mu != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
	}
	return b.brokenTarget.Import(ctx, f)
}

func (b *tailTarget) Tail(ctx context.Context, table string, n int) (driver.Tail, error) {
	if b.mu != nil && !b.mu.TryLock() {
		return driver.Tail{}, context.DeadlineExceeded
	} else if b.mu != nil {
		defer b.mu.Unlock()
	}
	if ctx.Err() != nil && !b.lazy {
		return driver.Tail{}, ctx.Err()
	}
	columns := b.Columns(table)
	if columns == nil && !b.vague {
		return driver.Tail{}, fs.ErrNotExist
	}
	var all [][][]byte
	for _, row := range b.Rows(table) {
		cells := make([][]byte, len(row))
		for i, cell := range row {
			if cell != Null {
				cells[i] = []byte(cell)
			}
		}
		all = append(all, cells)
	}
	tail := driver.Tail{Columns: columns, Rows: slices.Clone(all[max(0, len(all)-n):])}
	if b.change != nil {
		b.change(&tail, all, n)
	}
	return tail, nil
}

func TestBrokenTailIsCaught(t *testing.T) {
	changed := func(change func(*driver.Tail, [][][]byte, int)) tailTarget { return tailTarget{change: change} }
	for name, c := range map[string]struct {
		caughtBy string
		driver   tailTarget
	}{
		"":                              {"", tailTarget{}},
		"the first rows":                {"Tail", changed(func(t *driver.Tail, all [][][]byte, n int) { t.Rows = all[:min(n, len(all))] })},
		"the newest row is first":       {"Tail", changed(func(t *driver.Tail, _ [][][]byte, _ int) { slices.Reverse(t.Rows) })},
		"a row is missing":              {"Tail", changed(func(t *driver.Tail, _ [][][]byte, _ int) { t.Rows = t.Rows[min(1, len(t.Rows)):] })},
		"more rows than were asked for": {"Tail", changed(func(t *driver.Tail, all [][][]byte, _ int) { t.Rows = all })},
		"a time of an empty tail":       {"Tail", changed(func(t *driver.Tail, _ [][][]byte, _ int) { t.Imported = time.Now() })},
		"a time long ago": {"Tail", changed(func(t *driver.Tail, _ [][][]byte, _ int) {
			if len(t.Rows) > 0 {
				t.Imported = time.Unix(0, 0)
			}
		})},
		"the context is ignored":      {"Tail", tailTarget{lazy: true}},
		"a missing table has no rows": {"Tail", tailTarget{vague: true}},
		"it waits for an import":      {"Tail", tailTarget{mu: new(sync.Mutex)}},
		"NULL is the empty text": {"TailOfTypes", changed(func(t *driver.Tail, _ [][][]byte, _ int) {
			for _, row := range t.Rows {
				for i, cell := range row {
					row[i] = append([]byte{}, cell...)
				}
			}
		})},
		"columns have no type": {"TailOfTypes", changed(func(t *driver.Tail, _ [][][]byte, _ int) {
			t.Columns = datatype.UntypedColumns(datatype.Names(t.Columns)...)
		})},
		"it fails during an import": {"TailBesideImports", changed(func(t *driver.Tail, all [][][]byte, _ int) {
			if len(all) > 30 {
				t.Rows = nil
			}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			for _, check := range []string{"Tail", "TailOfTypes", "TailBesideImports"} {
				if c.caughtBy != "" && c.caughtBy != check {
					continue
				}
				failed := failedTarget(t, check, func() *bench {
					d := c.driver
					d.Memory = NewMemory()
					return &bench{Target: &d, typed: true, read: d.Rows}
				})
				if got := slices.Contains(failed, check); got != (c.caughtBy != "") {
					t.Errorf("%s has failed: %v, want (c.caughtBy != \"\")", check, got)
				}
			}
		})
	}
}
