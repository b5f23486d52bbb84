package duckdb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/buffer"
)

const (
	// cleanEvery is the least time between two looks for old ids.
	cleanEvery = time.Hour
	// checkpointBytes is the size of the log from which on Compact empties it. A program that is killed reads it again at its next start.
	checkpointBytes = 4 << 20
)

// Compact implements [buffer.Compactor]: it deletes ids that are older than Options.KeepIDs, and moves the rows of the log into the
// file when there are many, unless somebody writes.
func (t *Target) Compact(ctx context.Context, _ buffer.Table) error {
	now := time.Now()
	last := t.cleaned.Load()
	if t.keepIDs > 0 && now.Unix()-last >= int64(cleanEvery.Seconds()) && t.cleaned.CompareAndSwap(last, now.Unix()) {
		err := t.transaction(ctx, func(c *conn) error {
			return c.exec(ctx, "DELETE FROM _forebay_imports WHERE imported_at < %s", literal(timestamp(now.Add(-t.keepIDs))))
		})
		if err != nil {
			return wrap(err, "delete old ids")
		}
	}
	switch log, err := os.Stat(t.path + ".wal"); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return wrap(err, "log")
	case log.Size() < checkpointBytes:
		return nil
	}
	c, err := t.connect()
	if err != nil {
		return wrap(err, "checkpoint")
	}
	defer c.close()
	err = c.exec(ctx, "CHECKPOINT")
	if kindOf(err) == mapping.ErrorTypeTransaction { // somebody writes: the next call tries again
		err = nil
	}
	return wrap(classify(err), "checkpoint")
}

// timestamp returns a time as DuckDB reads it.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000Z") }
