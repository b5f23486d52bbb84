package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// recorder implements every hook and keeps the events.
type recorder struct {
	mu       sync.Mutex
	commits  []buffer.CommitEvent
	uploads  []forebay.DriverEvent
	imports  []forebay.DriverEvent
	delivers []forebay.DeliverEvent
	rejects  []forebay.RejectEvent
	refusals []*buffer.OverloadError
}

func keep[T any](r *recorder, list *[]T, event T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, event)
}

func (r *recorder) OnCommit(e buffer.CommitEvent)    { keep(r, &r.commits, e) }
func (r *recorder) OnUpload(e forebay.DriverEvent)   { keep(r, &r.uploads, e) }
func (r *recorder) OnImport(e forebay.DriverEvent)   { keep(r, &r.imports, e) }
func (r *recorder) OnDeliver(e forebay.DeliverEvent) { keep(r, &r.delivers, e) }
func (r *recorder) OnReject(e forebay.RejectEvent)   { keep(r, &r.rejects, e) }
func (r *recorder) OnRefuse(e *buffer.OverloadError) { keep(r, &r.refusals, e) }

// onlyCommits implements one hook.
type onlyCommits struct{ n int }

func (o *onlyCommits) OnCommit(buffer.CommitEvent) { o.n++ }

func TestHooks(t *testing.T) {
	r := new(recorder)
	e, mem := openMemory(t, func(o *forebay.Options) { o.Hooks, o.Buffer.MaxSinkBytes = r, 64<<10 })
	broken := errors.New("the table is away")
	fail := true
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.Op == buffertest.OpImport && fail {
			fail = false
			return broken
		}
		return nil
	}
	mustDefine(t, e, events(func(s *forebay.Source) { s.Settings.Compression = forebay.CompressionNone }))
	mem.Alter("in.c-web.raw", datatype.UntypedColumns("other")...) // its rows wait
	record := mapping.JSON([]byte(`{"id":"a","user":{"name":"Ada"}}`))
	mustIngest(t, e, "web", record)
	if err := e.Flush(t.Context(), "web", "users"); err != nil { // it waits for the second import
		t.Fatal(err)
	}
	if _, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(`no JSON`))); err == nil {
		t.Error("a body that is no JSON is taken")
	}
	// The rows of the other sink reach its bound.
	large := mapping.JSON([]byte(`{"id":"a","user":{"name":"Ada"},"text":"` + strings.Repeat("x", 40<<10) + `"}`))
	for range 3 {
		_, _ = e.Ingest(t.Context(), "web", large)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	withRows := slices.DeleteFunc(slices.Clone(r.commits), func(c buffer.CommitEvent) bool { return c.Bytes == 0 })
	if len(withRows) == 0 || withRows[0].Took <= 0 || withRows[0].Err != nil {
		t.Errorf("got the commits %+v, want one with bytes and a duration", r.commits)
	}
	for name, got := range map[string][]forebay.DriverEvent{"upload": r.uploads, "import": r.imports} {
		if len(got) == 0 || got[0].Source != "web" || got[0].Sink != "users" {
			t.Errorf("got the events %+v of step %s, want the sink web/users", got, name)
		}
	}
	if len(r.imports) < 2 || r.imports[0].Err == nil || r.imports[0].Err.Error() != broken.Error() || r.imports[1].Err != nil {
		t.Errorf("got the imports %+v, want a failure and then a success", r.imports)
	}
	if len(r.delivers) != 1 || r.delivers[0].Source != "web" || r.delivers[0].Sink != "users" || r.delivers[0].Rows != 1 || r.delivers[0].File == "" || r.delivers[0].Bytes == 0 {
		t.Errorf("got the deliveries %+v, want one row of web/users", r.delivers)
	}
	if len(r.rejects) == 0 || r.rejects[0].Source != "web" || r.rejects[0].Err == nil {
		t.Errorf("got the rejections %+v, want those of web", r.rejects)
	}
	if len(r.refusals) == 0 || r.refusals[0].Resource != "sink" {
		t.Errorf("got the refusals %v, want the bound of a sink", r.refusals)
	}
}

// A value that implements no hook is a mistake, such as a method with another signature.
func TestHooksThatAreNone(t *testing.T) {
	err := forebay.Options{Hooks: struct{}{}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "the value of Hooks is a struct {}, which implements no hook") {
		t.Errorf("got %v, want that it implements no hook", err)
	}
	if err := (forebay.Options{Hooks: new(onlyCommits)}).Validate(); err != nil {
		t.Errorf("got %v for a value with one hook, want none", err)
	}
}

// imported counts rows for a program that has its own metrics. It implements two of the hooks.
type imported struct{ rows, rejected atomic.Int64 }

func (i *imported) OnDeliver(e forebay.DeliverEvent) { i.rows.Add(e.Rows) }
func (i *imported) OnReject(forebay.RejectEvent)     { i.rejected.Add(1) }

// One value implements the hooks that the program needs.
func ExampleOptions_hooks() {
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	counts := new(imported)
	e, err := forebay.Open(dir, forebay.Options{Hooks: counts})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	columns := mapping.Columns{mapping.Path("n", "n", mapping.DataType(datatype.Int64), mapping.Required())}
	if err := e.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "numbers", Table: forebay.Table{ID: "numbers", Columns: columns}}}}); err != nil {
		panic(err)
	}
	for _, body := range []string{`{"n":1}`, `{"n":"one"}`, `{"n":3}`} {
		_, _ = e.Ingest(ctx, "web", mapping.JSON([]byte(body))) // the second is rejected
	}
	if err := errors.Join(e.FlushAll(ctx), e.Close()); err != nil {
		panic(err)
	}
	fmt.Println(counts.rows.Load(), "imported,", counts.rejected.Load(), "rejected")

	// Output: 2 imported, 1 rejected
}
