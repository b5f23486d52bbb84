package cluster_test

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// Events of 200 B, each acknowledged by one of three nodes in this process before its caller has the next. Their logs are waited for or
// not. Everything is synced.
func BenchmarkAckLocal(b *testing.B) {
	const callers = 1024
	body := append(append([]byte(`{"id":"`), bytes.Repeat([]byte("x"), 180)...), `"}`...)
	for name, local := range map[string]bool{"wait": false, "AckLocal": true} {
		b.Run(name, func(b *testing.B) {
			c := start(b)
			for _, n := range c.list {
				if err := n.Engine().Define(b.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{
					{ID: "events", AckLocal: local, Table: forebay.Table{ID: tableID, Columns: columns}},
				}}); err != nil {
					b.Fatal(err)
				}
			}
			var mu sync.Mutex
			var took []time.Duration
			var number atomic.Int64
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				engine := c.list[int(number.Add(1))%len(c.list)].Engine()
				var own []time.Duration
				for pb.Next() {
					begin := time.Now()
					if _, err := engine.Ingest(b.Context(), "web", mapping.JSON(body)); err != nil {
						b.Error(err)
						return
					}
					own = append(own, time.Since(begin))
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, own...)
			})
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		})
	}
}
