package bucket

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/forebay/forebay/datatype"
)

// Columns returns the columns of a table. A missing table is an error that matches [fs.ErrNotExist].
func (t *Tables) Columns(ctx context.Context, table string) ([]datatype.Column, error) {
	d, err := t.existing(ctx, table)
	return d.Columns, t.objects.explain("read", strconv.Quote(table), err)
}

// Parts lists the parts of a table, by names that [Tables.OpenPart] takes. A part may lack columns that the table has got since. A
// missing table is an error that matches [fs.ErrNotExist].
func (t *Tables) Parts(ctx context.Context, table string) (names []string, err error) {
	d, err := t.existing(ctx, table)
	var found []part
	if err == nil {
		found, err = t.partsOf(ctx, d, "")
	}
	for _, p := range found {
		names = append(names, p.key)
	}
	return names, t.objects.explain("list", strconv.Quote(table), err)
}

// OpenPart returns the content of a part, a file of Parquet. The caller closes it.
func (t *Tables) OpenPart(ctx context.Context, name string) (io.ReadCloser, error) {
	rc, err := t.objects.open(ctx, name)
	if err != nil {
		return nil, t.objects.explain("open", name, err)
	}
	return rc, nil
}

// existing is definition, and fails if there is no table.
func (t *Tables) existing(ctx context.Context, table string) (definition, error) {
	d, err := t.definition(ctx, table)
	if err == nil && d.Number == 0 {
		err = fmt.Errorf("there is no such table: %w", fs.ErrNotExist)
	}
	return d, err
}
