package buffertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
)

var refusal = &Refusal{Columns: datatype.UntypedColumns("id", "sum"), Good: []string{"a", "1"}, Bad: []string{"a", "many"}, Column: "sum"}

// refusing returns a driver that refuses the row of refusal, and then does what a test wants.
func refusing(answer func(ctx context.Context, m *Memory, f *buffer.File, refused *buffer.RowsError) error) brokenTarget {
	return brokenTarget{imp: func(ctx context.Context, m *Memory, f *buffer.File) error {
		rows, err := readRows(ctx, f)
		if err != nil {
			return err
		}
		refused := &buffer.RowsError{Complete: true, Err: errors.New("refused")}
		for i, row := range rows {
			if slices.Equal(row, refusal.Bad) {
				refused.Add(buffer.RowError{Row: int64(i), Column: "sum", Reason: "malformed"})
			}
		}
		if len(refused.Rows) == 0 {
			return m.Import(ctx, f)
		}
		return answer(ctx, m, f, refused)
	}}
}

func TestBrokenRefusalIsCaught(t *testing.T) {
	for name, answer := range map[string]func(context.Context, *Memory, *buffer.File, *buffer.RowsError) error{
		"the rows are not named": func(_ context.Context, _ *Memory, _ *buffer.File, e *buffer.RowsError) error {
			return buffer.Permanent(e.Err)
		},
		"rows count from the slice": func(_ context.Context, _ *Memory, _ *buffer.File, e *buffer.RowsError) error {
			for i := range e.Rows {
				e.Rows[i].Row %= 20
			}
			return e
		},
		"only the first row is named and nothing said": func(_ context.Context, _ *Memory, _ *buffer.File, e *buffer.RowsError) error {
			e.Rows = e.Rows[:1]
			return e
		},
		"another column": func(_ context.Context, _ *Memory, _ *buffer.File, e *buffer.RowsError) error {
			e.Rows[1].Column = "id"
			return e
		},
		"no reason": func(_ context.Context, _ *Memory, _ *buffer.File, e *buffer.RowsError) error {
			e.Rows[0].Reason = ""
			return e
		},
		"the message has the value": func(_ context.Context, _ *Memory, _ *buffer.File, e *buffer.RowsError) error {
			e.Rows[1].Message = `bad value "many"`
			return e
		},
		"the cause has the value": func(_ context.Context, _ *Memory, _ *buffer.File, e *buffer.RowsError) error {
			e.Err = errors.New(`bad value "many"`)
			return e
		},
		"the other rows are stored": func(ctx context.Context, m *Memory, f *buffer.File, e *buffer.RowsError) error {
			return errors.Join(e, m.Import(ctx, f))
		},
		"the file counts as imported": func(_ context.Context, m *Memory, f *buffer.File, e *buffer.RowsError) error {
			m.remember(f)
			return e
		},
	} {
		t.Run(name, func(t *testing.T) { expectCaught(t, "RefusedRows", refusing(answer)) })
	}
	t.Run("a sound driver passes", func(t *testing.T) {
		for _, complete := range []bool{true, false} {
			driver := refusing(func(_ context.Context, _ *Memory, _ *buffer.File, e *buffer.RowsError) error {
				if e.Complete = complete; !complete {
					e.Rows = e.Rows[:1]
				}
				return fmt.Errorf("import: %w", e)
			})
			driver.Memory = NewMemory()
			if failed := failedTarget(t, "RefusedRows", func() *bench {
				return &bench{Target: &driver, typed: true, read: driver.Rows, refusal: refusal}
			}); failed != nil {
				t.Errorf("complete %v: it fails", complete)
			}
		}
	})
}
