package console_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/mapping"
)

// manySinks returns an engine with sources of so many sinks.
func manySinks(b *testing.B, sources, sinks int) *forebay.Engine {
	b.Helper()
	eng, err := forebay.Open(b.TempDir(), forebay.Options{MaxSources: max(sources, 100)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = eng.Close() })
	for i := range sources {
		def := forebay.Source{ID: fmt.Sprintf("web%d", i)}
		for j := range sinks {
			id := fmt.Sprintf("sink%02d", j)
			def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: def.ID + "." + id, Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")}}})
		}
		if err := eng.Define(b.Context(), def); err != nil {
			b.Fatal(err)
		}
	}
	return eng
}

// BenchmarkSample measures the console's share of the processor each second for five viewers of the first page with 1,000 sinks, as a share of
// one core: the call of the engine, the processing of its result, and the messages. All sinks change between two samples, or none. With 10,000
// sources 100 sinks change.
func BenchmarkSample(b *testing.B) {
	for _, of := range []struct {
		sources, sinks int
		fed            bool
	}{{10, 100, false}, {10, 100, true}, {10_000, 1, true}} {
		fed := of.fed
		b.Run(fmt.Sprintf("sources=%d/fed=%t", of.sources, fed), func(b *testing.B) {
			eng := manySinks(b, of.sources, of.sinks)
			c, err := console.New(eng, console.Options{Public: console.Numbers})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = c.Close() })
			body := mapping.JSON([]byte(`{"kind":"click"}`))
			feed := func() {
				for i := range max(10, 100/of.sinks) { // a row in each sink
					if _, err := eng.Ingest(b.Context(), fmt.Sprintf("web%d", i), body); err != nil {
						b.Fatal(err)
					}
				}
			}
			feed()
			sample := console.Sampling(c, 5)
			var used time.Duration
			sent := 0
			for b.Loop() {
				if fed {
					feed()
				}
				began := cputime.Process()
				sent += sample()
				used += cputime.Process() - began
			}
			b.ReportMetric(100*used.Seconds()/float64(b.N), "%core")
			b.ReportMetric(float64(sent)/float64(b.N)/5, "B/s/viewer")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkViewers measures the cost of viewers of the first page with 1,000 sinks, as a share of one core and in bytes per second: -benchtime
// 20x is 20 rounds. A round is some seconds without viewers and as many with five, so that other work of the machine falls on both.
func BenchmarkViewers(b *testing.B) {
	for _, rows := range []int{0, 10000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchmarkViewers(b, rows) })
	}
}

func benchmarkViewers(b *testing.B, rowsPerSecond int) {
	const viewers, seconds = 5, 5
	eng := manySinks(b, 10, 100)
	c, err := console.New(eng, console.Options{Public: console.Numbers})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(c)
	b.Cleanup(func() {
		_ = c.Close()
		server.Close()
	})
	stop := make(chan struct{})
	var feeder sync.WaitGroup
	if rowsPerSecond > 0 {
		feeder.Go(func() {
			tick := time.NewTicker(time.Second / time.Duration(rowsPerSecond/100))
			defer tick.Stop()
			body := mapping.JSON([]byte(`{"kind":"click"}`))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if _, err := eng.Ingest(b.Context(), fmt.Sprintf("web%d", i%10), body); err != nil { // a row in each of 100 sinks
					b.Error(err)
					return
				}
			}
		})
	}
	var bytes, messages atomic.Int64
	look := func() (leave func()) {
		var responses []*http.Response
		for range viewers {
			resp, err := http.Get(server.URL + "/stream?page=overview")
			if err != nil {
				b.Fatal(err)
			}
			responses = append(responses, resp)
			go func() {
				for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
					bytes.Add(int64(len(lines.Bytes()) + 1))
					if lines.Text() == "event: delta" {
						messages.Add(1)
					}
				}
			}()
		}
		return func() {
			for _, resp := range responses {
				_ = resp.Body.Close()
			}
		}
	}
	var without, with [2]time.Duration // processor time, time
	measure := func(sum *[2]time.Duration) {
		used, began := cputime.Process(), time.Now()
		<-time.After(seconds * time.Second)
		sum[0] += cputime.Process() - used
		sum[1] += time.Since(began)
	}
	var sent, samples int64
	for b.Loop() {
		console.StopSampling(c)
		measure(&without)
		leave := look()
		<-time.After(1500 * time.Millisecond) // for the first messages, which have everything
		sent -= bytes.Load()
		samples -= messages.Load()
		measure(&with)
		sent += bytes.Load()
		samples += messages.Load()
		leave()
	}
	close(stop)
	feeder.Wait()
	share := func(t [2]time.Duration) float64 { return 100 * t[0].Seconds() / t[1].Seconds() }
	b.ReportMetric(share(without), "%core/nobody")
	b.ReportMetric(share(with)-share(without), "%core/5-viewers")
	b.ReportMetric(float64(sent)/with[1].Seconds()/viewers, "B/s/viewer")
	b.ReportMetric(float64(samples)/with[1].Seconds()/viewers, "messages/s/viewer")
	b.ReportMetric(0, "ns/op")
}
