package driver_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// memory is a target whose tables end with the process. A real one keeps the id of the file in the same transaction as the rows.
type memory struct {
	columns map[string][]datatype.Column
	done    map[string]bool
	rows    []string
}

func (m *memory) Ensure(_ context.Context, t driver.Table) (err error) {
	m.columns[t.ID], err = t.Fit(m.columns[t.ID]) // a *driver.SchemaError if they differ
	return err
}

func (m *memory) Import(ctx context.Context, f *driver.File) error {
	if err := m.Ensure(ctx, f.Table); err != nil || m.done[f.ID] {
		return err
	}
	var stored []string
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for rows.Next() {
		stored = append(stored, fmt.Sprintf("%q", rows.Cells()))
	}
	if err := rows.Err(); err != nil {
		return err // store nothing
	}
	m.rows, m.done[f.ID] = append(m.rows, stored...), true
	return nil
}

// A target stores the rows of a file once, however often the engine repeats the import.
func ExampleTarget() {
	const text = "\"1\",\"paid\"\n\"2\",\n" // an empty cell without quotes is NULL
	file := &driver.File{
		ID:     "web-7",
		Table:  driver.Table{ID: "orders", Columns: datatype.UntypedColumns("id", "state")},
		Slices: []driver.Object{{ID: "web-7-1", Rows: 2, RawBytes: int64(len(text))}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		},
	}
	target := &memory{columns: map[string][]datatype.Column{}, done: map[string]bool{}}
	for range 2 {
		if err := target.Import(context.Background(), file); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(strings.Join(target.rows, "\n"))
	// Output:
	// ["1" "paid"]
	// ["2" ""]
}
