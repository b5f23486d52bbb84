package buffertest

import (
	"context"
	"slices"
	"testing"

	"github.com/forebay/forebay/driver"
)

// brokenMany is a target whose ImportMany is replaced.
type brokenMany struct {
	ManyMemory
	many func(ctx context.Context, m ManyMemory, files []*driver.File) error
}

func (b brokenMany) ImportMany(ctx context.Context, files []*driver.File) error {
	return b.many(ctx, b.ManyMemory, files)
}

func TestBrokenManyImporterIsCaught(t *testing.T) {
	for name, tc := range map[string]struct {
		caughtBy string
		many     func(ctx context.Context, m ManyMemory, files []*driver.File) error
	}{
		"each file is a transaction": {"ImportManyOneBad", func(ctx context.Context, m ManyMemory, files []*driver.File) error {
			for _, f := range files {
				if err := m.Import(ctx, f); err != nil {
					return err
				}
			}
			return nil
		}},
		"a context that ends leaves some files": {"ImportManyInterrupted", func(ctx context.Context, m ManyMemory, files []*driver.File) error {
			for _, f := range files {
				if err := m.ImportMany(ctx, []*driver.File{f}); err != nil {
					return err
				}
			}
			return nil
		}},
		"a repeated call doubles": {"ImportManyTogether", func(ctx context.Context, m ManyMemory, files []*driver.File) error {
			for _, f := range files {
				m.forget(f.Table.ID)
			}
			return m.ImportMany(ctx, files)
		}},
		"a known file ends the call": {"ImportManyTogether", func(ctx context.Context, m ManyMemory, files []*driver.File) error {
			for _, f := range files {
				if n, _ := m.CountFile(ctx, f.Table, f.ID); n > 0 {
					return nil
				}
			}
			return m.ImportMany(ctx, files)
		}},
		"files of a table change their order": {"ImportManyTogether", func(ctx context.Context, m ManyMemory, files []*driver.File) error {
			files = slices.Clone(files)
			slices.Reverse(files)
			return m.ImportMany(ctx, files)
		}},
		"files that fail are left out": {"ImportManyOneBad", func(ctx context.Context, m ManyMemory, files []*driver.File) error {
			for _, f := range files {
				_ = m.Import(ctx, f)
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			failed := failedTarget(t, "", func() *bench {
				m := brokenMany{ManyMemory{NewMemory()}, tc.many}
				return &bench{Target: m, typed: true, read: m.Rows, reopen: func() driver.Target { return m }}
			})
			if !slices.Contains(failed, tc.caughtBy) {
				t.Errorf("failed: %v, want %s among them", failed, tc.caughtBy)
			}
		})
	}
}
