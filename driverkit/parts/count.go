package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/forebay/forebay/driver"
)

// Described lists the parts in the directory of a table. The definition is read second, so that it has the columns of all.
func (t *Tables) Described(dir, table string) (parts []Part, d Definition, err error) {
	if parts, err = t.parts(dir); err == nil {
		d, err = t.definitionAt(dir, table)
	}
	return parts, d, err
}

// Newest returns the directory of a table with its link resolved, so that the listed parts stay.
func (t *Tables) Newest(table string) (string, error) {
	target, err := t.FS.Readlink(t.Path(table))
	if target == "" || err != nil {
		return t.Path(table), err
	}
	return filepath.Join(t.Root, target), nil
}

// CountFile implements [driver.Counter]. It counts the rows in the parts and trusts no stored number.
func (t *Tables) CountFile(ctx context.Context, table driver.Table, fileID string) (int64, error) {
	rows, _, err := t.countFile(ctx, table, fileID)
	return rows, err
}

// countFile returns the rows of a file, and whether each of its parts has the rows that were recorded for it.
func (t *Tables) countFile(ctx context.Context, table driver.Table, fileID string) (rows int64, whole bool, err error) {
	if err := CheckID("file", fileID); err != nil {
		return 0, false, err
	}
	rows, whole, err = t.count(ctx, table.ID, fileID)
	if errors.Is(err, fs.ErrNotExist) { // a merge has just replaced the part, which happens to a part once, or the part was removed
		rows, whole, err = t.count(ctx, table.ID, fileID)
	}
	if err != nil {
		return 0, false, fmt.Errorf("%s: count %s in %q: %w", t.Driver, fileID, table.ID, err)
	}
	return rows, whole, nil
}

func (t *Tables) count(ctx context.Context, table, fileID string) (rows int64, whole bool, err error) {
	var d Definition
	found, err := t.sections(table, fileID)
	if err == nil && len(found) > 0 {
		d, err = t.definition(table)
	}
	if err != nil {
		return 0, false, err
	}
	return t.countSections(ctx, d, found)
}

// TakenAway implements [driver.Taker]. A whole part that is missing from an existing table was taken away, by a reader or by
// TablesOptions.KeepFor. The directory cannot tell by whom, so it does not detect parts that a broken disk loses.
func (t *Tables) TakenAway(ctx context.Context, table driver.Table, fileID string) (bool, error) {
	if err := CheckID("file", fileID); err != nil {
		return false, err
	}
	found, err := t.sections(table.ID, fileID)
	var d Definition
	if err == nil {
		d, err = t.definition(table.ID)
	}
	if err == nil && len(found) == 0 {
		_, _, err = t.compare(table) // whether the table exists, with these columns
	}
	if err != nil {
		return false, fmt.Errorf("%s: look for %s in %q: %w", t.Driver, fileID, table.ID, err)
	}
	if len(found) == 0 {
		return true, nil
	}
	_, whole, err := t.countFile(ctx, table, fileID)
	return whole && d.Partition != "", err
}
