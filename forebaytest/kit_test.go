package forebaytest_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/forebaytest"
	"github.com/forebay/forebay/mapping"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// A table grows by a column although the target failed to add it and lost a response.
func TestTableGrowsUnderFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := orders()
		src.Sinks[0].Table.Extend = true
		kit := forebaytest.New(t, forebay.Options{}, src)
		ingest(t, kit, 0, 10)
		kit.StepImport()

		src.Sinks[0].Table.Columns = append(slices.Clone(src.Sinks[0].Table.Columns), mapping.Path("note", "note", mapping.Default("")))
		kit.Fail(buffertest.OpExtend, 1)
		if err := kit.Engine().Define(t.Context(), src); err != nil {
			t.Fatal(err)
		}
		kit.Lose(buffertest.OpImport, 1)
		ingest(t, kit, 10, 20)
		kit.StepImport()
		wantOrders(t, kit, 20)
		var names []string
		for _, c := range kit.Memory().Columns("in.c-shop.orders") {
			names = append(names, c.Name)
		}
		if want := []string{"number", "total", "note"}; !slices.Equal(names, want) {
			t.Errorf("the table has the columns %q, want %q", names, want)
		}
	})
}

// failing is a test that records why it fails.
type failing struct {
	testing.TB
	cleanups []func()
	why      string
}

func (f *failing) Helper()           {}
func (f *failing) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }

func (f *failing) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// brokenMeter lets an engine fail late while it is opened.
type brokenMeter struct{ noop.Meter }

func (brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, errors.New("no more callbacks")
}

// A kit that cannot be made fails its test, and no goroutine is left that would end a bubble with a deadlock.
func TestFailedNewInABubble(t *testing.T) {
	wrong := orders()
	wrong.Sinks[0].Table.Columns = append(slices.Clone(wrong.Sinks[0].Table.Columns), mapping.Path("a", "]"))
	for name, test := range map[string]struct {
		opts    forebay.Options
		sources []forebay.Source
		why     string
	}{
		"a definition": {forebay.Options{}, []forebay.Source{orders(), wrong}, "define source"},
		"a meter":      {forebay.Options{Meter: brokenMeter{}}, nil, "no more callbacks"},
		"an option":    {forebay.Options{Buffer: buffer.Tuning{MaxDiskBytes: 1}}, nil, "open the engine"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{TB: t}
				done := make(chan struct{})
				go func() {
					defer close(done)
					forebaytest.New(f, test.opts, test.sources...)
				}()
				<-done
				for _, fn := range slices.Backward(f.cleanups) {
					fn()
				}
				if !strings.Contains(f.why, test.why) {
					t.Errorf("New fails with %q, want words %q", f.why, test.why)
				}
			})
		})
	}
}
