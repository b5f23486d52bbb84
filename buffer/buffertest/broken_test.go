package buffertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/ctxio"
)

// brokenTarget is a Memory whose operations a test replaces.
type brokenTarget struct {
	*Memory
	ensure   func(ctx context.Context, m *Memory, t buffer.Table) error
	imp      func(ctx context.Context, m *Memory, f *buffer.File) error
	count    func(ctx context.Context, m *Memory, t buffer.Table, file string) (int64, error)
	reopen   func(m *Memory) *Memory
	uncreate func(ctx context.Context, m *Memory, table, creation string) error
	extend   func(ctx context.Context, m *Memory, t buffer.Table) error
}

func (b *brokenTarget) Extend(ctx context.Context, t buffer.Table) error {
	if b.extend != nil {
		return b.extend(ctx, b.Memory, t)
	}
	return b.Memory.Extend(ctx, t)
}

func (b *brokenTarget) Ensure(ctx context.Context, t buffer.Table) error {
	if b.ensure != nil {
		return b.ensure(ctx, b.Memory, t)
	}
	return b.Memory.Ensure(ctx, t)
}

func (b *brokenTarget) Import(ctx context.Context, f *buffer.File) error {
	if b.imp != nil {
		return b.imp(ctx, b.Memory, f)
	}
	return b.Memory.Import(ctx, f)
}

func (b *brokenTarget) CountFile(ctx context.Context, t buffer.Table, file string) (int64, error) {
	if b.count != nil {
		return b.count(ctx, b.Memory, t, file)
	}
	return b.Memory.CountFile(ctx, t, file)
}

func (b *brokenTarget) Uncreate(ctx context.Context, table, creation string) error {
	if b.uncreate != nil {
		return b.uncreate(ctx, b.Memory, table, creation)
	}
	return b.Memory.Uncreate(ctx, table, creation)
}

// forget drops the ids of the imported files, so that a driver built on Memory duplicates them.
func (m *Memory) forget(table string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tables[table]; t != nil {
		t.files = make(map[string]int64)
	}
}

func (m *Memory) remember(f *buffer.File) (known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables[f.Table.ID]
	_, known = t.files[f.ID]
	t.files[f.ID] = f.Rows
	return known
}

func (m *Memory) appendRows(table string, rows [][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tables[table].rows = append(m.tables[table].rows, rows...)
}

// importWith imports with another way to read the rows of a slice.
func importWith(read func(ctx context.Context, f *buffer.File, obj buffer.Object) ([][]string, error)) brokenTarget {
	return brokenTarget{imp: func(ctx context.Context, m *Memory, f *buffer.File) error {
		if err := m.Ensure(ctx, f.Table); err != nil {
			return err
		}
		var all [][]string
		for _, obj := range f.Slices {
			rows, err := read(ctx, f, obj)
			if err != nil {
				return err
			}
			all = append(all, rows...)
		}
		if !m.remember(f) {
			m.appendRows(f.Table.ID, all)
		}
		return nil
	}}
}

// readSlice reads one slice and does not compare the cells with the columns.
func readSlice(ctx context.Context, f *buffer.File, obj buffer.Object) ([][]string, error) {
	rc, err := f.OpenRows(ctx, obj)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	var data bytes.Buffer
	if _, err := io.Copy(ctxio.Writer(ctx, &data), rc); err != nil {
		return nil, err
	}
	rows, err := parseRows(data.Bytes())
	if err == nil && int64(len(rows)) != obj.Rows {
		err = fmt.Errorf("staging has %d rows, want %d", len(rows), obj.Rows)
	}
	return rows, err
}

// mapCells imports with changed cells.
func mapCells(change func(cell string) string) brokenTarget {
	return importWith(func(ctx context.Context, f *buffer.File, obj buffer.Object) ([][]string, error) {
		rows, err := readSlice(ctx, f, obj)
		for _, row := range rows {
			for i := range row {
				row[i] = change(row[i])
			}
		}
		return rows, err
	})
}

// expectCaught runs the one check that must catch a driver.
func expectCaught(t *testing.T, check string, broken brokenTarget) {
	failed := failedTarget(t, check, func() *bench {
		driver := broken
		driver.Memory = NewMemory()
		b := &bench{Target: &driver, typed: true, refusal: refusal}
		b.read = func(table string) [][]string { return driver.Rows(table) }
		b.reopen = func() buffer.Target {
			if driver.reopen != nil {
				driver.Memory = driver.reopen(driver.Memory)
			}
			return &driver
		}
		return b
	})
	if len(failed) != 1 {
		t.Errorf("%s does not catch it", check)
	}
}
