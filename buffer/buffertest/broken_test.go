package buffertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/suitetest"
)

// brokenTarget is a Memory whose operations a test replaces.
type brokenTarget struct {
	*Memory
	ensure   func(ctx context.Context, m *Memory, t driver.Table) error
	imp      func(ctx context.Context, m *Memory, f *driver.File) error
	count    func(ctx context.Context, m *Memory, t driver.Table, file string) (int64, error)
	reopen   func(m *Memory) *Memory
	uncreate func(ctx context.Context, m *Memory, table, creation string) error
	extend   func(ctx context.Context, m *Memory, t driver.Table) error
}

func (b *brokenTarget) Extend(ctx context.Context, t driver.Table) error {
	if b.extend != nil {
		return b.extend(ctx, b.Memory, t)
	}
	return b.Memory.Extend(ctx, t)
}

func (b *brokenTarget) Ensure(ctx context.Context, t driver.Table) error {
	if b.ensure != nil {
		return b.ensure(ctx, b.Memory, t)
	}
	return b.Memory.Ensure(ctx, t)
}

func (b *brokenTarget) Import(ctx context.Context, f *driver.File) error {
	if b.imp != nil {
		return b.imp(ctx, b.Memory, f)
	}
	return b.Memory.Import(ctx, f)
}

func (b *brokenTarget) CountFile(ctx context.Context, t driver.Table, file string) (int64, error) {
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

func (m *Memory) remember(f *driver.File) (known bool) {
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
func importWith(read func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error)) brokenTarget {
	return brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
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
func readSlice(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
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
	return importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
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
	if failed := failedTarget(t, check, broken.bench); len(failed) != 1 {
		t.Errorf("%s does not catch it", check)
	}
}

// bench opens a copy of the driver.
func (b brokenTarget) bench() *bench {
	b.Memory = NewMemory()
	return &bench{
		Target: &b, typed: true, refusal: refusal,
		read: func(table string) [][]string { return b.Rows(table) },
		reopen: func() driver.Target {
			if b.reopen != nil {
				b.Memory = b.reopen(b.Memory)
			}
			return &b
		},
	}
}

func TestFailuresSayWhatToDo(t *testing.T) {
	for check, tc := range map[string]struct {
		driver brokenTarget
		advice string
	}{
		"ImportBinaryCells": {mapCells(func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }), "set TargetHarness.TextOnly"},
		"CountFile": {brokenTarget{count: func(_ context.Context, m *Memory, _ driver.Table, file string) (int64, error) {
			return m.CountFile(t.Context(), eventsTable(), file)
		}}, "count the rows of this file in this table"},
		"ImportMissingRows": {brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			_ = m.Import(ctx, f)
			return nil
		}}, "File.ReadRows counts them"},
	} {
		i := slices.IndexFunc(targetChecks, func(c targetCheck) bool { return c.name == check })
		failed := strings.Join(suitetest.Failures(t.Context(), func(r tb) {
			b := tc.driver.bench()
			b.t = r
			targetChecks[i].run(r, b)
		}), "\n")
		if !strings.Contains(failed, tc.advice) {
			t.Errorf("%s says %q, without %q", check, failed, tc.advice)
		}
	}
}
