package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/forebay/forebay/buffer"
)

// LastRows reads the last rows of the part at a path, n at most, in the order of the columns of d. It returns fewer if it would have to read more than
// limit bytes for the others, and [buffer.ErrTailTooLarge] if that is so for the last one. read is how much of the limit it has used: about
// all of it if there are fewer rows for that reason, so that no row of an earlier part comes in their place.
type LastRows func(ctx context.Context, d Definition, path string, n int, limit int64) (rows [][][]byte, read int64, err error)

// Tail returns the last rows of a table, n at most and limit bytes of them. It reads the parts that are last by name, which is roughly the order of
// the imports: a day of a table that is split says nothing about the time of an import.
func (t *Tables) Tail(ctx context.Context, table string, n int, limit int64, last LastRows) (tail buffer.Tail, err error) {
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
	for _, p := range all {
		if len(tail.Rows) >= n {
			break
		}
		path := filepath.Join(dir, p.Path())
		rows, read, err := last(ctx, d, path, n-len(tail.Rows), limit)
		if errors.Is(err, buffer.ErrTailTooLarge) && len(tail.Rows) > 0 {
			break
		}
		if err != nil {
			return tail, fmt.Errorf("%s: %w", path, err)
		}
		if len(tail.Rows) == 0 && len(rows) > 0 {
			if info, err := t.FS.Stat(path); err == nil {
				tail.Imported = info.ModTime()
			}
		}
		tail.Rows = append(rows, tail.Rows...)
		limit -= read
	}
	return tail, nil
}
