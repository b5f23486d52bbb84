package catalog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// TestCrashWhileTableGrows ends the disk of the engine and of the catalog at each write while columns are added, left out and
// rolled back to. After the restart definition, engine and table agree, and the table has each acknowledged row once.
func TestCrashWhileTableGrows(t *testing.T) {
	if inOwnProcess(t) {
		return
	}
	seed := seedtest.Of(t)
	step := int64(casetest.Step())
	if !casetest.All() {
		step *= 2
	}
	for n, untouched := int64(1), false; !untouched && !t.Failed(); n += step {
		synctest.Test(t, func(t *testing.T) {
			g := &growing{t: t, root: t.TempDir(), disk: disktest.New(t), rows: map[int]sentRow{}}
			g.open()
			if err := g.apply(g.cat.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "Web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
				{ID: "a", Name: "a", TableID: growTable, Columns: growColumns("id", "n"), Extend: new(true)},
			}})); err != nil {
				t.Fatal(err)
			}
			g.from(n)
			g.story()
			untouched = !g.fault.hit()
			g.close()
			g.disk = g.disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, uint64(n)))})
			g.open()
			g.check(n)
			g.close()
		})
	}
}

// never is a write that is not reached.
const never = 1 << 61 // twice it is no overflow

const growTable = "in.c-web.a"

// growing is an engine and a catalog on one disk, with tables in a folder.
type growing struct {
	t       *testing.T
	root    string
	disk    *disktest.Disk
	fault   *faults
	eng     *forebay.Engine
	cat     *catalog.Catalog
	rows    map[int]sentRow
	version int // of the sink, acknowledged last
}

// sentRow is a row that was sent, perhaps with an error.
type sentRow struct {
	acked   bool
	columns []string // of the sink at that time
}

func growColumns(names ...string) (list mapping.Columns) {
	for _, name := range names {
		list = append(list, mapping.Path(name, name, mapping.DataType(datatype.Int64)))
	}
	return list
}

func (g *growing) tables() *dir.TableDir { return dir.Tables(filepath.Join(g.root, "tables")) }

func (g *growing) open() {
	g.t.Helper()
	g.fault = &faults{first: never, length: never}
	disk := g.fault.on(g.disk)
	var err error
	if g.eng, err = forebay.Open("data", forebay.Options{
		Buffer: localdisk.On(buffer.Tuning{}, disk), Target: g.tables(), Staging: dir.Staging(filepath.Join(g.root, "staging")),
	}); err != nil {
		g.t.Fatal(err)
	}
	store, err := catalog.OpenStoreOn(disk, "catalog")
	if err != nil {
		g.t.Fatal(err)
	}
	if g.cat, err = catalog.Open("", g.eng, catalog.Options{Store: store}); err != nil {
		g.t.Fatal(err)
	}
}

// close ends the process. It fails if the disk has ended.
func (g *growing) close() {
	_ = g.cat.Close()
	_ = g.eng.Close()
}

// from lets the disk end with its nth write from now on.
func (g *growing) from(n int64) { g.fault.ops.Store(never - n) }

// apply waits for a task, and notes the version that it acknowledges.
func (g *growing) apply(task catalog.Task, err error) error {
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	if task, err = g.cat.Wait(ctx, task.ID); err != nil {
		return err
	}
	if task.Status != catalog.Succeeded {
		return fmt.Errorf("task %s: %s", task.ID, task.Failure)
	}
	_, s, err := g.cat.Sink("web", "a")
	g.version = s.Version.Number
	return err
}

func (g *growing) ingest(id int) error {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	_, s, err := g.cat.Sink("web", "a")
	if err != nil {
		return err
	}
	row := sentRow{}
	for _, c := range s.Columns {
		row.columns = append(row.columns, c.Name)
	}
	res, err := g.eng.Ingest(ctx, "web", mapping.JSON(fmt.Appendf(nil, `{"id":%[1]d,"n":%[1]d,"more":%[1]d,"end":%[1]d}`, id)))
	row.acked = err == nil && len(res.Sinks) == 1
	g.rows[id] = row
	return err
}

func (g *growing) flush() error {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	return g.eng.FlushAll(ctx)
}

// story changes the columns between rows until the disk ends.
func (g *growing) story() {
	sink := catalog.Ref{Source: "web", Sink: "a"}
	update := func(names ...string) error {
		return g.apply(g.cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Columns: growColumns(names...)}))
	}
	for id, step := range []func() error{
		func() error { return update("id", "n", "more") },
		g.flush,
		func() error { return g.apply(g.cat.Rollback(user, sink, 1, 0)) },
		func() error { return update("more", "id") },
		g.flush,
		func() error { return g.apply(g.cat.Rollback(user, sink, 2, 0)) },
		g.flush,
	} {
		if g.ingest(id+1) != nil || step() != nil {
			return
		}
	}
}

// check compares catalog, engine and table with each other after the restart, and with the acknowledged changes and rows.
func (g *growing) check(n int64) {
	t := g.t
	t.Helper()
	_, s, err := g.cat.Sink("web", "a")
	if err != nil || s.Version.Number < g.version || s.Version.Number > g.version+1 || !s.Extend {
		t.Errorf("crash at write %d: version %d was acknowledged, the sink is %+v, %v", n, g.version, s, err)
		return
	}
	names := func() (names []string) {
		for _, c := range s.Columns {
			names = append(names, c.Name)
		}
		return names
	}()
	if st := g.eng.Stats().Sinks[0]; !slices.Equal(st.Table.Names(), names) || st.Refused != "" {
		t.Errorf("crash at write %d: the sink has the columns %v, the engine %v, refused: %q", n, names, st.Table.Names(), st.Refused)
	}
	if def, _ := g.eng.Source("web"); len(def.Sinks) != 1 || !slices.EqualFunc(def.Sinks[0].Table.Columns, s.Columns, func(a, b mapping.Column) bool { return a.Name == b.Name }) {
		t.Errorf("crash at write %d: the sink has the columns %v, the engine %+v", n, names, def.Sinks)
	}
	// Everything continues.
	const last = 100
	if err := g.apply(g.cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Columns: growColumns("id", "n", "more", "end")})); err != nil {
		t.Errorf("crash at write %d: a change after it: %v", n, err)
	}
	if err := g.ingest(last); err != nil {
		t.Errorf("crash at write %d: a row after it: %v", n, err)
	}
	if err := g.flush(); err != nil {
		t.Errorf("crash at write %d: flush: %v", n, err)
	}
	columns, err := g.tables().Columns(growTable)
	if err != nil || len(columns) != 4 {
		t.Errorf("crash at write %d: the table has %v, %v", n, columns, err)
	}
	at := slices.IndexFunc(columns, func(c datatype.Column) bool { return c.Name == "id" })
	found := map[string]int{}
	rows := map[string]sentRow{}
	for id, row := range g.rows {
		rows[fmt.Sprint(id)] = row
	}
	for row, err := range g.tables().Cells(growTable) {
		must(t, err)
		id := string(row[at])
		found[id]++
		for i, cell := range row { // the number of the row, or NULL in columns that the sink did not have
			if want := slices.Contains(rows[id].columns, columns[i].Name); want != (cell != nil) || want && string(cell) != id {
				t.Errorf("crash at write %d: row %s of columns %v has %q in column %s", n, id, rows[id].columns, cell, columns[i].Name)
			}
		}
	}
	for id, row := range rows {
		if k := found[id]; k > 1 || row.acked && k == 0 {
			t.Errorf("crash at write %d: row %s, acknowledged %v, is %d times in the table", n, id, row.acked, k)
		}
		delete(found, id)
	}
	if len(found) > 0 {
		t.Errorf("crash at write %d: rows that were never sent: %v", n, found)
	}
}
