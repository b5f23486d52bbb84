package catalog_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driver"
)

// gatedTarget has every check of a table wait for its gate.
type gatedTarget struct {
	*buffertest.Memory
	entered, gate chan struct{}
}

func (g *gatedTarget) Ensure(ctx context.Context, t driver.Table) error {
	select {
	case g.entered <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-g.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	return g.Memory.Ensure(ctx, t)
}

// TestGivenUpChangeIsNotMadeLater lets the callers of changes go away while a task has the source. Who was told that
// a change took too long must not find it done later.
func TestGivenUpChangeIsNotMadeLater(t *testing.T) {
	target := &gatedTarget{Memory: buffertest.NewMemory(), entered: make(chan struct{}), gate: make(chan struct{})}
	eng := openEngine(t, forebay.Options{Target: target})
	cat := openCatalog(t, eng, catalog.Options{Store: newMemory()})
	pass := func(task catalog.Task, err error) {
		t.Helper()
		target.gate <- struct{}{}
		done(t, cat)(task, err)
	}
	task, err := cat.CreateSource(user, spec("Web", "a"))
	<-target.entered
	pass(task, err)
	ingest(t, eng, "web", true)
	before, err := cat.Source("web")
	must(t, err)
	table := "in.c-web.other"
	task, err = cat.UpdateSink(user, "web", "a", catalog.SinkPatch{TableID: &table})
	<-target.entered
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cat.RotateSecret(gone, user, "web", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("rotation: %v", err)
	}
	if err := cat.ClearStatistics(gone, catalog.Ref{Source: "web"}); !errors.Is(err, context.Canceled) {
		t.Errorf("clearing: %v", err)
	}
	pass(task, err)
	// They had the source reserved. Others of their kind can begin when they have come to their end.
	for _, begin := range []func() error{
		func() error {
			task, err := cat.Disable(user, catalog.Ref{Source: "web"})
			if err == nil {
				done(t, cat)(task, nil)
			}
			return err
		},
		func() error { return cat.ClearStatistics(gone, catalog.Ref{Source: "web", Sink: "a"}) },
	} {
		for err := begin(); code(err) == catalog.Busy; err = begin() {
			runtime.Gosched()
		}
	}
	if after, err := cat.Source("web"); err != nil || after.Secret != before.Secret {
		t.Errorf("the secret has changed: %v", err)
	}
	if st, err := cat.Handle("web", "a").Statistics(t.Context()); err != nil || st.Target.Rows != 1 {
		t.Errorf("the statistics were cleared: %+v, %v", st, err)
	}
}
