package buffertest

import (
	"context"
	"fmt"
	"strings"

	"github.com/forebay/forebay/driver"
)

// OpImportMany is an operation of [ManyMemory]. Its ID has the ids of the files, separated by spaces.
const OpImportMany Op = "import many"

// ManyMemory is a [Memory] that is a [driver.ManyImporter] too.
type ManyMemory struct{ *Memory }

var _ driver.ManyImporter = ManyMemory{}

// ImportMany implements [driver.ManyImporter].
func (m ManyMemory) ImportMany(ctx context.Context, files []*driver.File) error {
	var ids []string
	for _, f := range files {
		ids = append(ids, f.ID)
	}
	return m.do(ctx, OpImportMany, strings.Join(ids, " "), func() error {
		all := make([][][]string, len(files))
		for i, f := range files {
			rows, err := readRows(ctx, f)
			if err != nil {
				return err
			}
			all[i] = rows
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, f := range files { // before anything is stored
			table, err := m.ensure(f.Table)
			if err != nil {
				return err
			}
			if table.files[f.ID] < 0 {
				return driver.Permanent(fmt.Errorf("import %s: %w", f.ID, driver.ErrVoid))
			}
			if err := m.refuse(f.Table.ID, all[i]); err != nil {
				return err
			}
		}
		for i, f := range files {
			table := m.tables[f.Table.ID]
			if _, done := table.files[f.ID]; done {
				continue
			}
			table.files[f.ID] = int64(len(all[i]))
			for _, row := range all[i] {
				table.rows = append(table.rows, table.row(f.Table, row))
			}
		}
		return nil
	})
}
