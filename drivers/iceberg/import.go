package iceberg

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/driver"
)

// Import implements [driver.Target], exactly once, see the package comment. A row with a cell that is not a canonical text of its type, or with
// text that is not UTF-8, is refused with a [*driver.RowsError].
func (t *Target) Import(ctx context.Context, f *driver.File) (err error) {
	defer catch(&err)
	id, err := t.identifier(f.Table.ID)
	if err == nil {
		err = t.importFile(ctx, id, f)
	}
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return wrap(err, "import %s into %q", f.ID, f.Table.ID)
}

func (t *Target) importFile(ctx context.Context, id table.Identifier, f *driver.File) error {
	tbl, err := t.load(ctx, id)
	if err != nil {
		return err
	}
	if tbl != nil {
		if found, err := imported(ctx, tbl, f); err != nil {
			return err
		} else if found {
			return t.syncCatalog(ctx)
		}
	}
	if tbl, err = t.ensure(ctx, id, f.Table, tbl); err != nil {
		return err
	}
	data, created, err := writeFiles(ctx, tbl, f)
	if err != nil || len(data) == 0 {
		return err
	}
	p := &pending{ctx: ctx, table: tbl.Metadata().TableUUID(), data: data, done: make(chan struct{})}
	if p.file, err = saveNote(ctx, tbl, f); err == nil {
		err = t.committerOf(id).commit(t, id, p)
	}
	if !p.tried {
		created.remove()
	}
	return err
}

// parseNote reads the note of a file, which the engine has kept since before the first commit. It is the table, and the number of ids of this engine
// that the table had seen then. The id of the file can only come after these.
func parseNote(progress []byte) (tableUUID string, ids int64, ok bool) {
	_, err := fmt.Sscanf(string(progress), "%s %d", &tableUUID, &ids)
	return tableUUID, ids, err == nil
}

// saveNote returns the file with its note.
func saveNote(ctx context.Context, tbl *table.Table, f *driver.File) (*driver.File, error) {
	self := tbl.Metadata().TableUUID().String()
	if noted, _, ok := parseNote(f.Progress); ok && noted == self {
		return f, nil
	}
	r, err := recordOf(tbl.Properties(), f.ID)
	if err != nil {
		return nil, err
	}
	noted := *f
	noted.Progress = fmt.Appendf(nil, "%s %d", self, r.dropped+int64(len(r.files)))
	return &noted, f.SaveProgress(ctx, noted.Progress)
}

// imported reports whether the rows of a file are in the table. The property says so, unless it may have dropped the id. Then the names of the
// data files say so, unless the rows were compacted meanwhile.
func imported(ctx context.Context, tbl *table.Table, f *driver.File) (bool, error) {
	r, err := recordOf(tbl.Properties(), f.ID)
	if err != nil {
		return false, err
	}
	if _, found := r.find(f.ID); found {
		return true, nil
	}
	noted, ids, ok := parseNote(f.Progress)
	if !ok || noted != tbl.Metadata().TableUUID().String() || r.dropped <= ids {
		return false, nil
	}
	rows, err := rowsInFiles(ctx, tbl, f.ID)
	if err == nil && rows == 0 {
		err = driver.Permanent(errors.New("an earlier attempt may have committed the file, and the table no longer shows whether it did, " +
			"because more files than it remembers came later: look for the rows, then discard the file or add its id to the property"))
	}
	return rows > 0, err
}
