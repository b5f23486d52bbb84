package buffertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
)

// Op names an operation of a driver.
type Op string

// The operations that [Memory] records.
const (
	OpPut      Op = "put"
	OpOpen     Op = "open"
	OpDelete   Op = "delete"
	OpEnsure   Op = "ensure"
	OpExtend   Op = "extend"
	OpUncreate Op = "uncreate"
	OpImport   Op = "import"
	OpVoid     Op = "void"
)

// Call is one recorded operation. Delete makes one Call for each of its objects.
type Call struct {
	// Op is the operation.
	Op Op
	// ID is the id of the object (put, open, delete), of the table (ensure, extend, uncreate) or of the file (import, void).
	ID string
	// Err is the result of the operation, or nil in a hook.
	Err error
}

// Memory is a [driver.Staging] and a [driver.Target] in memory, for tests. It records each call, and two hooks can fail or
// delay it. It imports a file exactly once. It is safe for concurrent use.
//
// Hooks run without a lock held and may run concurrently. They must be set before the first use. The operation returns the
// error of a hook unchanged.
type Memory struct {
	// Before runs before an operation takes effect. An error means that nothing was done. A hook that waits for ctx.Done()
	// simulates a server that hangs.
	Before func(ctx context.Context, call Call) error
	// After runs after an operation took effect. An error simulates a lost response, whose caller does not know the outcome.
	After func(ctx context.Context, call Call) error
	// Refuse, if not nil, looks at each row of an import. A row for which it returns a Reason is refused. The Row of the result is ignored.
	Refuse func(table string, row []string) driver.RowError
	// Names is how many refused rows an error names: 0 all of them, -1 none.
	Names int
	// Alters, if not nil, changes the error before it is returned.
	Alters func(*driver.RowsError)

	mu      sync.Mutex // guards the fields below, never held while a source, a reader or a hook runs
	objects map[string]object
	tables  map[string]*memoryTable
	calls   []*Call
}

type object struct {
	driver.Object
	data []byte // never modified
}

type memoryTable struct {
	columns []datatype.Column
	rows    [][]string
	files   map[string]int64 // imported file id to its rows; -1 for one that is ruled out
	// Creation is the mark of the table; "" for none.
	creation string
}

var (
	_ driver.Staging   = (*Memory)(nil)
	_ driver.Target    = (*Memory)(nil)
	_ driver.Counter   = (*Memory)(nil)
	_ driver.Extender  = (*Memory)(nil)
	_ driver.Taker     = (*Memory)(nil)
	_ driver.Uncreator = (*Memory)(nil)
	_ driver.Voider    = (*Memory)(nil)
)

// NewMemory returns empty levels.
func NewMemory() *Memory {
	return &Memory{objects: make(map[string]object), tables: make(map[string]*memoryTable)}
}

// do records a call and runs it between the hooks.
func (m *Memory) do(ctx context.Context, op Op, id string, effect func() error) (err error) {
	call := &Call{Op: op, ID: id}
	m.mu.Lock()
	m.calls = append(m.calls, call)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		call.Err = err
		m.mu.Unlock()
	}()
	arg := Call{Op: op, ID: id}
	if m.Before != nil {
		if err := m.Before(ctx, arg); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	if m.After != nil {
		return m.After(ctx, arg)
	}
	return nil
}

// Put implements [driver.Staging].
func (m *Memory) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	return m.do(ctx, OpPut, obj.ID, func() error {
		var data bytes.Buffer
		if _, err := src.WriteTo(ctxio.Writer(ctx, &data)); err != nil {
			return fmt.Errorf("read object %s: %w", obj.ID, err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.objects[obj.ID] = object{obj, data.Bytes()}
		return nil
	})
}

// Open implements [driver.Staging].
func (m *Memory) Open(ctx context.Context, obj driver.Object) (rc io.ReadCloser, err error) {
	err = m.do(ctx, OpOpen, obj.ID, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		o, ok := m.objects[obj.ID]
		if !ok {
			return fmt.Errorf("open object %s: %w", obj.ID, fs.ErrNotExist)
		}
		rc = io.NopCloser(bytes.NewReader(o.data))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rc, nil
}

// Delete implements [driver.Staging].
func (m *Memory) Delete(ctx context.Context, objs ...driver.Object) error {
	for _, obj := range objs {
		err := m.do(ctx, OpDelete, obj.ID, func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.objects, obj.ID)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Ensure implements [driver.Target].
func (m *Memory) Ensure(ctx context.Context, t driver.Table) error { return m.create(ctx, OpEnsure, t) }

// Extend implements [driver.Extender].
func (m *Memory) Extend(ctx context.Context, t driver.Table) error { return m.create(ctx, OpExtend, t) }

func (m *Memory) create(ctx context.Context, op Op, t driver.Table) error {
	return m.do(ctx, op, t.ID, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		_, err := m.ensure(t)
		return err
	})
}

// Uncreate implements [driver.Uncreator].
func (m *Memory) Uncreate(ctx context.Context, tableID, creation string) error {
	return m.do(ctx, OpUncreate, tableID, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if t := m.tables[tableID]; t != nil && creation != "" && t.creation == creation && len(t.rows) == 0 {
			delete(m.tables, tableID)
		}
		return nil
	})
}

// ensure returns the table as t needs it, creating or extending it. The caller holds mu.
func (m *Memory) ensure(t driver.Table) (*memoryTable, error) {
	table := m.tables[t.ID]
	if table == nil {
		table = &memoryTable{files: make(map[string]int64), creation: t.Creation}
	}
	columns, err := t.Fit(table.columns)
	if err != nil {
		return nil, err
	}
	if more := len(columns) - len(table.columns); more > 0 && len(table.rows) > 0 {
		rows := make([][]string, len(table.rows)) // the rows that readers hold stay as they are
		for i, row := range table.rows {
			rows[i] = append(slices.Clone(row), slices.Repeat([]string{Null}, more)...)
		}
		table.rows = rows
	}
	table.columns = slices.Clone(columns)
	m.tables[t.ID] = table
	return table, nil
}

// Import implements [driver.Target].
func (m *Memory) Import(ctx context.Context, f *driver.File) error {
	return m.do(ctx, OpImport, f.ID, func() error {
		m.mu.Lock()
		_, err := m.ensure(f.Table)
		m.mu.Unlock()
		if err != nil {
			return err
		}
		rows, err := readRows(ctx, f)
		if err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		table, err := m.ensure(f.Table) // it may have been altered since
		if err != nil {
			return err
		}
		switch n, done := table.files[f.ID]; {
		case n < 0:
			return driver.Permanent(fmt.Errorf("import %s: %w", f.ID, driver.ErrVoid))
		case !done:
			if err := m.refuse(f.Table.ID, rows); err != nil {
				return err
			}
			table.files[f.ID] = int64(len(rows))
			for _, row := range rows {
				table.rows = append(table.rows, table.row(f.Table, row))
			}
		}
		return nil
	})
}

// refuse returns the error about the rows that a table refuses.
func (m *Memory) refuse(table string, rows [][]string) error {
	if m.Refuse == nil {
		return nil
	}
	e := &driver.RowsError{}
	for i, row := range rows {
		r := m.Refuse(table, row)
		if r.Reason == "" {
			continue
		}
		if r.Row = int64(i); m.Names < 0 {
			r.Row = -1
		}
		if more := e.Add(r); !more || len(e.Rows) == m.Names || m.Names < 0 {
			return m.altered(e)
		}
	}
	if e.Complete = true; len(e.Rows) == 0 {
		return nil
	}
	return m.altered(e)
}

func (m *Memory) altered(e *driver.RowsError) error {
	if m.Alters != nil {
		m.Alters(e)
	}
	return e
}

// Void implements [driver.Voider].
func (m *Memory) Void(ctx context.Context, t driver.Table, fileID string) (imported bool, err error) {
	err = m.do(ctx, OpVoid, fileID, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		table, err := m.ensure(t)
		if err != nil {
			return err
		}
		n, done := table.files[fileID]
		if imported = done && n >= 0; !imported {
			table.files[fileID] = -1
		}
		return nil
	})
	return imported, err
}

// row returns a row of a file in the order of the table.
func (m *memoryTable) row(t driver.Table, row []string) []string {
	if !t.Extend {
		return row
	}
	cells := slices.Repeat([]string{Null}, len(m.columns))
	for i, at := range t.Places(m.columns) {
		if at >= 0 {
			cells[i] = row[at]
		}
	}
	return cells
}

func readRows(ctx context.Context, f *driver.File) (all [][]string, err error) {
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for rows.Next() {
		all = append(all, texts(rows.Cells()))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// ofTable returns what read gives for a table, or the zero value if there is no such table.
func ofTable[R any](m *Memory, id string, read func(*memoryTable) R) (none R) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tables[id]; t != nil {
		return read(t)
	}
	return none
}

// CountFile implements [driver.Counter]. It is not recorded and has no hooks.
func (m *Memory) CountFile(_ context.Context, t driver.Table, fileID string) (int64, error) {
	return ofTable(m, t.ID, func(t *memoryTable) int64 { return max(0, t.files[fileID]) }), nil
}

// TakeAway removes an imported file from the count of its table, like a loader that deletes the files it has loaded. Rows
// still returns its rows.
func (m *Memory) TakeAway(table, fileID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tables[table]; t != nil && t.files[fileID] > 0 {
		t.files[fileID] = 0
	}
}

// TakenAway implements [driver.Taker]. It is not recorded and has no hooks.
func (m *Memory) TakenAway(_ context.Context, t driver.Table, fileID string) (bool, error) {
	return ofTable(m, t.ID, func(t *memoryTable) bool {
		n, known := t.files[fileID]
		return known && n == 0
	}), nil
}

// Calls returns the calls so far, in the order in which they started. Err of a running call is nil.
func (m *Memory) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := make([]Call, len(m.calls))
	for i, c := range m.calls {
		calls[i] = *c
	}
	return calls
}

// Objects returns the objects in staging, in the order of their ids.
func (m *Memory) Objects() []driver.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	objs := make([]driver.Object, 0, len(m.objects))
	for _, id := range slices.Sorted(maps.Keys(m.objects)) {
		objs = append(objs, m.objects[id].Object)
	}
	return objs
}

// Rows returns the rows of a table in the order of the imports, with [Null] for NULL, or nil if there is no such table. They are shared and
// must not be modified.
func (m *Memory) Rows(table string) [][]string {
	return ofTable(m, table, func(t *memoryTable) [][]string { return slices.Clip(t.rows) })
}

// Columns returns the columns of a table, or nil if there is no such table.
func (m *Memory) Columns(table string) []datatype.Column {
	return ofTable(m, table, func(t *memoryTable) []datatype.Column { return slices.Clone(t.columns) })
}

// Alter changes the columns of a table, as a program outside the buffer might, and creates a missing table. Its rows
// stay unchanged.
func (m *Memory) Alter(table string, columns ...datatype.Column) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables[table]
	if t == nil {
		t = &memoryTable{files: make(map[string]int64)}
		m.tables[table] = t
	}
	t.columns = slices.Clone(columns)
}

// Drop deletes a table with all its rows. A missing table is no error. It is not recorded and has no hooks.
func (m *Memory) Drop(_ context.Context, table string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tables, table)
	return nil
}
