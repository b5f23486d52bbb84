package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// hangAt makes the target hang where it creates a table, until the end of the context or forever.
func hangAt(mem *buffertest.Memory, deaf <-chan struct{}, which func(table string) bool) {
	mem.Before = func(ctx context.Context, c buffertest.Call) error {
		if c.Op != buffertest.OpEnsure || !which(c.ID) {
			return nil
		}
		if deaf != nil {
			<-deaf
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

func manySinks(n int) forebay.Source {
	s := forebay.Source{ID: "many"}
	for i := range n {
		s.Sinks = append(s.Sinks, forebay.Sink{ID: fmt.Sprint("s", i), Table: forebay.Table{
			ID: fmt.Sprint("in.c-many.t", i), Columns: mapping.Columns{mapping.Body("body")},
		}})
	}
	return s
}

// A target that is away costs a definition one time-out, however many new sinks it has, and events are taken after it.
func TestDeadTargetCostsADefinitionOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t)
		var dead atomic.Bool
		dead.Store(true)
		hangAt(mem, nil, func(string) bool { return dead.Load() })
		begun := time.Now()
		mustDefine(t, e, manySinks(100))
		if took := time.Since(begun); took > 11*time.Second {
			t.Errorf("the definition took %s, want one time-out of 10s", took)
		}
		res, err := e.Ingest(t.Context(), "many", mapping.JSON([]byte(`{}`)))
		if err != nil || len(res.Sinks) != 100 {
			t.Fatalf("%d sinks took the event, %v", len(res.Sinks), err)
		}
		dead.Store(false)
		must(t, e.Flush(t.Context(), "many"))
	})
}

// One table that hangs does not keep the others of the source from being looked at.
func TestHungTableDoesNotHideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t)
		mem.Alter("in.c-many.t99", datatype.UntypedColumns("other")...)
		hangAt(mem, nil, func(table string) bool { return table == "in.c-many.t0" })
		var schema *driver.SchemaError
		if err := e.Define(t.Context(), manySinks(100)); !errors.As(err, &schema) || schema.Table != "in.c-many.t99" {
			t.Fatalf("error %v, want a SchemaError of the last table", err)
		}
	})
}

// A definition that waits for its target does not hold up other sources. A second definition of the same source waits for it,
// until its context ends. A driver that ignores its context is abandoned.
func TestHungTargetDelaysItsOwnSourceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t)
		hang := make(chan struct{})
		hangAt(mem, hang, func(table string) bool { return table == "in.c-web.raw" })
		first := make(chan error)
		begun := time.Now()
		go func() { first <- e.Define(t.Context(), events()) }()
		synctest.Wait()

		mustDefine(t, e, forebay.Source{ID: "other", Sinks: manySinks(1).Sinks})
		must(t, e.Remove(t.Context(), "other"))
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("another source waited %s", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Define(ctx, events()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second Define of the source: %v, want the end of its context", err)
		}
		if err := <-first; err != nil {
			t.Errorf("the definition failed: %v", err)
		}
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("the definition took %s", took)
		}
		close(hang)
	})
}

// A target that panics has failed its call, and not the process. The import tries again.
func TestTargetThatPanics(t *testing.T) {
	e, mem := openMemory(t)
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpEnsure {
			panic("no columns")
		}
		return nil
	}
	mustDefine(t, e, events())
	mustIngest(t, e, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"Ada"}}`)))
	must(t, e.FlushAll(t.Context()))
	if n := len(mem.Rows("in.c-web.users")); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
}

// Every table that refuses a definition is named.
func TestDefineNamesAllTablesThatRefuse(t *testing.T) {
	e, mem := openMemory(t)
	mem.Alter("in.c-web.users", datatype.UntypedColumns("a")...)
	mem.Alter("in.c-web.raw", datatype.UntypedColumns("b")...)
	err := e.Define(t.Context(), events())
	for _, want := range []string{`"in.c-web.users"`, `"in.c-web.raw"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

// A table that was changed from outside concerns its sink alone. The settings of the source change, disabled sinks
// accept events again, and the problem is reported. A sink that is new, or newly directed to the table, is refused.
func TestBrokenTableDoesNotBlockItsSource(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	mem.Alter("in.c-web.users", datatype.UntypedColumns("other")...)
	change := func(change func(*forebay.Source)) []forebay.TableProblem {
		t.Helper()
		d, err := e.Compile(events(change))
		must(t, err)
		problems, err := d.Apply(t.Context(), forebay.ApplyOptions{})
		must(t, err)
		return problems
	}
	for _, step := range []func(*forebay.Source){
		func(s *forebay.Source) { s.Settings.Upload.Count = 5 },
		func(s *forebay.Source) {
			for i := range s.Sinks {
				s.Sinks[i].Disabled = true
			}
		},
		func(s *forebay.Source) { s.Settings.Upload.Count = 7 },
	} {
		problems := change(step)
		disabled := events(step).Sinks[0].Disabled
		if disabled != (len(problems) == 0) {
			t.Errorf("problems %+v", problems)
		}
		for _, p := range problems {
			var schema *driver.SchemaError
			if p.Source != "web" || p.Sink != "users" || p.Table != "in.c-web.users" || !p.Known || !errors.As(p.Err, &schema) {
				t.Errorf("problem %+v", p)
			}
		}
	}
	if def, _ := e.Source("web"); def.Settings.Upload.Count != 7 {
		t.Errorf("settings %+v", def.Settings)
	}
	mustIngest(t, e, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`)))
	if err := e.Flush(t.Context(), "web", "raw"); err != nil {
		t.Fatalf("the healthy sink: %v", err)
	}
	if rows := len(mem.Rows("in.c-web.raw")); rows != 1 {
		t.Errorf("got %d rows of the healthy sink, want 1", rows)
	}
	err := e.Define(t.Context(), events(func(s *forebay.Source) {
		s.Sinks = append(s.Sinks, forebay.Sink{ID: "new", Table: s.Sinks[0].Table})
	}))
	if !driver.IsPermanent(err) || !strings.Contains(err.Error(), `"web/new"`) || strings.Contains(err.Error(), `"web/users"`) {
		t.Errorf("a new sink of the broken table: %v", err)
	}
}

// Refuse also decides about sinks that had the table before.
func TestRefuse(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	mem.Alter("in.c-web.users", datatype.UntypedColumns("other")...)
	d, err := e.Compile(events(func(s *forebay.Source) { s.Settings.Upload.Count = 5 }))
	must(t, err)
	_, err = d.Apply(t.Context(), forebay.ApplyOptions{Refuse: func(forebay.TableProblem) bool { return true }})
	var schema *driver.SchemaError
	if !errors.As(err, &schema) {
		t.Errorf("error %v, want a SchemaError", err)
	}
	if def, _ := e.Source("web"); def.Settings.Upload.Count != 0 {
		t.Error("the refused definition is in force")
	}
}

// A definition is compiled with the options of its engine, and each mapping only once.
func TestCompileByTheOptionsOfTheEngine(t *testing.T) {
	e, _ := openMemory(t, func(o *forebay.Options) { o.Mapping.Compat = true })
	def := forebay.Source{ID: "web", Sinks: []forebay.Sink{
		{ID: "a", Disabled: true, Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Path("p", `a[`), mapping.Template("n", `Body("n")`)}}},
	}}
	if _, err := forebay.Compile(def, forebay.Options{}); err == nil {
		t.Fatal("without Compat the path is malformed")
	}
	if _, err := forebay.Compile(def, forebay.Options{Mapping: mapping.Options{Compat: true}}); err != nil {
		t.Errorf("with the options of the engine, without it: %v", err)
	}
	d, err := e.Compile(def)
	must(t, err)
	cells := d.Mapper("a").Cells(mapping.JSON([]byte(`{"a":1,"n":12345678901234567890123}`)))
	if got := cells[1].Value; got != "12345678901234567741440" {
		t.Errorf("cell %s, want the cell of Compat", got)
	}
	if d.Mapper("b") != nil || d.Source().Type != forebay.HTTP {
		t.Errorf("definition %+v", d.Source())
	}
	mustDefine(t, e, def)
	mapper, err := e.Sink("web", "a").Compile(def.Sinks[0].Table)
	if err != nil || mapper != d.Mapper("a") {
		t.Error("the mapping was compiled again for its columns alone")
	}
	def.Sinks[0].Table.ID = "other"
	again, err := e.Compile(def)
	if err != nil || again.Mapper("a") != mapper {
		t.Error("the mapping was compiled again for another table")
	}
	if n := e.Compilations(); n != 1 {
		t.Errorf("got %d compilations, want 1", n)
	}
	alone, err := forebay.Compile(def, forebay.Options{Mapping: mapping.Options{Compat: true}})
	must(t, err)
	if _, err := alone.Apply(t.Context(), forebay.ApplyOptions{}); err == nil || alone.Problems() != nil {
		t.Error("a definition without an engine is applied")
	}
}

// Unused mappers are not kept forever.
func TestCompiledMappersAreBounded(t *testing.T) {
	e, _ := openMemory(t)
	for i := range 500 {
		text := fmt.Sprintf("%q", strings.Repeat("x", 4000)+fmt.Sprint(i))
		if _, err := e.Sink("web", "a").Compile(forebay.Table{Columns: mapping.Columns{mapping.Template("t", text)}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.KeptMappers(); n < 100 || n > 260 {
		t.Errorf("%d mappers are kept of 500, each of 4 KB text: want the last 1 MB of them", n)
	}
}

// limitedTarget cannot store NUL.
type limitedTarget struct{ *buffertest.Memory }

func (limitedTarget) Limits() datatype.Limits { return datatype.Limits{NoNUL: true} }

// What the target cannot store is refused at ingestion, with and without an engine, in addition to the engine's own limits.
func TestLimitsOfTheTarget(t *testing.T) {
	var opts forebay.Options
	e, _ := openMemory(t, func(o *forebay.Options) {
		o.Target = limitedTarget{o.Target.(*buffertest.Memory)}
		o.Mapping.Limits.MaxCell = 5
		opts = *o
	})
	def := forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "a", Table: forebay.Table{ID: "t", Columns: mapping.Columns{
		mapping.Path("typed", "v", mapping.DataType(datatype.String)), mapping.Path("untyped", "v"),
	}}}}}
	mustDefine(t, e, def)
	compiled, err := forebay.Compile(def, opts)
	must(t, err)
	for body, want := range map[string]mapping.Reason{`{"v":"a"}`: 0, `{"v":"\u0000"}`: mapping.HasNUL, `{"v":"123456"}`: mapping.TooLong} {
		_, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(body)))
		for _, err := range []error{err, compiled.Mapper("a").Cells(mapping.JSON([]byte(body)))[0].Err} {
			var fault *mapping.Error
			if errors.As(err, &fault) != (want != 0) || fault != nil && fault.Reason != want {
				t.Errorf("%s: error %v, want reason %v", body, err, want)
			}
		}
	}
}
