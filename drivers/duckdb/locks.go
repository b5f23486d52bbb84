package duckdb

import (
	"context"
	"math"

	"golang.org/x/sync/semaphore"
)

// lock waits for the lock of a table. An import holds it together with others, a change of the table alone: DuckDB 1.4.5 writes wrong
// bytes to its log, or crashes, when a table gets a column while rows of it are committed. The caller calls unlock.
func (t *Target) lock(ctx context.Context, table string, alone bool) (unlock func(), err error) {
	weight := int64(1)
	if alone {
		weight = math.MaxInt64
	}
	l, _ := t.place.locks.LoadOrStore(table, semaphore.NewWeighted(math.MaxInt64))
	s := l.(*semaphore.Weighted)
	if err := s.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { s.Release(weight) }, nil
}

// lockFile waits until no other call imports the file or rules it out. The primary key of the ids alone would keep it exactly once, but
// DuckDB refuses an id from the moment in which another transaction inserts it, and shows it only after the commit of that transaction. The attempts of
// the later call would all fail while the earlier one syncs. Callers take it before the lock of the table.
func (t *Target) lockFile(ctx context.Context, id string) (unlock func(), err error) {
	return t.place.files.Lock(ctx, id, "")
}
