package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/forebay/forebay/driver"
)

// LastRows reads the last rows of the part at a path, n at most, in the order of the columns of d. It returns fewer if it would have to read more than
// limit bytes for the others, and [driver.ErrTailTooLarge] if that is so for the last one. read is how much of the limit it has used, which is about
// all of it if there are fewer rows for that reason, so that no row of an earlier part comes in their place.
type LastRows func(ctx context.Context, d Definition, path string, n int, limit int64) (rows [][][]byte, read int64, err error)

// Tail returns the last rows of a table, n at most and limit bytes of them. It reads the parts that are last by name, which is roughly the order of
// the imports. The day of a part of a split table says nothing about the time of an import.
func (t *Tables) Tail(ctx context.Context, table string, n int, limit int64, last LastRows) (tail driver.Tail, err error) {
	dir, err := t.Newest(table)
	if err != nil {
		return tail, err
	}
	all, d, err := t.Described(dir, table)
	if err != nil {
		return tail, err
	}
	tail.Columns = d.Columns
	slices.SortFunc(all, func(a, b Part) int { return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(b.Path(), a.Path())) })
	err = AppendLast(&tail, all, n, limit, func(p Part, n int, limit int64) ([][][]byte, int64, error) {
		path := filepath.Join(dir, p.Path())
		rows, read, err := last(ctx, d, path, n, limit)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return rows, read, err
	}, func(p Part) (at time.Time) {
		if info, err := t.FS.Stat(filepath.Join(dir, p.Path())); err == nil {
			at = info.ModTime()
		}
		return at
	})
	return tail, err
}

// AppendLast fills a tail from parts, the newest first, until it has n rows or has read limit bytes. last has the contract of [LastRows], and
// imported returns when a part was stored. A part whose last row is beyond the limit ends the tail, or is an error if it is the first part.
func AppendLast[P any](tail *driver.Tail, newest []P, n int, limit int64, last func(p P, n int, limit int64) ([][][]byte, int64, error), imported func(P) time.Time) error {
	for _, p := range newest {
		if len(tail.Rows) >= n {
			break
		}
		rows, read, err := last(p, n-len(tail.Rows), limit)
		if errors.Is(err, driver.ErrTailTooLarge) && len(tail.Rows) > 0 {
			break
		}
		if err != nil {
			return err
		}
		if len(tail.Rows) == 0 && len(rows) > 0 {
			tail.Imported = imported(p)
		}
		tail.Rows = append(rows, tail.Rows...)
		limit -= read
	}
	return nil
}
