//go:build !race

package forebay_test

import (
	"encoding/json"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// Mapping and appending a row must not allocate. The sink is SyncUnsafe and the commit far away, so that only the
// path of a row is counted. A commit's few allocations are shared by all its rows. The race detector makes pools
// forget at random, so this test does not run under it.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, local := range map[string]bool{"one disk": false, "a changelog that is not waited for": true} {
		t.Run(name, func(t *testing.T) { steadyState(t, local) })
	}
}

func steadyState(t *testing.T, local bool) {
	e, _ := openMemory(t, func(o *forebay.Options) {
		o.Buffer.SyncInterval = time.Hour
		if local {
			o.Changelog = &logOwner{&memoryLog{}}
		}
	})
	mustDefine(t, e, events(func(s *forebay.Source) {
		s.Settings.Sync = forebay.SyncUnsafe
		s.Sinks[0].AckLocal = local
	}))
	rec := mapping.JSON([]byte(`{"id":1,"user":{"name":"Ada"},"more":[1,2,3],"text":"the gate opens"}`))
	ctx := t.Context()
	ingest := func() {
		body := rec.Body
		rec.Reset()
		rec.Body, rec.Format = body, mapping.FormatJSON
		if _, err := e.Ingest(ctx, "web", rec); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		ingest() // pools and chunks reach their size
	}
	if n := testing.AllocsPerRun(1000, ingest); n >= 1 {
		t.Errorf("got %v allocations per record, want less than 1", n)
	}
	submit := func() {
		body := rec.Body
		rec.Reset()
		rec.Body, rec.Format = body, mapping.FormatJSON
		p, err := e.Submit(ctx, "web", rec)
		must(t, err)
		if _, err := p.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, submit); n >= 1 {
		t.Errorf("%v allocations per record that is submitted, want less than 1", n)
	}
}

// Without a tracer a call allocates no more than before. TestSteadyStateAllocatesNothing checks the bound. This test compares a tracer that samples
// nothing.
func TestNoTracerCostsNothing(t *testing.T) {
	measure := func(change ...func(*forebay.Options)) float64 {
		e, _ := openMemory(t, append(change, func(o *forebay.Options) { o.Buffer.SyncInterval = time.Hour })...)
		mustDefine(t, e, events(func(s *forebay.Source) { s.Settings.Sync = forebay.SyncUnsafe }))
		rec := mapping.JSON([]byte(`{"id":1,"user":{"name":"Ada"}}`))
		ingest := func() {
			mustIngest(t, e, "web", rec)
		}
		for range 500 {
			ingest()
		}
		return testing.AllocsPerRun(500, ingest)
	}
	without, with := measure(), measure(func(o *forebay.Options) { o.Tracer = noop.Tracer{} })
	if without >= 1 || with <= without {
		t.Errorf("a call allocates %v times without a tracer and %v times with one, want none without", without, with)
	}
}

// A value costs no memory in addition to the memory of a call of [forebay.Engine.IngestBatch], whether the rows of a call are small or large enough for
// the memory that calls share, see callrows.Large.
func TestTypedAllocatesNothingForAValue(t *testing.T) {
	for _, n := range []int{1, 60, 100} {
		e, _ := openMemory(t, func(o *forebay.Options) { o.Buffer.SyncInterval = time.Hour })
		mustDefine(t, e, orders(t, func(s *forebay.Source) { s.Settings.Sync = forebay.SyncUnsafe }))
		shop, err := forebay.Typed[typedOrder](e, "shop")
		must(t, err)
		values, records := make([]typedOrder, n), make([]*mapping.Record, n)
		for i := range values {
			values[i] = newTypedOrder(i)
			text, err := json.Marshal(values[i])
			must(t, err)
			records[i] = mapping.JSON(text)
		}
		measure := func(call func() error) float64 {
			return testing.AllocsPerRun(15, func() { // so few that nothing is committed meanwhile
				must(t, call())
			})
		}
		typed := func() error { _, err := shop.Ingest(t.Context(), values...); return err }
		batch := func() error { _, err := e.IngestBatch(t.Context(), "shop", records); return err }
		measure(typed)
		measure(batch)
		a, b := measure(typed), measure(batch)
		t.Logf("%d values: %v allocations, as records %v", n, a, b)
		if a > b+1 {
			t.Errorf("a call allocates %v times for %d values, and %v times for their records", a, n, b)
		}
	}
}
