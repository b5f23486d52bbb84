package cluster_test

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/mapping"
)

// callers is how many wait for an acknowledgement at the same time.
const callers = 1024

// Events of 200 B, each acknowledged before its caller has the next: by one engine without a log, by three nodes in this process, and
// by a stream with three copies to which each event is published. Everything is synced.
func BenchmarkAcknowledged(b *testing.B) {
	body := append(append([]byte(`{"id":"`), bytes.Repeat([]byte("x"), 180)...), `"}`...)
	ingest := func(engines ...*forebay.Engine) func(caller int) error {
		return func(caller int) error {
			_, err := engines[caller%len(engines)].Ingest(b.Context(), "web", mapping.JSON(body))
			return err
		}
	}
	b.Run("engine", func(b *testing.B) {
		folder := b.TempDir()
		e, err := forebay.Open(folder, forebay.Options{Target: dir.Tables(folder + "/tables")})
		if err != nil {
			b.Fatal(err)
		}
		defer e.Close()
		if err := e.Define(b.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{ID: tableID, Columns: columns}}}}); err != nil {
			b.Fatal(err)
		}
		measure(b, ingest(e))
	})
	b.Run("nodes=3", func(b *testing.B) {
		c := start(b)
		c.define()
		measure(b, ingest(c.list[0].Engine(), c.list[1].Engine(), c.list[2].Engine()))
	})
	b.Run("publish", func(b *testing.B) {
		c, err := clustertest.Start(nil)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		var publishers []jetstream.JetStream
		for i := range clustertest.Size {
			conn, err := c.Connect(i)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			js, err := jetstream.New(conn)
			if err != nil {
				b.Fatal(err)
			}
			publishers = append(publishers, js)
		}
		if _, err := publishers[0].CreateStream(b.Context(), jetstream.StreamConfig{Name: "events", Subjects: []string{"events"}, Replicas: 3}); err != nil {
			b.Fatal(err)
		}
		measure(b, func(caller int) error {
			_, err := publishers[caller%len(publishers)].Publish(b.Context(), "events", body)
			return err
		})
	})
}

// measure lets all callers call, and reports the median of what a call takes.
func measure(b *testing.B, call func(caller int) error) {
	b.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var number atomic.Int64
	b.SetParallelism(callers / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		caller := int(number.Add(1))
		var own []time.Duration
		for pb.Next() {
			begin := time.Now()
			if err := call(caller); err != nil {
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
}
