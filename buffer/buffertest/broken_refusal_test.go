package buffertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

var refusal = &Refusal{Columns: datatype.UntypedColumns("id", "sum"), Good: []string{"a", "1"}, Bad: []string{"a", "many"}, Column: "sum"}

// refusing returns a driver that refuses the row of refusal, and then does as a test wants.
func refusing(refuse func(ctx context.Context, m *Memory, f *driver.File, refused *driver.RowsError) error) brokenTarget {
	return brokenTarget{imp: func(ctx context.Context, m *Memory, f *driver.File) error {
		rows, err := readRows(ctx, f)
		if err != nil {
			return err
		}
		refused := &driver.RowsError{Complete: true, Err: errors.New("refused")}
		for i, row := range rows {
			if slices.Equal(row, refusal.Bad) {
				refused.Add(driver.RowError{Row: int64(i), Column: "sum", Reason: "malformed"})
			}
		}
		if len(refused.Rows) == 0 {
			return m.Import(ctx, f)
		}
		return refuse(ctx, m, f, refused)
	}}
}

func TestBrokenRefusalIsCaught(t *testing.T) {
	for name, refuse := range map[string]func(context.Context, *Memory, *driver.File, *driver.RowsError) error{
		"the rows are not named": func(_ context.Context, _ *Memory, _ *driver.File, e *driver.RowsError) error {
			return driver.Permanent(e.Err)
		},
		"rows count from the slice": func(_ context.Context, _ *Memory, _ *driver.File, e *driver.RowsError) error {
			for i := range e.Rows {
				e.Rows[i].Row %= 20
			}
			return e
		},
		"only the first row is named and nothing said": func(_ context.Context, _ *Memory, _ *driver.File, e *driver.RowsError) error {
			e.Rows = e.Rows[:1]
			return e
		},
		"another column": func(_ context.Context, _ *Memory, _ *driver.File, e *driver.RowsError) error {
			e.Rows[1].Column = "id"
			return e
		},
		"no reason": func(_ context.Context, _ *Memory, _ *driver.File, e *driver.RowsError) error {
			e.Rows[0].Reason = ""
			return e
		},
		"the message has the value": func(_ context.Context, _ *Memory, _ *driver.File, e *driver.RowsError) error {
			e.Rows[1].Message = `bad value "many"`
			return e
		},
		"the cause has the value": func(_ context.Context, _ *Memory, _ *driver.File, e *driver.RowsError) error {
			e.Err = errors.New(`bad value "many"`)
			return e
		},
		"the other rows are stored": func(ctx context.Context, m *Memory, f *driver.File, e *driver.RowsError) error {
			return errors.Join(e, m.Import(ctx, f))
		},
		"the file counts as imported": func(_ context.Context, m *Memory, f *driver.File, e *driver.RowsError) error {
			m.remember(f)
			return e
		},
	} {
		t.Run(name, func(t *testing.T) { expectCaught(t, "RefusedRows", refusing(refuse)) })
	}
	t.Run("a sound driver passes", func(t *testing.T) {
		for _, complete := range []bool{true, false} {
			drv := refusing(func(_ context.Context, _ *Memory, _ *driver.File, e *driver.RowsError) error {
				if e.Complete = complete; !complete {
					e.Rows = e.Rows[:1]
				}
				return fmt.Errorf("import: %w", e)
			})
			drv.Memory = NewMemory()
			if failed := failedTarget(t, "RefusedRows", func() *bench {
				return &bench{Target: &drv, typed: true, read: drv.Rows, refusal: refusal}
			}); failed != nil {
				t.Errorf("complete %v: it fails", complete)
			}
		}
	})
}
