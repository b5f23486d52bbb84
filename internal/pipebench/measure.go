package pipebench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/cputime"
)

type opener func(context.Context) (*service, error)

// with opens a service on an empty database, and closes it.
func (b *bench) with(ctx context.Context, open opener, do func(*service) error) error {
	if err := b.db.Reset(ctx); err != nil {
		return err
	}
	s, err := open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.close())
}

// meter measures from its beginning until a query sees the last row.
type meter struct {
	b     *bench
	begin time.Time
	// cpu is the processor time of this process, without the client's. database is the database's.
	cpu, database time.Duration
}

func (b *bench) start() meter { return meter{b, time.Now(), cputime.Process(), b.databaseCPU()} }

// end moves the rows that a service has stored to the table. least and most bound the rows that a query must see. took is how long it was fed.
func (m meter) end(ctx context.Context, s *service, least, most int, took time.Duration) (measured, error) {
	if err := s.flush(ctx); err != nil {
		return measured{}, err
	}
	rows, err := m.b.db.Count(ctx)
	if err == nil && (rows < int64(least) || rows > int64(most)) {
		err = fmt.Errorf("the table has %d rows, %d were confirmed", rows, least)
	}
	n := float64(max(least, 1)) // an outage may fail all requests
	database := m.b.databaseCPU() - m.database
	return measured{
		PerS: n / took.Seconds(), RowsPerS: n / time.Since(m.begin).Seconds(),
		CPUPerRow: float64((cputime.Process() - m.cpu + database).Microseconds()) / n, DatabaseCPUPerRow: float64(database.Microseconds()) / n,
	}, err
}

// served gives a service requests of the client. It calls first when the client connects.
func (b *bench) served(ctx context.Context, s *service, d time.Duration, first func()) (sent, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return sent{}, err
	}
	listener = &announcer{Listener: listener, first: first}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(s.serve(listener)) }() // close ends it
	answers, err := runClient(ctx, order{Addr: listener.Addr().String(), Path: s.path, Duration: d}, func() {})
	return answers, errors.Join(err, context.Cause(ctx))
}

// announcer calls first when it has accepted a connection.
type announcer struct {
	net.Listener
	once  sync.Once
	first func()
}

func (a *announcer) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.once.Do(a.first)
	}
	return conn, err
}

func (b *bench) overHTTP(ctx context.Context, open opener) (m measured, err error) {
	err = b.with(ctx, open, func(s *service) error {
		meter := b.start()
		sent, err := b.served(ctx, s, b.duration, func() {})
		if err != nil {
			return err
		}
		if sent.Failed > 0 {
			return fmt.Errorf("%d requests failed", sent.Failed)
		}
		if m, err = meter.end(ctx, s, sent.Answered, sent.Answered, time.Since(meter.begin)); err != nil {
			return err
		}
		m.P50, m.P99, m.Max = milliseconds(sent.P50), milliseconds(sent.P99), milliseconds(sent.Max)
		return nil
	})
	return m, err
}

// callers is the number of goroutines that store single events in this process, batchCallers the number that store batches, as many as
// the user's own way has connections.
const (
	callers      = 1024
	batchCallers = 16
	batchSize    = 100
)

func (b *bench) inProcess(ctx context.Context, open opener) (m measured, err error) {
	err = b.with(ctx, open, func(s *service) error {
		m, err = b.called(ctx, s, callers, 1, func(ctx context.Context, n int) error { return s.store(ctx, bodies[n%len(bodies)]) })
		return err
	})
	return m, err
}

func (b *bench) inBatches(ctx context.Context, open opener) (m measured, err error) {
	err = b.with(ctx, open, func(s *service) error {
		if s.storeBatch == nil {
			return errNone
		}
		m, err = b.called(ctx, s, batchCallers, batchSize, func(ctx context.Context, n int) error {
			batch := make([][]byte, batchSize)
			for i := range batch {
				batch[i] = bodies[(n+i)%len(bodies)]
			}
			return s.storeBatch(ctx, batch)
		})
		return err
	})
	return m, err
}

// bodies are events like the client's events.
var bodies = func() (all [1024][]byte) {
	for i := range all {
		all[i] = eventBody(i)
	}
	return all
}()

// called lets goroutines store events, each events a call.
func (b *bench) called(ctx context.Context, s *service, goroutines, each int, store func(ctx context.Context, n int) error) (measured, error) {
	took, errs, calls := make([][]time.Duration, goroutines), make([]error, goroutines), make([]int, goroutines)
	var all sync.WaitGroup
	meter := b.start()
	for g := range goroutines {
		all.Go(func() {
			for n, now := g, meter.begin; errs[g] == nil && now.Sub(meter.begin) < b.duration; n++ {
				errs[g] = store(ctx, n)
				end := time.Now()
				if calls[g]++; calls[g]%16 == 1 { // a sample
					took[g] = append(took[g], end.Sub(now))
				}
				now = end
			}
		})
	}
	all.Wait()
	fed := time.Since(meter.begin)
	rows, sample := 0, []time.Duration(nil)
	for g := range goroutines {
		rows, sample = rows+calls[g]*each, append(sample, took[g]...)
	}
	if err := errors.Join(errs...); err != nil {
		return measured{}, err
	}
	m, err := meter.end(ctx, s, rows, rows, fed)
	p50, p99, most := quantiles(sample)
	m.P50, m.P99, m.Max = milliseconds(p50), milliseconds(p99), milliseconds(most)
	return m, err
}

// away takes the database away while requests arrive, from the engine and from the own way.
func (b *bench) away(ctx context.Context, r *result, outage func() (func() error, error)) error {
	lead := b.duration / 4
	measure := func(open opener, exact bool) (m measured, err error) {
		err = b.with(ctx, open, func(s *service) error {
			var back time.Time
			first, ended := make(chan struct{}), make(chan error, 1)
			client, stop := context.WithCancel(ctx)
			defer stop()
			meter := b.start()
			go func() {
				ended <- func() error {
					select {
					case <-first:
					case <-client.Done():
						return client.Err()
					}
					if err := ctxio.Sleep(ctx, lead); err != nil {
						return err
					}
					restore, err := outage()
					if err != nil {
						return err
					}
					err = ctxio.Sleep(ctx, b.outage)
					back = time.Now()
					return errors.Join(err, restore())
				}()
			}()
			sent, err := b.served(ctx, s, lead+b.outage+lead, func() { close(first) })
			stop()
			if err = errors.Join(err, <-ended); err != nil {
				return err
			}
			most := sent.Answered
			if !exact { // the database may have committed unconfirmed rows
				most += sent.Failed
			}
			if m, err = meter.end(ctx, s, sent.Answered, most, time.Since(meter.begin)); err != nil {
				return err
			}
			m.CPUPerRow = 0 // the processes of the database may have ended
			m.Drained = time.Since(back).Seconds()
			m.P50, m.P99, m.Max, m.Failed = milliseconds(sent.P50), milliseconds(sent.P99), milliseconds(sent.Max), float64(sent.Failed)
			// Without the seconds in which it went and came.
			from, to := int(lead/time.Second)+1, int((lead+b.outage)/time.Second)
			for i := from; i < min(to, len(sent.Seconds)); i++ {
				m.AwayPerS += float64(sent.Seconds[i]) / float64(to-from)
			}
			return nil
		})
		return m, err
	}
	for _, way := range []struct {
		name string
		open opener
	}{{byInserts, b.inserts}, {byEngine, b.engine}} {
		m, err := measure(way.open, way.name == byEngine)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		r.add(way.name, m)
	}
	r.finish()
	r.goal("requests of the engine failed", r.Ways[byEngine].Failed, "<=", 0)
	r.goal("ms until the slowest response of the engine", r.Ways[byEngine].Max, "<=", 1000)
	return nil
}

// pace is the events a second of the scenario fresh.
const pace = 20_000

// fresh measures the time from the call that takes an event to the query that sees it.
func (b *bench) fresh(ctx context.Context, r *result) error {
	err := b.with(ctx, b.engine, func(s *service) error {
		const tick = 5 * time.Millisecond
		const each = int(pace * tick / time.Second)
		ticks := int(max(1, b.duration/tick))
		at := make([]time.Time, ticks*each) // when each event was sent
		var sent atomic.Int64               // of at
		fresh := make(chan []time.Duration, 1)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			d, err := b.watch(ctx, at, &sent)
			if err != nil {
				cancel(err)
			}
			fresh <- d
		}()
		meter := b.start()
		var calls sync.WaitGroup
		for i := range at {
			if i%each == 0 {
				if err := ctxio.Sleep(ctx, time.Until(meter.begin.Add(time.Duration(i/each)*tick))); err != nil {
					break
				}
			}
			at[i] = time.Now()
			sent.Store(int64(i + 1))
			calls.Go(func() {
				if err := s.store(ctx, bodies[i%len(bodies)]); err != nil {
					cancel(err)
				}
			})
		}
		calls.Wait()
		took := time.Since(meter.begin)
		seen := <-fresh
		if err := context.Cause(ctx); err != nil {
			return err
		}
		m, err := meter.end(ctx, s, len(at), len(at), took)
		p50, p99, most := quantiles(seen)
		m.P50, m.P99, m.Max = milliseconds(p50), milliseconds(p99), milliseconds(most)
		r.add(byEngine, m)
		return err
	})
	if err != nil {
		return err
	}
	r.finish()
	r.goal("events/s", r.Ways[byEngine].PerS, ">=", 0.98*pace)
	r.goal("ms from event to query, p99", r.Ways[byEngine].P99, "<=", 2000)
	return nil
}

// watch asks the database until it has seen an event for each time, and returns how long each took. Rows of one sink are imported in
// their order, except for events that were in progress at the same time.
func (b *bench) watch(ctx context.Context, at []time.Time, sent *atomic.Int64) (fresh []time.Duration, err error) {
	look := b.db.Seen
	if look == nil {
		look = b.db.Count
	}
	for len(fresh) < len(at) {
		if err := ctxio.Sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
		rows, err := look(ctx)
		if err != nil {
			return nil, err
		}
		if most := sent.Load(); rows > most {
			return nil, fmt.Errorf("a query sees %d rows, %d were sent", rows, most)
		}
		for now := time.Now(); len(fresh) < int(rows); {
			fresh = append(fresh, now.Sub(at[len(fresh)]))
		}
	}
	return fresh, nil
}
