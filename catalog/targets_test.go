package catalog_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// narrow is a target with limits.
type narrow struct {
	*buffertest.Memory
	limits datatype.Limits
}

func (n narrow) Limits() datatype.Limits { return n.limits }

// openLake opens a catalog whose engine has a second target, the lake. Its cells may have 40 bytes.
func openLake(t *testing.T, opts catalog.Options) (cat *catalog.Catalog, app, lake *buffertest.Memory) {
	t.Helper()
	app, lake = buffertest.NewMemory(), buffertest.NewMemory()
	eng := openEngine(t, forebay.Options{Target: app, Targets: map[string]driver.Target{"lake": narrow{lake, datatype.Limits{MaxCell: 40}}}})
	return openCatalog(t, eng, opts), app, lake
}

func textColumns() mapping.Columns {
	return mapping.Columns{mapping.UUID("id"), mapping.Path("text", "text", mapping.DataType(datatype.String))}
}

// send ingests a record into the source "web" and returns its result.
func send(t *testing.T, cat *catalog.Catalog, text string) forebay.Result {
	t.Helper()
	result, _ := cat.Engine().Ingest(t.Context(), "web", mapping.JSON([]byte(`{"text":"`+text+`"}`)))
	return result
}

func textsOf(m *buffertest.Memory, table string) (list []string) {
	for _, row := range m.Rows(table) {
		list = append(list, row[1])
	}
	slices.Sort(list)
	return list
}

// The target of a table is kept with the versions of its sink. A patch changes it, a patch without it leaves it, and a rollback brings it back. Waiting
// rows go to the target that the sink had when they arrived.
func TestTargetIsPartOfASink(t *testing.T) {
	cat, app, lake := openLake(t, catalog.Options{Store: newMemory()})
	do := done(t, cat)
	do(cat.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{ID: "a", Name: "a", TableID: "in.c-web.a", Columns: textColumns(), Target: "lake"},
	}}))
	want := func(target string, version int) {
		t.Helper()
		if _, s, err := cat.Sink("web", "a"); err != nil || s.Target != target || s.Version.Number != version {
			t.Errorf("the target is %q in version %d, want %q in version %d: %v", s.Target, s.Version.Number, target, version, err)
		}
	}
	want("lake", 1)
	send(t, cat, "1 lake")
	do(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Description: new("more")}))
	want("lake", 2)
	do(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Target: new("")}))
	want("", 3)
	send(t, cat, "2 app")
	do(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Target: new("")}))
	want("", 3)
	do(cat.Rollback(user, catalog.Ref{Source: "web", Sink: "a"}, 2, 0))
	want("lake", 4)
	send(t, cat, "3 lake")
	must(t, cat.Engine().FlushAll(t.Context()))
	if a, b := textsOf(app, "in.c-web.a"), textsOf(lake, "in.c-web.a"); !slices.Equal(a, []string{"2 app"}) || !slices.Equal(b, []string{"1 lake", "3 lake"}) {
		t.Errorf("the default target has %q, the lake has %q", a, b)
	}
}

// A name that no target has is refused, and the message lists the names. A rollback to a target that is gone is refused.
func TestUnknownTargetOfASink(t *testing.T) {
	store := newMemory()
	cat, _, _ := openLake(t, catalog.Options{Store: store})
	sink := catalog.SinkSpec{ID: "a", Name: "a", TableID: "in.c-web.a", Columns: textColumns(), Target: "sea"}
	const want = `table.target is "sea", must be one of ["lake"] or left out`
	refused := func(what string, err error) {
		t.Helper()
		if code(err) != catalog.BadRequest || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", what, err, want)
		}
	}
	source := catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{sink}}
	_, err := cat.CreateSource(user, source)
	refused("CreateSource", err)
	refused("ValidateSource", cat.ValidateSource(source))
	source.Sinks[0].Target = "lake"
	done(t, cat)(cat.CreateSource(user, source))
	sink.ID = "b"
	_, err = cat.CreateSink(user, "web", sink)
	refused("CreateSink", err)
	refused("ValidateSink", cat.ValidateSink("web", sink))
	_, err = cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Target: new("sea")})
	refused("UpdateSink", err)
	refused("ValidateSinkPatch", cat.ValidateSinkPatch("web", "a", catalog.SinkPatch{Target: new("sea")}))

	done(t, cat)(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Target: new("")}))
	alone := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: store.clone()})
	if _, err := alone.Rollback(user, catalog.Ref{Source: "web", Sink: "a"}, 1, 0); code(err) != catalog.BadRequest || !strings.Contains(err.Error(), `"lake", but the engine has no named targets`) {
		t.Errorf("a rollback to a target that is gone: %v", err)
	}
	err = alone.ValidateSink("web", sink)
	if want := `table.target is "sea", but this service has no named targets: leave it out`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The limits at definition and at arrival are the limits of the target of the sink.
func TestLimitsAreThoseOfTheTarget(t *testing.T) {
	cat, _, _ := openLake(t, catalog.Options{Store: newMemory()})
	do := done(t, cat)
	long := strings.Repeat("x", 50)
	do(cat.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{ID: "a", Name: "a", TableID: "in.c-web.a", Columns: textColumns()},
		{ID: "b", Name: "b", TableID: "in.c-web.b", Columns: textColumns(), Target: "lake"},
	}}))
	status := func(a, b forebay.Status) {
		t.Helper()
		if r := send(t, cat, long); r.Sinks[0].Status != a || r.Sinks[1].Status != b {
			t.Errorf("got %+v, want %v and %v", r.Sinks, a, b)
		}
	}
	status(forebay.Stored, forebay.Rejected)
	do(cat.UpdateSink(user, "web", "a", catalog.SinkPatch{Target: new("lake")}))
	do(cat.UpdateSink(user, "web", "b", catalog.SinkPatch{Target: new("")}))
	status(forebay.Rejected, forebay.Stored)
}

// Tables with the same id in two targets are two tables. They may have different columns, and an erasure drops each in its target.
func TestEqualTablesInTwoTargets(t *testing.T) {
	var dropped []string
	drop := func(target string) func(context.Context, string) error {
		return func(_ context.Context, table string) error {
			dropped = append(dropped, target+" "+table)
			return nil
		}
	}
	cat, _, _ := openLake(t, catalog.Options{Store: newMemory(), DropTable: drop("app"), DropTables: map[string]func(context.Context, string) error{"lake": drop("lake")}})
	do := done(t, cat)
	source := func(id string, targets ...string) catalog.SourceSpec {
		s := catalog.SourceSpec{ID: id, Name: id, Type: forebay.HTTP}
		for _, target := range targets {
			cols := textColumns()
			if target == "lake" {
				cols = columns()
			}
			s.Sinks = append(s.Sinks, catalog.SinkSpec{ID: "s" + target, Name: "s", TableID: "in.c-web.t", Columns: cols, Target: target})
		}
		return s
	}
	do(cat.CreateSource(user, source("web", "", "lake")))
	do(cat.CreateSource(user, source("other", "")))
	task, err := cat.EraseSource("web")
	must(t, err)
	if task, err = cat.Wait(t.Context(), task.ID); err != nil || !task.Partial || !strings.Contains(task.Failure, `"in.c-web.t" stays: sink "s" of source "other" uses it`) {
		t.Errorf("got %+v %v, want that the table of the other source stays", task, err)
	}
	if want := []string{"lake in.c-web.t"}; !slices.Equal(dropped, want) {
		t.Errorf("dropped %q, want %q", dropped, want)
	}
	do(cat.CreateSource(user, source("web", "lake")))
	do(cat.EraseSource("other"))
	do(cat.EraseSource("web"))
	if want := []string{"lake in.c-web.t", "app in.c-web.t", "lake in.c-web.t"}; !slices.Equal(dropped, want) {
		t.Errorf("dropped %q, want %q", dropped, want)
	}
}

// A target whose tables nothing can drop keeps them, and the task says so.
func TestTableOfATargetThatCannotDrop(t *testing.T) {
	cat, _, _ := openLake(t, catalog.Options{Store: newMemory(), DropTable: func(context.Context, string) error {
		t.Error("the table of the default target was dropped")
		return nil
	}})
	done(t, cat)(cat.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{ID: "a", Name: "a", TableID: "in.c-web.a", Columns: textColumns(), Target: "lake"},
	}}))
	task, err := cat.EraseSource("web")
	if err == nil {
		task, err = cat.Wait(t.Context(), task.ID)
	}
	if err != nil || !strings.Contains(task.Failure, `"in.c-web.a" in target "lake" stays: this target cannot drop tables`) {
		t.Errorf("got %+v %v", task, err)
	}
}

// A node that lacks the target of a sink refuses to define it. If another node has defined it, the log says why the engine does not follow.
func TestNodesWithDifferentTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { testNodesWithDifferentTargets(t) })
}

func testNodesWithDifferentTargets(t *testing.T) {
	var log bytes.Buffer
	cluster := newNodes(t, catalog.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a := cluster.openWith("a", "a", openEngine(t, forebay.Options{Target: cluster.target, Targets: map[string]driver.Target{"lake": buffertest.NewMemory()}}))
	b := cluster.open("b")
	sink := catalog.SinkSpec{ID: "a", Name: "a", TableID: "in.c-web.a", Columns: textColumns()}
	done(t, a.Catalog)(a.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{sink}}))
	same(t, a, b)
	if _, err := b.UpdateSink(user, "web", "a", catalog.SinkPatch{Target: new("lake")}); code(err) != catalog.BadRequest || !strings.Contains(err.Error(), `table.target is "lake"`) {
		t.Errorf("got %v, want that the node lacks the target", err)
	}
	done(t, a.Catalog)(a.UpdateSink(user, "web", "a", catalog.SinkPatch{Target: new("lake")}))
	must(t, b.CatchUp(t.Context()))
	if _, s, err := b.Sink("web", "a"); err != nil || s.Target != "lake" {
		t.Errorf("the other node shows the target %q: %v", s.Target, err)
	}
	synctest.Wait() // the engine of b has tried to follow
	for _, want := range []string{"engine does not follow a source yet", `the engine has no named targets: set Options.Targets`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	if def, _ := b.eng.Source("web"); def.Sinks[0].Table.Target != "" {
		t.Errorf("the engine of the node has the target %q, which it lacks", def.Sinks[0].Table.Target)
	}
}

// A copy of a table in another target is a sink of the same source. A shadow compares its rows with the rows of the sink, and the switch gives the sink
// the table of the copy and ends the copy in one change. The new table has each record once, and the old table has the records from before the switch.
func TestSwitchToACopy(t *testing.T) {
	store := newMemory()
	cat, app, lake := openLake(t, catalog.Options{Store: store})
	do := done(t, cat)
	sink := func(id, target string) catalog.SinkSpec {
		return catalog.SinkSpec{ID: id, Name: id, TableID: "in.c-web.a", Columns: textColumns(), Target: target}
	}
	do(cat.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{sink("a", "")}}))
	send(t, cat, "1 app")
	do(cat.CreateSink(user, "web", sink("copy", "lake")))
	refused := func(id, copyID string, want catalog.Code) {
		t.Helper()
		if _, err := cat.SwitchToCopy(user, "web", id, copyID); code(err) != want {
			t.Errorf("switch of %s to %s: got %v, want %s", id, copyID, err, want)
		}
		if _, err := cat.Handle("web", id).ShadowCopy(t.Context(), copyID, forebay.ShadowOptions{}); code(err) != want {
			t.Errorf("shadow of %s and %s: got %v, want %s", id, copyID, err, want)
		}
	}
	refused("a", "a", catalog.BadRequest)
	refused("a", "none", catalog.SinkNotFound)
	refused("none", "copy", catalog.SinkNotFound)
	ref := catalog.Ref{Source: "web", Sink: "copy"}
	do(cat.Disable(user, ref))
	refused("a", "copy", catalog.SinkDisabled)
	do(cat.Enable(user, ref))

	if _, err := cat.Handle("web", "a").ShadowCopy(t.Context(), "copy", forebay.ShadowOptions{}); err != nil {
		t.Fatal(err)
	}
	send(t, cat, "2 both")
	send(t, cat, strings.Repeat("3", 50))
	if r, err := cat.Handle("web", "a").EndShadow(); err != nil || r.Compared != 2 || r.Equal != 1 || r.OnlyCurrent != 1 {
		t.Errorf("got %+v %v, want that the lake rejects one of two records", r, err)
	}
	do(cat.SwitchToCopy(user, "web", "a", "copy"))
	send(t, cat, "4 lake")
	if _, s, err := cat.Sink("web", "a"); err != nil || s.Target != "lake" || s.Version.Description != `Switched to the table of sink "copy".` {
		t.Errorf("the sink is %+v %v", s, err)
	}
	if _, _, err := cat.Sink("web", "copy"); code(err) != catalog.SinkNotFound {
		t.Errorf("the copy is still there: %v", err)
	}
	must(t, cat.Engine().FlushAll(t.Context()))
	if a, b := textsOf(app, "in.c-web.a"), textsOf(lake, "in.c-web.a"); !slices.Equal(a, []string{"1 app", "2 both", strings.Repeat("3", 50)}) || !slices.Equal(b, []string{"2 both", "4 lake"}) {
		t.Errorf("the default target has %q, the lake has %q", a, b)
	}
}

// The tables that a failed change has created are removed, each in its own target. A table with the same id in the other target stays.
func TestFailedChangeTakesTablesOfTargetsBack(t *testing.T) {
	store := newMemory()
	cat, app, lake := openLake(t, catalog.Options{Store: store})
	must(t, app.Ensure(t.Context(), driver.Table{ID: "in.c-web.a", Columns: []datatype.Column{{Name: "mine"}}}))
	must(t, lake.Ensure(t.Context(), driver.Table{ID: "in.c-web.b", Columns: []datatype.Column{{Name: "other"}}}))
	task, err := cat.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{ID: "a", Name: "a", TableID: "in.c-web.a", Target: "lake", Columns: textColumns()},
		{ID: "b", Name: "b", TableID: "in.c-web.b", Target: "lake", Columns: textColumns()},
		{ID: "c", Name: "c", TableID: "in.c-web.c", Columns: textColumns()},
	}})
	if err == nil {
		task, err = cat.Wait(t.Context(), task.ID)
	}
	if err != nil || task.Status != catalog.Failed {
		t.Fatalf("got %+v %v, want that a table refuses the source", task, err)
	}
	for table, columns := range map[string][2][]datatype.Column{
		"in.c-web.a": {app.Columns("in.c-web.a"), lake.Columns("in.c-web.a")},
		"in.c-web.b": {app.Columns("in.c-web.b"), lake.Columns("in.c-web.b")},
		"in.c-web.c": {app.Columns("in.c-web.c"), lake.Columns("in.c-web.c")},
	} {
		want := map[string][2]bool{"in.c-web.a": {true, false}, "in.c-web.b": {false, true}, "in.c-web.c": {}}[table]
		if got := [2]bool{columns[0] != nil, columns[1] != nil}; got != want {
			t.Errorf("table %s is in the targets: %v, want %v", table, got, want)
		}
	}
	if left := store.keys("creation/"); len(left) > 0 {
		t.Errorf("records %v are left", left)
	}
}

// All nodes follow a move and a switch to a copy. Waiting rows of each node go to the previous target, and later rows to the new one.
func TestNodesFollowAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{})
		lake := buffertest.NewMemory()
		var all []*node
		for _, name := range []string{"a", "b"} {
			all = append(all, cluster.openWith(name, name, openEngine(t, forebay.Options{Target: cluster.target, Targets: map[string]driver.Target{"lake": lake}})))
		}
		a, b := all[0], all[1]
		sink := func(id, target string) catalog.SinkSpec {
			return catalog.SinkSpec{ID: id, Name: id, TableID: "in.c-web.a", Columns: textColumns(), Target: target}
		}
		both := func(text string) {
			t.Helper()
			same(t, a, b)
			for _, n := range all {
				if r := send(t, n.Catalog, text); r.Sinks[0].Status != forebay.Stored {
					t.Fatalf("%s: got %+v, want r.Sinks[0].Status == %v", text, r, forebay.Stored)
				}
			}
		}
		done(t, a.Catalog)(a.CreateSource(user, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{sink("a", "")}}))
		both("1 app")
		done(t, a.Catalog)(a.UpdateSink(user, "web", "a", catalog.SinkPatch{Target: new("lake")}))
		both("2 lake")
		done(t, b.Catalog)(b.CreateSink(user, "web", sink("copy", "")))
		both("3 both")
		done(t, b.Catalog)(b.SwitchToCopy(user, "web", "a", "copy"))
		both("4 app")
		for _, n := range all {
			must(t, n.eng.FlushAll(t.Context()))
		}
		twice := func(list ...string) (all []string) {
			for _, text := range list {
				all = append(all, text, text)
			}
			return all
		}
		if a, b := textsOf(cluster.target, "in.c-web.a"), textsOf(lake, "in.c-web.a"); !slices.Equal(a, twice("1 app", "3 both", "4 app")) || !slices.Equal(b, twice("2 lake", "3 both")) {
			t.Errorf("the default target has %q, the lake has %q", a, b)
		}
	})
}
