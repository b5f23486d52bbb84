package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
)

// Rows yields the rows of a table, part by part in the order of their names, which is roughly that of the imports. The
// caller owns each row; NULL is the empty text, see [TableDir.Cells]. An error ends the sequence and comes with a nil row. A
// missing table is an error that matches [fs.ErrNotExist]. The rows are those of one moment: parts imported during the call
// may be missing.
func (t *TableDir) Rows(table string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for cells, err := range t.Cells(table) {
			var row []string
			for _, cell := range cells {
				row = append(row, string(cell))
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// Cells is [TableDir.Rows] with NULL as nil, apart from the empty text. The cells are valid until the next row.
func (t *TableDir) Cells(table string) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		if err := t.cells(table, func(cells [][]byte) bool { return yield(cells, nil) }); err != nil {
			yield(nil, fmt.Errorf("table directory: read %q: %w", table, err))
		}
	}
}

var errStop = errors.New("the caller stops")

func (t *TableDir) cells(table string, yield func([][]byte) bool) error {
	dir, err := t.newest(table)
	if err != nil {
		return err
	}
	parts, d, err := t.describedParts(dir, table)
	if err != nil {
		return err
	}
	row := make([][]byte, len(d.Columns))
	for _, p := range parts {
		s := section{path: filepath.Join(dir, p.path())}
		err := t.readPart(d, s, func(names []string, r io.Reader) error {
			at := columnsOf(d, names)
			rows := newRowReader(r)
			for rows.Next() {
				clear(row)
				for i, cell := range rows.Cells() {
					if i < len(at) && at[i] >= 0 {
						row[at[i]] = cell
					}
				}
				if !yield(row) {
					return errStop
				}
			}
			return rows.Err()
		})
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	return nil
}

// describedParts lists the parts in the directory of a table. The definition is read second, so that it has the columns of all.
func (t *TableDir) describedParts(dir, table string) (parts []part, d definition, err error) {
	if parts, err = t.parts(dir); err == nil {
		d, err = t.definitionAt(dir, table)
	}
	return parts, d, err
}

// columnsOf returns the column of the table for each cell of a part with a header; -1 for one that the table does not have.
func columnsOf(d definition, header []string) (at []int) {
	if header == nil {
		header = datatype.Names(d.Columns)
	}
	for _, name := range header {
		at = append(at, slices.IndexFunc(d.Columns, func(c datatype.Column) bool { return c.Name == name }))
	}
	return at
}

// newest returns the directory of a table with its link resolved, so that what is listed stays.
func (t *TableDir) newest(table string) (string, error) {
	target, err := t.fs.Readlink(t.Path(table))
	if target == "" || err != nil {
		return t.Path(table), err
	}
	return filepath.Join(t.root, target), nil
}

// CountFile implements [buffer.Counter]. It counts the rows in the parts and trusts no stored number.
func (t *TableDir) CountFile(ctx context.Context, table buffer.Table, fileID string) (int64, error) {
	rows, _, err := t.countFile(ctx, table, fileID)
	return rows, err
}

// countFile returns the rows of a file, and whether each of its parts has the rows that were recorded for it.
func (t *TableDir) countFile(ctx context.Context, table buffer.Table, fileID string) (rows int64, whole bool, err error) {
	if err := checkID("file", fileID); err != nil {
		return 0, false, err
	}
	var d definition
	found, err := t.sections(table.ID, fileID)
	if err == nil && len(found) > 0 {
		d, err = t.definition(table.ID)
	}
	if err == nil {
		rows, whole, err = t.countSections(ctx, d, found)
	}
	if err != nil {
		return 0, false, fmt.Errorf("table directory: count %s in %q: %w", fileID, table.ID, err)
	}
	return rows, whole, nil
}

// TakenAway implements [buffer.Taker]. A whole part that is missing from an existing table was taken away, by a reader or by
// TablesOptions.KeepFor. The directory cannot tell by whom, so it does not detect parts that a broken disk loses.
func (t *TableDir) TakenAway(ctx context.Context, table buffer.Table, fileID string) (bool, error) {
	if err := checkID("file", fileID); err != nil {
		return false, err
	}
	found, err := t.sections(table.ID, fileID)
	var d definition
	if err == nil {
		d, err = t.definition(table.ID)
	}
	if err == nil && len(found) == 0 {
		_, _, err = t.compare(table) // whether the table exists, with these columns
	}
	if err != nil {
		return false, fmt.Errorf("table directory: look for %s in %q: %w", fileID, table.ID, err)
	}
	if len(found) == 0 {
		return true, nil
	}
	_, whole, err := t.countFile(ctx, table, fileID)
	return whole && d.Partition != "", err
}
