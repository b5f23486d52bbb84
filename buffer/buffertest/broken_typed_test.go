package buffertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

func TestBrokenTypedTargetIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("the sound targets are enough for the race detector")
	}
	replace := func(from, to string) brokenTarget {
		return mapCells(func(cell string) string {
			if cell == from {
				return to
			}
			return cell
		})
	}
	untyped := func(t driver.Table) driver.Table {
		t.Columns = datatype.UntypedColumns(t.Names()...)
		return t
	}
	for name, tc := range map[string]struct {
		caughtBy string
		driver   brokenTarget
	}{
		"NULL is the empty text": {"NullCells", replace(Null, "")},
		"the empty text is NULL": {"NullCells", replace("", Null)},
		"the word null is NULL":  {"NullCells", replace("null", Null)},
		"the word NULL is NULL":  {"NullCells", replace("NULL", Null)},
		`the text \N is NULL`:    {"NullCells", replace(`\N`, Null)},
		"NULL is the word null":  {"NullCells", replace(Null, "null")},
		"a row of NULL is skipped": {"NullCells", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			rows, err := readSlice(ctx, f, obj)
			return slices.DeleteFunc(rows, func(row []string) bool { return !slices.ContainsFunc(row, func(c string) bool { return c != Null }) }), err
		})},
		"numbers go through float64": {"TypedColumns", mapCells(func(cell string) string {
			if n, err := strconv.ParseFloat(cell, 64); err == nil && n > 1<<53 {
				return strconv.FormatFloat(n, 'f', -1, 64)
			}
			return cell
		})},
		"types are not compared": {"TypedColumns", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			return m.Ensure(ctx, untyped(t))
		}}},
		"cells are not counted": {"WrongCells", importWith(readSlice)},
		"cells that lack are NULL": {"WrongCells", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			rows, err := readSlice(ctx, f, obj)
			for i, row := range rows {
				if n := len(row); n > 3 {
					return nil, fmt.Errorf("row %d has %d cells", i, n)
				}
				rows[i] = append(row, slices.Repeat([]string{Null}, 3-len(row))...)
			}
			return rows, err
		})},
		"extend only creates": {"Extend", brokenTarget{extend: func(ctx context.Context, m *Memory, t driver.Table) error {
			if m.Columns(t.ID) == nil {
				return m.Extend(ctx, t)
			}
			return nil
		}}},
		"extend refuses a column that is there": {"Extend", brokenTarget{extend: func(ctx context.Context, m *Memory, t driver.Table) error {
			for _, c := range m.Columns(t.ID) {
				if slices.Contains(t.Names(), c.Name) {
					return driver.Permanent(fmt.Errorf("column %q exists", c.Name))
				}
			}
			return m.Extend(ctx, t)
		}}},
		"extend keeps what is required": {"Extend", brokenTarget{extend: func(ctx context.Context, m *Memory, t driver.Table) error {
			err := m.Extend(ctx, t)
			for i, c := range m.Columns(t.ID) {
				if at := slices.IndexFunc(t.Columns, func(o datatype.Column) bool { return o.Name == c.Name }); at >= 0 {
					m.tables[t.ID].columns[i].Required = t.Columns[at].Required
				}
			}
			return err
		}}},
		"names are compared with case": {"Extend", brokenTarget{extend: func(ctx context.Context, m *Memory, t driver.Table) error {
			for _, c := range t.Columns {
				if have := m.Columns(t.ID); have != nil && !slices.Contains(datatype.Names(have), c.Name) {
					m.Alter(t.ID, append(have, nullable(c))...)
				}
			}
			return m.Extend(ctx, t)
		}}},
		"extend changes a type": {"Extend", brokenTarget{extend: func(ctx context.Context, m *Memory, t driver.Table) error {
			if err := m.Extend(ctx, t); err != nil {
				m.Alter(t.ID, t.Columns...)
			}
			return nil
		}}},
		"ensure extends": {"Extend", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			t.Extend = true
			return m.Ensure(ctx, t)
		}}},
		"extend replaces what another call added": {"ExtendConcurrently", brokenTarget{extend: func(_ context.Context, m *Memory, t driver.Table) error {
			m.Alter(t.ID, t.Columns...)
			return nil
		}}},
		"cells go by their place": {"ImportExtends", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if err := m.Extend(ctx, f.Table); err != nil {
				return err
			}
			file := *f
			file.Table.Columns = m.Columns(f.Table.ID)[:len(f.Table.Columns)]
			return m.Import(ctx, &file)
		}}},
		"import does not extend": {"ImportExtends", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			file := *f
			file.Table.Extend = false
			return m.Import(ctx, &file)
		}}},
	} {
		t.Run(name, func(t *testing.T) { expectCaught(t, tc.caughtBy, tc.driver) })
	}
}
