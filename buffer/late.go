package buffer

import (
	"context"
	"errors"
	"sync"

	"github.com/forebay/forebay/driver"
)

// lateImports counts by file the calls of Target.Import that were left alone and have not returned. As long as there is
// one the rows of the file may still appear in the table, so the file is neither discarded nor expired.
type lateImports struct {
	mu    sync.Mutex
	files map[uint64]int
}

func (l *lateImports) add(file uint64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		l.files = make(map[uint64]int)
	}
	if l.files[file] += n; l.files[file] == 0 {
		delete(l.files, file)
	}
}

func (l *lateImports) runs(file uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[file] > 0
}

// importedLate takes up the outcome of a call that had been left alone. Its success counts like any other
// success. Its failure was recorded when it was left alone.
func (b *Buffer) importedLate(num uint64, arg *driver.File, err error) {
	// Before the count goes down, so that no caller can discard the file in between, and again when the store has failed meanwhile.
	for again := err == nil; again; {
		b.mu.RLock()
		changed := b.waitChange()
		b.mu.RUnlock()
		err := b.do(context.Background(), func(t *txn) {
			if f := b.mu.files[num]; f == nil || !t.imported(f, arg.ID, 0) {
				return
			}
			t.onDurable(func() {
				b.log.Warn("file imported late", "sink", arg.SinkID, "file", arg.ID, "rows", arg.Rows, "next", "if it recurs, find out why the target responds after the time limit")
			})
		})
		var failed *FailedError
		if again = errors.As(err, &failed) && b.ctx.Err() == nil; again && b.failure() != nil {
			select {
			case <-changed:
			case <-b.ctx.Done():
			}
		}
	}
	b.late.add(num, -1)
}
