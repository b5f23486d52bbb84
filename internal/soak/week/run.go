package main

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forebay/forebay/driver"
)

// size is the number of nodes.
const size = 3

func itoa(n int) string { return strconv.Itoa(n) }

// screen writes what happens.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%7.1fs  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
}

// run plays the week, and compares.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	s := &screen{out: out, begin: time.Now()}
	if cfg.dir == "" {
		if cfg.dir, err = os.MkdirTemp("", "forebay-week-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(cfg.dir)
			}
		}()
	} else if err := os.Mkdir(cfg.dir, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(stagingPath(cfg.dir), 0o755); err != nil {
		return err
	}
	server := databases[cfg.target]()
	defer server.Close()
	address, err := server.start(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ns, err := newNodes(cfg, address, s.say, cancel)
	if err != nil {
		return err
	}
	s.say("%s, seed %d: %d days in %s, %d faults a day; three nodes start in %s", cfg.target, cfg.seed, cfg.days, cfg.duration, cfg.faults, cfg.dir)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	for _, p := range ns {
		if err := p.start(); err != nil {
			return err
		}
		defer p.kill()
		watch.Go(func() { p.watch(watching) })
	}
	if err := ns.awaitReady(ctx); err != nil {
		return fmt.Errorf("the cluster did not start: %w", err)
	}
	w := &week{config: cfg, screen: s, nodes: ns, server: server, address: address, api: newAPI(ns, cfg.seed)}
	if err := w.define(ctx); err != nil {
		return fmt.Errorf("define the source: %w", err)
	}
	s.say("all nodes are ready at %v; the week begins", ns.urls())
	if err := w.play(ctx); err != nil {
		return fmt.Errorf("%w; everything is kept in %s", errors.Join(context.Cause(ctx), err), cfg.dir)
	}
	if err := errors.Join(w.compare(ctx), w.recorder.grows()); err != nil {
		return fmt.Errorf("seed %d: %w\neverything is kept in %s", cfg.seed, err, cfg.dir)
	}
	return nil
}

// newNodes chooses the addresses at which the servers of the nodes meet, below the ports that systems give to outgoing connections.
func newNodes(cfg config, address string, say func(string, ...any), failed func(error)) (ns nodes, err error) {
	var peers []string
	var listeners []net.Listener
	for attempts := 0; len(peers) < size; attempts++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err != nil && attempts == 100 {
			return nil, fmt.Errorf("no free port on the loopback interface: %w", err)
		}
		if err == nil {
			listeners, peers = append(listeners, l), append(peers, l.Addr().String())
		}
	}
	for _, l := range listeners {
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	secret := crand.Text()
	for i, listen := range peers {
		ns = append(ns, &process{
			nodeConfig: nodeConfig{
				Name: string(rune('a' + i)), Dir: cfg.dir, Target: cfg.target, Database: address, Listen: listen, Peers: peers, Secret: secret, Lease: cfg.lease,
			},
			say: say, failed: failed, changed: make(chan struct{}), done: make(chan message, 16),
		})
	}
	return ns, nil
}

// week is a run.
type week struct {
	config
	*screen
	nodes   nodes
	server  database
	address string // of the database
	api     *api
	path    string // of the source

	load     *load
	operator *operator
	faults   *faults
	recorder *recorder
}

// define makes the source and its tables. The tables get checks that some rows break.
func (w *week) define(ctx context.Context) (err error) {
	if w.path, err = w.api.define(ctx); err != nil {
		return err
	}
	for sink, check := range w.server.checks() {
		if check == "" {
			continue
		}
		syntax, err := w.syntax(sink)
		if err == nil {
			err = w.server.run(ctx, "ALTER TABLE "+syntax.Table+" "+check, func([]*string) {})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// syntax returns how statements about the table of a sink are written.
func (w *week) syntax(sink int) (driver.SQLSyntax, error) {
	t, err := w.server.open(w.address)
	if err != nil {
		return driver.SQLSyntax{}, err
	}
	return t.SQL(driver.Table{ID: tableID(sink)}), t.Close()
}

// play sends events while faults happen and the operator works, and returns when all rows are in their tables.
func (w *week) play(ctx context.Context) error {
	c := newCalendar(time.Now(), w.config)
	w.load = newLoad(w.nodes, events{w.seed, w.bad, w.poison}, w.path)
	w.operator = newOperator(w.api, w.load, c, w.seed, w.say)
	w.faults = &faults{
		nodes: w.nodes, server: w.server, staging: stagingPath(w.dir), api: w.api, calendar: c, perDay: w.config.faults,
		rng: rand.New(rand.NewPCG(w.seed, 3<<40)), say: w.say,
	}
	w.recorder = &recorder{cfg: w.config, calendar: c, load: w.load, faults: w.faults, api: w.api}
	recording, stop := context.WithCancel(ctx)
	var record sync.WaitGroup
	record.Go(func() { w.recorder.run(recording, min(10*time.Second, w.duration/20)) })
	playing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return w.load.run(ctx, c, w.rate) }, w.operator.run, w.faults.run,
	} {
		parts.Go(func() {
			if err := part(playing); err != nil {
				cancel(err)
			}
		})
	}
	parts.Wait()
	stop()
	record.Wait()
	if err := errors.Join(context.Cause(playing), w.recorder.write()); err != nil {
		return err
	}
	w.say("all %d events are acknowledged; the last rows move to the tables", len(w.load.acked))
	if err := w.nodes.doAll(ctx, flushCommand); err != nil {
		return err
	}
	if err := w.operator.settle(ctx); err != nil {
		return err
	}
	return w.nodes.doAll(ctx, verifyCommand)
}

// compare reads tables and quarantines, and writes the result.
func (w *week) compare(ctx context.Context) error {
	a := newAudit(w.load, w.operator)
	for sink := range sinks {
		syntax, err := w.syntax(sink)
		if err != nil {
			return err
		}
		if err := errors.Join(a.readTable(ctx, w.server, syntax, sink), a.readQuarantine(ctx, sink)); err != nil {
			return err
		}
		s, err := w.api.statistics(ctx, sink)
		if err != nil {
			return err
		}
		q := s.Quarantine
		if s.Lost.Damaged+s.Lost.Expired+s.Lost.Discarded+q.Expired+q.Lost > 0 || q.Added != q.Records+q.Replayed+q.Discarded {
			a.incorrect("%s: the counters are %+v", sinkIDs[sink], s)
		}
		fmt.Fprintf(w.screen.out, "%s: in quarantine %d, added %d, replayed %d, discarded %d\n", sinkIDs[sink], q.Records, q.Added, q.Replayed, q.Discarded)
	}
	a.compare()
	fmt.Fprint(w.screen.out, "\n", w.recorder.table(), "\n")
	for _, what := range slices.Sorted(maps.Keys(w.load.failures)) {
		fmt.Fprintf(w.screen.out, "%d attempts were repeated: %s\n", w.load.failures[what], what)
	}
	counts := map[fault]int{}
	longest := map[fault]time.Duration{}
	for _, h := range w.faults.history() {
		counts[h.fault]++
		longest[h.fault] = max(longest[h.fault], h.end.Sub(h.begin))
	}
	for _, kind := range slices.Concat(kinds...) {
		if counts[kind] > 0 {
			fmt.Fprintf(w.screen.out, "%d × %s: all ready after %.0f s at most\n", counts[kind], kind, longest[kind].Seconds())
		}
	}
	done := w.operator.counts
	fmt.Fprintf(w.screen.out, "the operator: %d columns for each table, %d records repaired, %d replayed, %d discarded\n", w.operator.grown, done.edits, done.replays, done.discards)
	fmt.Fprintf(w.screen.out, "week: events=%d rows=%d quarantined=%d discarded=%d unconfirmed=%d faults=%d quiet=%s lost=%d doubled=%d wrong=%d\n",
		a.events, a.rows, a.records, a.discarded, a.unconfirmed, len(w.faults.history()), w.load.quiet.Round(100*time.Millisecond), a.lost, a.doubled, a.wrong)
	return a.err()
}
