package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/mapping"
)

// callers is how many wait for an acknowledgement at the same time.
const callers = 1024

// event makes a row of 200 bytes.
var event = append(append([]byte(`{"v":"`), bytes.Repeat([]byte("x"), 197)...), `"}`...)

// way is one way to store events.
type way struct {
	store func(ctx context.Context, caller int) error
	// count returns how many events are stored.
	count func(ctx context.Context) (int64, error)
	// totals returns further figures that only grow, for example the work of servers. It may be nil.
	totals func(ctx context.Context) (map[string]float64, error)
	// callers is how many call store at the same time.
	callers int
	close   func() error
}

// acknowledged measures the three ways, one after the other.
func (b *bench) acknowledged(ctx context.Context, folder string) (map[string]float64, error) {
	figures := map[string]float64{}
	for _, w := range []struct {
		field string
		open  func(ctx context.Context, folder string) (way, error)
	}{{"engine_", openEngine}, {"", openNodes}, {"publish_", openPublish}} {
		if err := b.measureWay(ctx, filepath.Join(folder, "way-"+w.field), w.field, w.open, figures); err != nil {
			return nil, fmt.Errorf("%s%w", w.field, err)
		}
	}
	figures["of_engine"] = figures["rows_per_s"] / figures["engine_rows_per_s"]
	figures["of_publish"] = figures["rows_per_s"] / figures["publish_rows_per_s"]
	figures["p50_of_engine"] = figures["p50_ms"] / figures["engine_p50_ms"]
	figures["cpu_of_engine"] = figures["cpu_ns_per_row"] / figures["engine_cpu_ns_per_row"]
	return figures, nil
}

// measureWay adds the figures of a way, and the growth of its totals in a second, under names that begin with field.
func (b *bench) measureWay(
	ctx context.Context, folder, field string, open func(context.Context, string) (way, error), figures map[string]float64,
) (err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	w, err := open(ctx, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if w.totals == nil {
		w.totals = func(context.Context) (map[string]float64, error) { return nil, nil }
	}
	warm, err := w.call(ctx, b.duration/4)
	if err != nil {
		return err
	}
	totals, err := w.totals(ctx)
	if err != nil {
		return err
	}
	if b.profiles != "" && field == "" {
		if err := os.MkdirAll(b.profiles, 0o755); err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(b.profiles, "acknowledged.pprof"))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	before := measureUsage()
	begin := time.Now()
	took, err := w.call(ctx, b.duration)
	elapsed := time.Since(begin)
	pprof.StopCPUProfile() // does nothing if there is none
	if err != nil {
		return err
	}
	after := measureUsage()
	grown, err := w.totals(ctx)
	if err != nil {
		return err
	}
	stored, err := w.count(ctx)
	if want := int64(len(warm) + len(took)); err == nil && stored != want {
		err = fmt.Errorf("%d events are stored, want %d", stored, want)
	}
	if err != nil {
		return err
	}
	n := float64(len(took))
	slices.Sort(took)
	figures[field+"rows_per_s"] = n / elapsed.Seconds()
	figures[field+"p50_ms"] = float64(took[len(took)/2]) / 1e6
	figures[field+"p99_ms"] = float64(took[len(took)*99/100]) / 1e6
	figures[field+"cpu_ns_per_row"] = float64(after.CPU-before.CPU) / n
	for name, v := range grown {
		figures[field+name+"_per_s"] = (v - totals[name]) / elapsed.Seconds()
	}
	return nil
}

// call lets all callers call for a while, and returns the time of each call.
func (w way) call(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	end := time.Now().Add(d)
	var running sync.WaitGroup
	for caller := range w.callers {
		running.Go(func() {
			var own []time.Duration
			var err error
			for begin := time.Now(); err == nil && begin.Before(end); {
				if err = w.store(ctx, caller); err == nil {
					now := time.Now()
					own = append(own, now.Sub(begin))
					begin = now
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			failed = errors.Join(failed, err)
		})
	}
	running.Wait()
	if failed == nil && len(all) == 0 {
		failed = errors.New("nothing was stored in time")
	}
	return all, failed
}

// accepted returns how many rows the engines have taken, by their recounted bytes.
func accepted(engines ...*forebay.Engine) func(context.Context) (int64, error) {
	return func(ctx context.Context) (rows int64, err error) {
		for _, e := range engines {
			n, err := recount(ctx, e)
			if err != nil {
				return 0, err
			}
			rows += n
		}
		return rows, nil
	}
}

// recount repeats Verify until no slice has moved on under it, since such a slice is left out.
func recount(ctx context.Context, e *forebay.Engine) (int64, error) {
	for {
		report, err := e.Verify(ctx)
		if err != nil {
			return 0, err
		}
		if !report.OK() {
			return 0, fmt.Errorf("the rows are not what the counters say: %+v", report)
		}
		rows, all := int64(0), int64(0)
		for _, s := range report.Sinks {
			rows += s.Imported + s.Local + s.Staging
			all += s.Accepted - s.Expired - s.Damaged - s.Discarded - s.Poison
		}
		if rows == all {
			return rows, nil
		}
	}
}

func openEngine(ctx context.Context, folder string) (way, error) {
	return openJobs(ctx, putSame, jobConfig{Kind: kindEngine, Name: "alone", Dir: folder})
}

func openNodes(ctx context.Context, folder string) (way, error) {
	configs, err := nodes(size, folder, "")
	if err != nil {
		return way{}, err
	}
	return openJobs(ctx, putSame, configs...)
}

// together opens n things at the same time, since servers need each other.
func together(n int, open func(i int) (closeOne func() error, err error)) (closeAll func() error, err error) {
	closing, errs := make([]func() error, n), make([]error, n)
	each := func(do func(i int) error) error {
		var running sync.WaitGroup
		for i := range n {
			running.Go(func() { errs[i] = do(i) })
		}
		running.Wait()
		return errors.Join(errs...)
	}
	closeAll = func() error {
		return each(func(i int) error {
			if closing[i] == nil {
				return nil
			}
			return closing[i]()
		})
	}
	if err := each(func(i int) (err error) { closing[i], err = open(i); return err }); err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return closeAll, nil
}

func putSame(ctx context.Context, e *forebay.Engine) error {
	_, err := e.Ingest(ctx, sourceID, mapping.JSON(event))
	return err
}

// openJobs opens engines or nodes in this process. Each caller puts events to one of them.
func openJobs(ctx context.Context, put func(context.Context, *forebay.Engine) error, configs ...jobConfig) (w way, err error) {
	jobs := make([]*job, len(configs))
	if w.close, err = together(len(jobs), func(i int) (func() error, error) {
		jobs[i] = &job{cfg: configs[i], log: io.Discard}
		return jobs[i].open(ctx)
	}); err != nil {
		return w, err
	}
	var engines []*forebay.Engine
	for i, j := range jobs {
		if err == nil && (i == 0 || j.catalog == nil) {
			err = j.define(ctx, 1)
		}
		if err == nil && j.catalog != nil {
			err = j.knows(ctx)
		}
		engines = append(engines, j.engine)
	}
	if err != nil {
		return w, errors.Join(err, w.close())
	}
	w.callers, w.count = callers, accepted(engines...)
	w.store = func(ctx context.Context, caller int) error { return put(ctx, engines[caller%len(engines)]) }
	return w, nil
}

// noPlace is the code of servers that have not met yet, so that no three of them can have a stream.
const noPlace jetstream.ErrorCode = 10005

func openPublish(ctx context.Context, folder string) (w way, err error) {
	peers, err := freeAddresses(size)
	if err != nil {
		return w, err
	}
	var streams [size]jetstream.JetStream
	if w.close, err = together(size, func(i int) (func() error, error) {
		name := string(rune('a' + i))
		server, err := natsserver.Start(ctx, natsserver.Options{
			Name: name, Dir: filepath.Join(folder, name), Listen: peers[i], Peers: peers, Secret: secret, MaxStore: maxStore,
		})
		if err != nil {
			return nil, err
		}
		conn, err := server.Connect()
		if err != nil {
			return server.Close, err
		}
		streams[i], err = jetstream.New(conn)
		return func() error { conn.Close(); return server.Close() }, err
	}); err != nil {
		return w, err
	}
	stream, err := backoff.Retry(ctx, func() (jetstream.Stream, error) {
		s, err := streams[0].CreateStream(ctx, jetstream.StreamConfig{Name: "events", Subjects: []string{"events"}, Replicas: size})
		if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == noPlace {
			return s, err
		}
		return s, backoff.Permanent(err) // nil stays nil
	}, backoff.WithMaxElapsedTime(time.Minute))
	if err != nil {
		return w, errors.Join(err, w.close())
	}
	w.callers = callers
	w.store = func(ctx context.Context, caller int) error {
		_, err := streams[caller%size].Publish(ctx, "events", event)
		return err
	}
	w.count = func(ctx context.Context) (int64, error) {
		info, err := stream.Info(ctx)
		if err != nil {
			return 0, err
		}
		return int64(info.State.Msgs), nil
	}
	return w, nil
}
