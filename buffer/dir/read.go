package dir

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/parts"
)

// Rows yields the rows of a table, part by part in the order of their names, which is roughly the order of the imports. The
// caller owns each row; NULL is the empty text, see [TableDir.Cells]. An error ends the sequence and comes with a nil row. A
// missing table is an error that matches [fs.ErrNotExist]. The call reads the table as of one moment. Parts imported during the call
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
	dir, err := t.folder.Newest(table)
	if err != nil {
		return err
	}
	all, d, err := t.folder.Described(dir, table)
	if err != nil {
		return err
	}
	row := make([][]byte, len(d.Columns))
	for _, p := range all {
		s := parts.Section{Path: filepath.Join(dir, p.Path())}
		err := readPart(&t.folder.Store, d, s, func(names []string, r io.Reader) error {
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
			return fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	return nil
}

// columnsOf returns the column of the table for each cell of a part with a header; -1 for one that the table does not have.
func columnsOf(d parts.Definition, header []string) (at []int) {
	if header == nil {
		header = datatype.Names(d.Columns)
	}
	for _, name := range header {
		at = append(at, slices.IndexFunc(d.Columns, func(c datatype.Column) bool { return c.Name == name }))
	}
	return at
}
