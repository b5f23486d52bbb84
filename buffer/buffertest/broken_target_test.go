package buffertest

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

func TestBrokenTargetIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("the sound targets are enough for the race detector")
	}
	for name, tc := range map[string]struct {
		caughtBy string
		driver   brokenTarget
	}{
		"a repeated import doubles": {"ImportAgain", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			m.forget(f.Table.ID)
			return m.Import(ctx, f)
		}}},
		"only the last file is remembered": {"ImportAgain", func() brokenTarget {
			var mu sync.Mutex
			last := ""
			return brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
				mu.Lock()
				defer mu.Unlock()
				if last != f.ID {
					m.forget(f.Table.ID)
				}
				last = f.ID
				return m.Import(ctx, f)
			}}
		}()},
		"a repeated import after a restart doubles": {"ImportAgainAfterReopen", brokenTarget{reopen: func(m *Memory) *Memory {
			m.forget(eventsTable().ID)
			return m
		}}},
		"the rows are lost by a restart": {"ImportAgainAfterReopen", brokenTarget{reopen: func(*Memory) *Memory { return NewMemory() }}},
		"a repeated import is refused": {"ImportAgain", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if n, _ := m.CountFile(ctx, f.Table, f.ID); n > 0 {
				return fs.ErrExist
			}
			return m.Import(ctx, f)
		}}},
		"rows are visible before the file is complete": {"ImportReadFails", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if err := m.Ensure(ctx, f.Table); err != nil {
				return err
			}
			if n, _ := m.CountFile(ctx, f.Table, f.ID); n > 0 {
				return nil
			}
			for _, obj := range f.Slices {
				rows, err := readSlice(ctx, f, obj)
				if err != nil {
					return err
				}
				m.appendRows(f.Table.ID, rows)
			}
			m.remember(f)
			return nil
		}}},
		"the id is stored before the rows": {"ImportOpenFails", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if err := m.Ensure(ctx, f.Table); err != nil {
				return err
			}
			if m.remember(f) {
				return nil
			}
			rows, err := readRows(ctx, f)
			m.appendRows(f.Table.ID, rows)
			return err
		}}},
		"a broken slice ends the rows": {"ImportReadFails", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			rows, err := readSlice(ctx, f, obj)
			if err != nil {
				return nil, nil
			}
			return rows, nil
		})},
		"the cause of a failed import is lost": {"ImportReadFails", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			err := m.Import(ctx, f)
			var schema *driver.SchemaError
			if err == nil || errors.As(err, &schema) {
				return err
			}
			return errors.New("import failed")
		}}},
		"every error is permanent": {"ImportOpenFails", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			return driver.Permanent(m.Import(ctx, f))
		}}},
		"readers stay open": {"Import", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			rc, err := f.OpenRows(ctx, obj)
			if err != nil {
				return nil, err
			}
			data, err := io.ReadAll(rc)
			if err != nil {
				return nil, err
			}
			return parseRows(data)
		})},
		"the context is ignored": {"ImportCancelled", brokenTarget{imp: func(_ context.Context, m *Memory, f *driver.File) error {
			return m.Import(context.Background(), f)
		}}},
		"uncreate takes every empty table": {"Uncreate", brokenTarget{uncreate: func(ctx context.Context, m *Memory, table, _ string) error {
			if len(m.Rows(table)) > 0 {
				return nil
			}
			return m.Drop(ctx, table)
		}}},
		"uncreate takes rows": {"Uncreate", brokenTarget{uncreate: func(ctx context.Context, m *Memory, table, creation string) error {
			if len(m.Rows(table)) > 0 {
				return m.Drop(ctx, table)
			}
			return m.Uncreate(ctx, table, creation)
		}}},
		"uncreate takes nothing": {"Uncreate", brokenTarget{uncreate: func(context.Context, *Memory, string, string) error { return nil }}},
		"uncreate of an absent table fails": {"Uncreate", brokenTarget{uncreate: func(ctx context.Context, m *Memory, table, creation string) error {
			if m.Columns(table) == nil {
				return fs.ErrNotExist
			}
			return m.Uncreate(ctx, table, creation)
		}}},
		"ensure creates nothing": {"Ensure", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			if m.Columns(t.ID) == nil {
				return nil
			}
			return m.Ensure(ctx, t)
		}}},
		"ensure empties the table": {"EnsureKeepsRows", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			if err := m.Ensure(ctx, t); err != nil {
				return err
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.tables[t.ID].rows = nil
			return nil
		}}},
		"ensure refuses a present table": {"Ensure", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			if slices.Equal(m.Columns(t.ID), t.Columns) {
				return fs.ErrExist
			}
			return m.Ensure(ctx, t)
		}}},
		"ensure alters the table": {"EnsureOtherColumns", brokenTarget{ensure: func(_ context.Context, m *Memory, t driver.Table) error {
			m.Alter(t.ID, t.Columns...)
			return nil
		}}},
		"ensure does not compare the order": {"EnsureOtherColumns", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			if slices.Equal(slices.Sorted(slices.Values(datatype.Names(m.Columns(t.ID)))), slices.Sorted(slices.Values(t.Names()))) {
				return nil
			}
			return m.Ensure(ctx, t)
		}}},
		"columns are compared as joined text": {"EnsureOtherColumns", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			if strings.Join(datatype.Names(m.Columns(t.ID)), ",") == strings.Join(t.Names(), ",") {
				return nil
			}
			return m.Ensure(ctx, t)
		}}},
		"a mismatch is a plain error": {"EnsureOtherColumns", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			if m.Ensure(ctx, t) != nil {
				return errors.New("columns differ")
			}
			return nil
		}}},
		"a mismatch does not name the columns": {"ImportOtherColumns", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			err := m.Import(ctx, f)
			var schema *driver.SchemaError
			if errors.As(err, &schema) {
				return &driver.SchemaError{Table: schema.Table}
			}
			return err
		}}},
		"import does not compare the columns": {"ImportOtherColumns", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if columns := m.Columns(f.Table.ID); columns != nil {
				f.Table.Columns = columns
			}
			return m.Import(ctx, f)
		}}},
		"a mismatch marks the file as imported": {"ImportOtherColumns", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if m.Columns(f.Table.ID) != nil && m.remember(f) {
				return nil
			}
			err := m.Ensure(ctx, f.Table)
			if err != nil {
				return err
			}
			rows, err := readRows(ctx, f)
			if err == nil {
				m.appendRows(f.Table.ID, rows)
				m.remember(f)
			}
			return err
		}}},
		"import needs the table": {"ImportCreatesTable", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if m.Columns(f.Table.ID) == nil {
				return fs.ErrNotExist
			}
			return m.Import(ctx, f)
		}}},
		"slices come in another order": {"Import", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			reversed := *f
			reversed.Slices = slices.Clone(f.Slices)
			slices.Reverse(reversed.Slices)
			return m.Import(ctx, &reversed)
		}}},
		"the slices of the file are sorted in place": {"Import", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			err := m.Import(ctx, f)
			slices.Reverse(f.Slices)
			return err
		}}},
		"equal rows are one": {"ImportManyFiles", func() brokenTarget {
			return brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
				if err := m.Import(ctx, f); err != nil {
					return err
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				seen := map[string]bool{}
				table := m.tables[f.Table.ID]
				table.rows = slices.DeleteFunc(slices.Clone(table.rows), func(row []string) bool {
					key := fmt.Sprintf("%q", row)
					dup := seen[key]
					seen[key] = true
					return dup
				})
				return nil
			}}
		}()},
		"only the first gzip member is read": {"ImportEncodings", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			if obj.Encoding != driver.Gzip {
				return readSlice(ctx, f, obj)
			}
			rc, err := f.OpenSlice(ctx, obj)
			if err != nil {
				return nil, err
			}
			defer rc.Close()
			zr, err := gzip.NewReader(rc)
			if err != nil {
				return nil, err
			}
			zr.Multistream(false)
			data, err := io.ReadAll(zr)
			if err != nil {
				return nil, err
			}
			return parseRows(data)
		})},
		"all slices are read as the first": {"ImportEncodings", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			obj.Encoding = f.Slices[0].Encoding
			return readSlice(ctx, f, obj)
		})},
		"checksums are not compared": {"ImportDamagedSlice", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			rows, err := readSlice(ctx, f, obj)
			if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, nil
			}
			return rows, err
		})},
		"rows are not counted": {"ImportMissingRows", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			rc, err := f.OpenRows(ctx, obj)
			if err != nil {
				return nil, err
			}
			defer rc.Close()
			data, err := io.ReadAll(rc)
			if err != nil {
				return nil, err
			}
			return parseRows(data)
		})},
		"two ids share a table": {"TableIDs", brokenTarget{
			ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
				t.ID = path.Base(t.ID)
				return m.Ensure(ctx, t)
			},
			imp: func(ctx context.Context, m *Memory, f *driver.File) error {
				base := *f
				base.Table.ID = path.Base(f.Table.ID)
				return m.Import(ctx, &base)
			},
		}},
		"an id is refused for now": {"TableIDs", brokenTarget{ensure: func(ctx context.Context, m *Memory, t driver.Table) error {
			if len(t.ID) > 255 {
				return errors.New("file name too long")
			}
			return m.Ensure(ctx, t)
		}}},
		"line ends are changed": {"ImportCells", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			rc, err := f.OpenRows(ctx, obj)
			if err != nil {
				return nil, err
			}
			defer rc.Close()
			return csv.NewReader(rc).ReadAll()
		})},
		"cells are trimmed":       {"ImportCells", mapCells(strings.TrimSpace)},
		"empty cells become NULL": {"ImportCells", mapCells(func(s string) string { return map[bool]string{true: "NULL", false: s}[s == ""] })},
		"NUL ends a cell":         {"ImportBinaryCells", mapCells(func(s string) string { s, _, _ = strings.Cut(s, "\x00"); return s })},
		"cells become UTF-8":      {"ImportBinaryCells", mapCells(func(s string) string { return strings.ToValidUTF8(s, "\ufffd") })},
		"long files are cut": {"ImportLargeFile", importWith(func(ctx context.Context, f *driver.File, obj driver.Object) ([][]string, error) {
			rows, err := readSlice(ctx, f, obj)
			return rows[:min(len(rows), 400)], err
		})},
		"two imports race for a table": {"ImportConcurrently", func() brokenTarget {
			meet := meeting(2)
			return brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
				rows, err := readRows(ctx, f)
				if err != nil {
					return err
				}
				before := m.Rows(f.Table.ID)
				meet()
				if err := m.Ensure(ctx, f.Table); err != nil {
					return err
				}
				if m.remember(f) {
					return nil
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				m.tables[f.Table.ID].rows = append(slices.Clip(before), rows...)
				return nil
			}}
		}()},
		"two imports of a file both find it absent": {"ImportSameFileConcurrently", func() brokenTarget {
			meet := meeting(2)
			return brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
				if err := m.Ensure(ctx, f.Table); err != nil {
					return err
				}
				if n, _ := m.CountFile(ctx, f.Table, f.ID); n > 0 {
					return nil
				}
				rows, err := readRows(ctx, f)
				if err != nil {
					return err
				}
				meet()
				m.appendRows(f.Table.ID, rows)
				m.remember(f)
				return nil
			}}
		}()},
		"the id is stored in a second step under a mutex": {"ImportInterrupted", func() brokenTarget {
			var mu sync.Mutex
			return brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
				mu.Lock()
				defer mu.Unlock()
				if err := m.Ensure(ctx, f.Table); err != nil {
					return err
				}
				if n, _ := m.CountFile(ctx, f.Table, f.ID); n > 0 {
					return nil
				}
				rows, err := readRows(ctx, f)
				if err != nil {
					return err
				}
				m.appendRows(f.Table.ID, rows) // the first transaction
				if err := ctx.Err(); err != nil {
					return err
				}
				m.remember(f) // the second one
				return nil
			}}
		}()},
		"the slices are stored one by one": {"ImportInterrupted", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			rows, err := readRows(ctx, f)
			if err != nil {
				return err
			}
			if err := m.Ensure(ctx, f.Table); err != nil || m.remember(f) {
				return err
			}
			for _, row := range rows {
				if err := ctx.Err(); err != nil {
					return err
				}
				m.appendRows(f.Table.ID, [][]string{row})
			}
			return nil
		}}},
		"the id is looked for before the rows are read": {"ImportBesideAbandoned", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if err := m.Ensure(ctx, f.Table); err != nil {
				return err
			}
			if n, _ := m.CountFile(ctx, f.Table, f.ID); n > 0 {
				return nil
			}
			rows, err := readRows(ctx, f)
			if err != nil {
				return err
			}
			m.appendRows(f.Table.ID, rows)
			m.remember(f)
			return nil
		}}},
		"a note that is not saved is ignored": {"SaveProgressFails", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			_ = f.SaveProgress(ctx, []byte("job 1"))
			return m.Import(ctx, f)
		}}},
		"a note is not read": {"ImportAgain", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			// The job of an earlier attempt has already imported the rows, and a new one imports them again.
			if err := f.SaveProgress(ctx, []byte("job 1")); err != nil {
				return err
			}
			m.forget(f.Table.ID)
			return m.Import(ctx, f)
		}}},
		"a note is too long": {"Import", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			if err := f.SaveProgress(ctx, make([]byte, 5<<10)); err != nil {
				return err
			}
			return m.Import(ctx, f)
		}}},
		"the count is that of the table": {"CountFile", brokenTarget{count: func(_ context.Context, m *Memory, t driver.Table, _ string) (int64, error) {
			return int64(len(m.Rows(t.ID))), nil
		}}},
		"files of two engines count as one": {"Engines", brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			own := *f
			own.ID = f.ID[strings.LastIndex(f.ID, "-")+1:] // without the engine
			return m.Import(ctx, &own)
		}}},
		"the count of an unknown file is an error": {"CountFile", brokenTarget{count: func(ctx context.Context, m *Memory, t driver.Table, file string) (int64, error) {
			n, err := m.CountFile(ctx, t, file)
			if n == 0 {
				err = fs.ErrNotExist
			}
			return n, err
		}}},
		"the count is of lines": {"CountFile", brokenTarget{count: func(ctx context.Context, m *Memory, t driver.Table, file string) (int64, error) {
			n, err := m.CountFile(ctx, t, file)
			if file == "file-2" {
				n += 3
			}
			return n, err
		}}},
	} {
		t.Run(name, func(t *testing.T) { expectCaught(t, tc.caughtBy, tc.driver) })
	}
}

// A target that refuses one kind of binary cell is still caught when it changes another.
func TestTextOnlyTargetThatDropsNULIsCaught(t *testing.T) {
	failed := failedTarget(t, "ImportBinaryCells", func() *bench {
		cut := mapCells(func(s string) string { return strings.ReplaceAll(s, "\x00", "") })
		drv := brokenTarget{Memory: NewMemory(), imp: func(ctx context.Context, m *Memory, f *driver.File) error {
			rows, err := readRows(ctx, f)
			for _, cell := range slices.Concat(rows...) {
				if !utf8.ValidString(cell) {
					return driver.Permanent(errors.New("not UTF-8"))
				}
			}
			if err != nil {
				return err
			}
			return cut.imp(ctx, m, f)
		}}
		return &bench{Target: &drv, textOnly: true, typed: true, read: drv.Rows}
	})
	if len(failed) != 1 {
		t.Errorf("ImportBinaryCells does not catch it")
	}
}
