package buffertest

import (
	"context"
	"slices"
	"testing"

	"github.com/forebay/forebay/driver"
)

// brokenVoid is a driver whose Void is wrong.
type brokenVoid struct {
	brokenTarget
	void func(m *Memory, t driver.Table, id string) (bool, error)
}

func (b *brokenVoid) Void(_ context.Context, t driver.Table, id string) (bool, error) {
	return b.void(b.Memory, t, id)
}

func TestBrokenVoidIsCaught(t *testing.T) {
	plain := func(m *Memory, t driver.Table, id string) (bool, error) { return m.Void(context.Background(), t, id) }
	for name, drv := range map[string]func() *brokenVoid{
		"an imported file is ruled out": func() *brokenVoid {
			return &brokenVoid{void: func(m *Memory, t driver.Table, id string) (bool, error) {
				_, err := m.Void(context.Background(), t, id)
				return false, err
			}}
		},
		"it is only looked at": func() *brokenVoid {
			return &brokenVoid{void: func(m *Memory, t driver.Table, id string) (bool, error) {
				n, err := m.CountFile(context.Background(), t, id)
				return n > 0, err
			}}
		},
		"a file that is ruled out counts as imported": func() *brokenVoid {
			d := &brokenVoid{void: plain}
			var void []string
			d.void = func(m *Memory, t driver.Table, id string) (bool, error) {
				imported, err := m.Void(context.Background(), t, id)
				if !imported {
					void = append(void, id)
				}
				return imported, err
			}
			d.imp = func(ctx context.Context, m *Memory, f *driver.File) error {
				if slices.Contains(void, f.ID) {
					return nil
				}
				return m.Import(ctx, f)
			}
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed := failedTarget(t, "Void", func() *bench {
				d := drv()
				d.Memory = NewMemory()
				return &bench{Target: d, typed: true, read: d.Rows}
			})
			if !slices.Contains(failed, "Void") {
				t.Errorf("failed: %v, want Void", failed)
			}
		})
	}
}
