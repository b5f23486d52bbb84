package buffertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryStaging(t *testing.T) {
	buffertest.Staging(t, func(*testing.T) driver.Staging { return buffertest.NewMemory() })
}

func TestMemoryTarget(t *testing.T) {
	var m *buffertest.Memory
	harness := buffertest.TargetHarness{
		Open: func(*testing.T) driver.Target {
			m = buffertest.NewMemory()
			return m
		},
		Rows:   func(_ *testing.T, table string) [][]string { return m.Rows(table) },
		Reopen: func(*testing.T) driver.Target { return m },
		Typed:  true,
	}
	buffertest.Target(t, harness)
	t.Run("WithStaging", func(t *testing.T) {
		harness.Staging = func(*testing.T) driver.Staging { return m }
		buffertest.Target(t, harness)
	})
}

func TestManyMemory(t *testing.T) {
	var m buffertest.ManyMemory
	buffertest.Target(t, buffertest.TargetHarness{
		Open: func(*testing.T) driver.Target {
			m = buffertest.ManyMemory{Memory: buffertest.NewMemory()}
			return m
		},
		Rows:   func(_ *testing.T, table string) [][]string { return m.Rows(table) },
		Reopen: func(*testing.T) driver.Target { return m },
		Typed:  true,
	})
}

func TestMemoryHooks(t *testing.T) {
	ctx := t.Context()
	refused, lost := errors.New("refused"), errors.New("lost")
	obj := driver.Object{ID: "slice-1", Rows: 1}
	m := buffertest.NewMemory()
	var fail sync.Map // errors by hook and operation
	failure := func(hook string, c buffertest.Call) error {
		err, _ := fail.Load(hook + " " + string(c.Op))
		failed, _ := err.(error)
		return failed
	}
	m.Before = func(_ context.Context, c buffertest.Call) error { return failure("before", c) }
	m.After = func(_ context.Context, c buffertest.Call) error { return failure("after", c) }

	fail.Store("before put", refused)
	if err := m.Put(ctx, obj, text("\"a\"\n")); err != refused {
		t.Errorf("Put = %v, want the error of Before", err)
	}
	if n := len(m.Objects()); n != 0 {
		t.Errorf("got %d objects after a refused Put, want 0", n)
	}
	fail.Delete("before put")
	fail.Store("after put", lost)
	if err := m.Put(ctx, obj, text("\"a\"\n")); err != lost {
		t.Errorf("Put = %v, want the error of After", err)
	}
	if got := m.Objects(); !slices.Equal(got, []driver.Object{obj}) {
		t.Errorf("Objects = %v after a Put whose answer was lost, want it", got)
	}
	fail.Store("after import", lost)
	file := &driver.File{
		ID: "file-1", Table: driver.Table{ID: "t", Columns: datatype.UntypedColumns("c")}, Slices: []driver.Object{obj},
		OpenSlice: m.Open,
	}
	if err := m.Import(ctx, file); err != lost {
		t.Errorf("Import = %v, want the error of After", err)
	}
	if n := len(m.Rows("t")); n != 1 {
		t.Errorf("%d rows after an Import whose answer was lost, want 1", n)
	}
	want := []buffertest.Call{
		{Op: buffertest.OpPut, ID: "slice-1", Err: refused},
		{Op: buffertest.OpPut, ID: "slice-1", Err: lost},
		{Op: buffertest.OpImport, ID: "file-1", Err: lost},
		{Op: buffertest.OpOpen, ID: "slice-1"},
	}
	if got := m.Calls(); !slices.Equal(got, want) {
		t.Errorf("Calls = %v, want %v", got, want)
	}

	m.Alter("t", datatype.UntypedColumns("other")...)
	fail.Delete("after import")
	file.ID = "file-2"
	var schema *driver.SchemaError
	if err := m.Import(ctx, file); !errors.As(err, &schema) {
		t.Errorf("Import into an altered table = %v, want a *driver.SchemaError", err)
	}
	if got := m.Columns("t"); !slices.Equal(got, datatype.UntypedColumns("other")) {
		t.Errorf("Columns = %q, want other", got)
	}
}

// text is a source of a string.
type text string

func (s text) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte(s))), nil }

func (s text) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(s))
	return int64(n), err
}

// A server that accepts the rows but whose response is lost.
func ExampleMemory() {
	ctx := context.Background()
	m := buffertest.NewMemory()
	var attempts atomic.Int64
	m.After = func(_ context.Context, c buffertest.Call) error {
		if attempts.Add(1) == 1 && c.Op == buffertest.OpEnsure {
			return errors.New("connection reset")
		}
		return nil
	}
	table := driver.Table{ID: "events", Columns: datatype.UntypedColumns("id")}
	fmt.Println(m.Ensure(ctx, table))
	fmt.Println(m.Ensure(ctx, table))
	fmt.Println(len(m.Calls()), m.Columns("events"))
	// Output:
	// connection reset
	// <nil>
	// 2 ["id"]
}
