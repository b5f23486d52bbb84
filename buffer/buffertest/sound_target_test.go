package buffertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
)

// A job that runs elsewhere is correct if its note is used, so the options of the harness must not fail a correct driver.
func TestSoundTargetsPass(t *testing.T) {
	t.Run("text only", func(t *testing.T) {
		if failed := failedTarget(t, "", func() *bench {
			drv := brokenTarget{Memory: NewMemory(), imp: func(ctx context.Context, m *Memory, f *driver.File) error {
				rows, err := readRows(ctx, f)
				for _, row := range rows {
					for _, cell := range row {
						if strings.Contains(cell, "\x00") || strings.ToValidUTF8(cell, "") != cell {
							return driver.Permanent(errors.New("not text"))
						}
					}
				}
				return errors.Join(err, m.Import(ctx, f))
			}}
			return &bench{Target: &drv, textOnly: true, typed: true, read: drv.Rows}
		}); failed != nil {
			t.Errorf("failed: %v", failed)
		}
	})
	t.Run("unordered", func(t *testing.T) {
		if failed := failedTarget(t, "", func() *bench {
			drv := brokenTarget{Memory: NewMemory()}
			return &bench{Target: &drv, unordered: true, typed: true, read: func(table string) [][]string {
				rows := slices.Clone(drv.Rows(table))
				slices.Reverse(rows)
				return rows
			}}
		}); failed != nil {
			t.Errorf("failed: %v", failed)
		}
	})
	t.Run("at least once, with notes", func(t *testing.T) {
		if failed := failedTarget(t, "", func() *bench {
			drv := brokenTarget{Memory: NewMemory(), imp: func(ctx context.Context, m *Memory, f *driver.File) error {
				if f.Progress != nil {
					return m.Ensure(ctx, f.Table)
				}
				m.forget(f.Table.ID)
				if err := m.Import(ctx, f); err != nil {
					return err
				}
				return f.SaveProgress(ctx, []byte("job 1"))
			}}
			return &bench{Target: struct{ driver.Target }{&drv}, atLeastOnce: true, typed: true, read: drv.Rows}
		}); failed != nil {
			t.Errorf("failed: %v", failed)
		}
	})
}
