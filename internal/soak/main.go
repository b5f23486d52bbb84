package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

type config struct {
	duration, faultEvery time.Duration
	rate, clients, batch int
	dir, out             string
	seed                 uint64
}

func main() {
	var cfg config
	flag.DurationVar(&cfg.duration, "duration", time.Hour, "how long to load the engine")
	flag.DurationVar(&cfg.faultEvery, "fault-every", 4*time.Second, "mean time between two faults")
	flag.IntVar(&cfg.rate, "rate", 0, "events per second (default: half of a peak that is measured first)")
	flag.IntVar(&cfg.clients, "clients", 16, "concurrent callers")
	flag.IntVar(&cfg.batch, "batch", 20, "events of one call")
	flag.StringVar(&cfg.dir, "dir", "", "data directory (default: a new temporary one, removed at the end)")
	flag.StringVar(&cfg.out, "out", "soak", "where to write, without .csv and .svg")
	flag.Uint64Var(&cfg.seed, "seed", uint64(time.Now().UnixNano()), "seed of the faults")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

const (
	sourceID = "soak"
	sinkID   = "rows"
)

type soak struct {
	cfg     config
	drivers *drivers
	sent    []tally // by client, only its client writes it during the run
	rng     *rand.Rand

	// mu allows the engine to be replaced. Clients hold it for reading.
	mu                       sync.RWMutex
	eng                      *forebay.Engine
	restarts, faults, failed int
}

func source(count int64) forebay.Source {
	return forebay.Source{
		ID: sourceID,
		Settings: forebay.Settings{
			Upload: trigger.Conditions{Interval: time.Second, Count: 50_000, Size: 5 << 20},
			Import: trigger.Conditions{Interval: 30 * time.Second, Count: count, Size: 50 << 20},
		},
		Sinks: []forebay.Sink{{ID: sinkID, Table: forebay.Table{ID: "in.c-soak.rows", Columns: mapping.Columns{
			mapping.Path("client", "client"), mapping.Path("seq", "seq"), mapping.Body("body"),
		}}}},
	}
}

func (s *soak) open(ctx context.Context) error {
	eng, err := forebay.Open(s.cfg.dir, forebay.Options{
		Staging: s.drivers, Target: s.drivers,
		Buffer: buffer.Tuning{AttemptTimeout: 3 * time.Second, Retry: buffer.Retry{Initial: 200 * time.Millisecond, Max: 2 * time.Second}},
	})
	if err != nil {
		return err
	}
	if err := eng.Define(ctx, source(200_000)); err != nil {
		return errors.Join(err, eng.Close())
	}
	s.eng = eng
	return nil
}

func run(ctx context.Context, cfg config) error {
	if cfg.dir == "" {
		tmp, err := os.MkdirTemp("", "forebay-soak-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		cfg.dir = tmp
	}
	s := &soak{cfg: cfg, sent: make([]tally, cfg.clients), rng: rand.New(rand.NewPCG(cfg.seed, 1))}
	s.drivers = newDrivers(dir.Staging(filepath.Join(cfg.dir, "staging")), cfg.clients, rand.New(rand.NewPCG(cfg.seed, 2)))
	if err := s.open(ctx); err != nil {
		return err
	}
	if cfg.rate == 0 {
		const measured = 5 * time.Second
		before := total(s.sent)
		s.load(ctx, measured, 0)
		peak := float64(total(s.sent)-before) / measured.Seconds()
		s.cfg.rate = int(peak / 2)
		fmt.Printf("peak: %.0f events/s in calls of %d; the load is %d events/s\n", peak, cfg.batch, s.cfg.rate)
	}
	rec, err := newRecorder(cfg.out)
	if err != nil {
		return err
	}
	start := time.Now()
	begin := total(s.sent)
	var side sync.WaitGroup
	sideCtx, stop := context.WithCancel(ctx)
	side.Go(func() { s.cause(sideCtx) })
	side.Go(func() { s.record(sideCtx, rec, start) })
	s.load(ctx, cfg.duration, s.cfg.rate)
	took := time.Since(start)
	stop()
	side.Wait()
	s.drivers.heal()

	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	problem := s.check(drained)
	if err := rec.close(); err != nil {
		return err
	}
	fmt.Printf("%d events in %s (%.0f/s), %d faults, %d restarts of the engine, %d calls failed and were repeated (seed %d)\n",
		total(s.sent)-begin, took.Round(time.Second), float64(total(s.sent)-begin)/took.Seconds(), s.faults, s.restarts, s.failed, cfg.seed)
	fmt.Println(rec.summary())
	return errors.Join(problem, s.eng.Close())
}

// load runs all clients for a while, as fast as they can if rate is 0.
func (s *soak) load(ctx context.Context, d time.Duration, rate int) {
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for client := range s.cfg.clients {
		wg.Go(func() {
			var failed int
			pause := time.Duration(0)
			if rate > 0 {
				pause = time.Duration(float64(time.Second) * float64(s.cfg.batch*s.cfg.clients) / float64(rate))
			}
			next := time.Now().Add(time.Duration(client) * pause / time.Duration(s.cfg.clients))
			for ctx.Err() == nil && time.Now().Before(end) {
				if pause > 0 {
					time.Sleep(time.Until(next))
					next = next.Add(pause)
				}
				failed += s.call(ctx, client)
			}
			mu.Lock()
			s.failed += failed
			mu.Unlock()
		})
	}
	wg.Wait()
}

// call repeats one batch until it is stored. Only a closed engine fails here, and it has taken nothing, so repeating
// duplicates no row.
func (s *soak) call(ctx context.Context, client int) (failed int) {
	t := &s.sent[client]
	recs := make([]*mapping.Record, s.cfg.batch)
	for i := range recs {
		recs[i] = mapping.JSON(fmt.Appendf(nil,
			`{"client":%d,"seq":%d,"kind":"purchase","user":{"id":"u-%06d","country":"CZ"},"total":12.5,"note":"a note of some length"}`,
			client, t.n+int64(i), t.n%100_000))
	}
	for ctx.Err() == nil {
		s.mu.RLock()
		_, err := s.eng.IngestBatch(ctx, sourceID, recs)
		s.mu.RUnlock()
		if err == nil {
			for range recs {
				t.add(t.n)
			}
			return failed
		}
		failed++
		time.Sleep(50 * time.Millisecond)
	}
	return failed
}

// check drains the engine and compares the rows that arrived with the acknowledged rows.
func (s *soak) check(ctx context.Context) error {
	if err := s.eng.FlushAll(ctx); err != nil {
		return err
	}
	report, err := s.eng.Verify(ctx)
	if err != nil {
		return err
	}
	var problems []error
	if !report.OK() {
		problems = append(problems, fmt.Errorf("the ledger does not hold: %+v", report))
	}
	for client, want := range s.sent {
		if got := s.drivers.arrived(client); got != want {
			problems = append(problems, fmt.Errorf("client %d: %d rows were acknowledged, %d arrived, or others than those", client, want.n, got.n))
		}
	}
	return errors.Join(problems...)
}

// tally is a fingerprint of a set of numbers. A lost or duplicated number changes it.
type tally struct {
	n            int64
	sum, squares uint64
}

func (t *tally) add(v int64) {
	t.n++
	t.sum += uint64(v)
	t.squares += uint64(v) * uint64(v)
}

func total(list []tally) (n int64) {
	for i := range list {
		n += list[i].n
	}
	return n
}
