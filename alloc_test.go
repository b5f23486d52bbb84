//go:build !race

package forebay_test

import (
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// Mapping and appending a row must not allocate. The sink is SyncUnsafe and the commit far away, so that what is
// counted is the path of a row alone; a commit's own few allocations are shared by all its rows. The race detector
// makes pools forget at random, so this test does not run under it.
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
		t.Errorf("%v allocations per record, want less than 1", n)
	}
	submit := func() {
		body := rec.Body
		rec.Reset()
		rec.Body, rec.Format = body, mapping.FormatJSON
		p, err := e.Submit(ctx, "web", rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, submit); n >= 1 {
		t.Errorf("%v allocations per record that is submitted, want less than 1", n)
	}
}
