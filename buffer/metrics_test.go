package buffer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/metertest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		gate := &gated{}
		mem.Before = gate.before
		meter := metertest.New()
		opts := memoryOptions(t, mem)
		opts.Meter, opts.MaxDiskBytes = meter, 1<<20
		b := openAt(t, "data", opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 3 })
		put(t, b, s, 0, 3)
		put(t, b, s, 3, 5)
		time.Sleep(10 * time.Second)
		want := func(values map[string]float64) {
			t.Helper()
			got := meter.Collect()
			for k, v := range values {
				if g, ok := got[k]; !ok || g != v {
					t.Errorf("%s = %v, want %v", k, g, v)
				}
			}
			if t.Failed() {
				t.Fatal(got)
			}
		}
		want(map[string]float64{
			"forebay.rows.accepted{sink=a}":                          5,
			"forebay.rows.imported{sink=a}":                          0,
			"forebay.rows.waiting{level=local,sink=a}":               2,
			"forebay.rows.waiting{level=staging,sink=a}":             3,
			"forebay.rows.age{sink=a}":                               10,
			"forebay.files{sink=a,state=writing}":                    1,
			"forebay.files{sink=a,state=importing}":                  0,
			"forebay.triggers{reason=count,sink=a,step=upload}":      1,
			"forebay.driver.duration{outcome=ok,sink=a,step=upload}": 1,
			"forebay.disk.limit{}":                                   1 << 20,
			"forebay.memory.size{}":                                  0,
			"forebay.overloads{resource=memory}":                     0,
		})
		must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
		synctest.Wait()
		want(map[string]float64{
			"forebay.files{sink=a,state=importing}":                     1,
			"forebay.files.held{sink=a}":                                1,
			"forebay.triggers{reason=requested,sink=a,step=import}":     1,
			"forebay.driver.duration{outcome=retry,sink=a,step=import}": 1,
		})
		gate.open.Store(true)
		flush(t, b, "a")
		put(t, b, s, 5, 6)
		must(t, b.Sink("a").Discard(t.Context(), waitingFile(t, b)))
		synctest.Wait()
		want(map[string]float64{
			"forebay.rows.imported{sink=a}":     5,
			"forebay.rows.discarded{sink=a}":    1,
			"forebay.rows.age{sink=a}":          0,
			"forebay.files.held{sink=a}":        0,
			"forebay.delivery.duration{sink=a}": 1,
			"forebay.disk.size{}":               0,
		})
		if n := meter.Collect()["forebay.commit.duration{}"]; n < 5 {
			t.Errorf("%v commits were measured, want at least 5", n)
		}
		closeBuffer(t, b)
		if n := meter.Callbacks(); n != 0 {
			t.Errorf("%d callbacks are left after Close, want 0", n)
		}
	})
}

func TestMetricsOfAQuarantine(t *testing.T) {
	meter := metertest.New()
	opts := memoryOptions(t, buffertest.NewMemory())
	opts.Meter = meter
	b := open(t, opts)
	put(t, b, define(t, b, "a"), 0, 1)
	q := define(t, b, "q", quarantined())
	reject(t, b, q, "one", "two", "three")
	replay(t, b, q, 0, list(t, b, "q")[0])
	got := meter.Collect()
	for name, want := range map[string]float64{
		"forebay.quarantine.records{sink=q}":                2,
		"forebay.quarantine.size{sink=q}":                   2*256 + float64(len("why two"+"two"+"why three"+"three")),
		"forebay.quarantine.added{sink=q}":                  3,
		"forebay.quarantine.left{outcome=replayed,sink=q}":  1,
		"forebay.quarantine.left{outcome=discarded,sink=q}": 0,
		"forebay.rows.poison{sink=a}":                       0, // before the first one, so that an alert sees it
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v, want %v", name, v, want)
		}
	}
	if _, ok := got["forebay.quarantine.added{sink=a}"]; ok {
		t.Error("a sink that never had a quarantine has its metrics")
	}
}

// With more sinks than MaxMeasuredSinks, measurements are sums without the attribute of a sink. With as many, they are single.
func TestMetricsOfManySinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter := metertest.New()
		opts := memoryOptions(t, buffertest.NewMemory())
		opts.Meter, opts.MaxMeasuredSinks = meter, 2
		b := openAt(t, "data", opts)
		for i, id := range []string{"a", "b"} {
			put(t, b, define(t, b, id), 0, 3+i)
		}
		if got := meter.Collect(); got["forebay.rows.accepted{sink=a}"] != 3 || got["forebay.rows.accepted{sink=b}"] != 4 {
			t.Errorf("got %v, want 3 rows of the sink a and 4 of b", got)
		}
		time.Sleep(10 * time.Second)
		put(t, b, define(t, b, "c"), 0, 5)
		got := meter.Collect()
		for name, want := range map[string]float64{
			"forebay.rows.accepted{}":             12,
			"forebay.rows.waiting{level=local}":   12,
			"forebay.rows.age{}":                  10,
			"forebay.files{state=writing}":        3,
			"forebay.overloads{resource=memory}":  0,
			"forebay.rows.waiting{level=staging}": 0,
		} {
			if got[name] != want {
				t.Errorf("%s is %g, want %g: %v", name, got[name], want, got)
			}
		}
		must(t, b.Sink("c").Flush(t.Context()))
		for name := range meter.Collect() {
			// Earlier measurements keep their attribute.
			if strings.Contains(name, "sink=c") {
				t.Errorf("got %s, want no measurement of one sink", name)
			}
		}
	})
}
