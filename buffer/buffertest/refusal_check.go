package buffertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/driver"
)

// refusedRows imports a file with two rows that the target refuses, between others.
func refusedRows(t tb, b *bench) {
	r := b.refusal
	if r == nil {
		t.Skipf("TargetHarness.Refusal is not set")
	}
	table := driver.Table{ID: "in.c-buffertest.refusal", Columns: r.Columns}
	b.mustEnsure(table)
	if b.prepare != nil {
		b.prepare(table.ID)
	}
	if _, ok := b.Target.(driver.Voider); ok && b.atLeastOnce {
		t.Errorf("a target that promises at least once is a driver.Voider: what it refuses would be imported in parts, and doubled")
	}
	before := newFile("file-1", table, [][]string{r.Good})
	b.mustStore(before)
	rows := slices.Repeat([][]string{r.Good}, 70)
	bad := []int64{25, 47} // in the second and the third slice
	for _, i := range bad {
		rows[i] = r.Bad
	}
	for range 2 {
		err := b.importFile(t.Context(), newFile("file-2", table, rows))
		b.expectRefused(err, bad)
		b.expectRows(table.ID, before)
		b.expectCount(table, "file-2", 0)
	}
	// The target continues, even with the rest of the file. An id never stands for other rows, so the rest has its own.
	b.mustStore(newFile("file-3", table, slices.DeleteFunc(rows, func(row []string) bool { return slices.Equal(row, r.Bad) })), before)
}

func (b *bench) expectRefused(err error, bad []int64) {
	b.t.Helper()
	var refused *driver.RowsError
	if !errors.As(err, &refused) || len(refused.Rows) == 0 {
		b.t.Fatalf("Import of a file with rows that the target refuses = %v, want a *driver.RowsError that names them: count the rows with FileRows.Row", err)
	}
	var named []int64
	for _, row := range refused.Rows {
		named = append(named, row.Row)
		if b.refusal.Column != "" && row.Column != b.refusal.Column {
			b.t.Errorf("%v: want the column %q", row, b.refusal.Column)
		}
		if row.Reason == "" {
			b.t.Errorf("%v has no RowError.Reason: give the code of the target, or a word of the driver", row)
		}
	}
	for i, value := range b.refusal.Bad {
		const short = 4 // shorter values are parts of other words
		if len(value) >= short && value != b.refusal.Good[i] && value != Null && strings.Contains(fmt.Sprintf("%v %+v %v", err, refused.Rows, refused.Err), value) {
			b.t.Errorf("%v has the value of a cell: the column may be secret", err)
		}
	}
	switch {
	case !slices.Equal(named, bad[:min(len(named), len(bad))]):
		b.t.Errorf("the target refuses the rows %d, want %d: RowError.Row counts from 0 over all slices of the file", named, bad)
	case refused.Complete && len(named) < len(bad):
		b.t.Errorf("RowsError.Complete is set with the rows %d, but %d are refused: set it only if every row was tried", named, bad)
	}
}
