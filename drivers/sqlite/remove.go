package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqlfile"
)

// removeRows bounds the rows that one transaction removes, because it blocks all other writers.
const removeRows = 1000

// removeOld removes the rows whose time has passed. It looks for them during imports, once through the table in the order of its rows, and
// removes the rows that it has found in separate transactions.
func (t *Target) removeOld(ctx context.Context, table driver.Table) error {
	if err := checkTable(table); err != nil {
		return err
	}
	return t.keep.Sweep(table, sqlfile.Quote, func(condition string) error {
		name := sqlfile.Quote(table.ID)
		find := fmt.Sprintf("SELECT count(*), coalesce(max(id), 0) FROM (SELECT _rowid_ AS id FROM %s WHERE _rowid_ > ? AND %s ORDER BY _rowid_ LIMIT %d)",
			name, condition, removeRows)
		remove := fmt.Sprintf("DELETE FROM %s WHERE _rowid_ > ? AND _rowid_ <= ? AND %s", name, condition)
		for from := int64(-1 << 63); ; {
			var found, to int64
			err := t.read.QueryRowContext(ctx, find, from).Scan(&found, &to)
			if err != nil && strings.Contains(err.Error(), "no such table") { // it was dropped
				return nil
			}
			if err != nil || found == 0 {
				return classify(err)
			}
			err = t.transaction(ctx, func(ctx context.Context, c tx) error {
				_, err := c.ExecContext(ctx, remove, from, to)
				return err
			})
			if err != nil || found < removeRows {
				return err
			}
			from = to
		}
	})
}
