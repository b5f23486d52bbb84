package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/trigger"
)

var (
	oneSeed  = flag.Int64("seed", -1, "run this seed alone and print its story")
	seeds    = flag.Int("seeds", 300, "number of seeds to run; with -short or the race detector at most 80")
	fromSeed = flag.Int("from", 0, "the first seed")
)

func TestSimulation(t *testing.T) {
	if *oneSeed >= 0 {
		simulate(t, uint64(*oneSeed), true)
		return
	}
	n := *seeds
	if testing.Short() || underRace {
		n = min(n, 80)
	}
	run := slices.Clone(regressions)
	for i := range n {
		run = append(run, uint64(*fromSeed+i))
	}
	var failed atomic.Bool
	for _, seed := range run {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel() // as many at once as there are cores
			if failed.Load() {
				t.Skip("another seed has failed")
			}
			t.Cleanup(func() {
				if t.Failed() {
					failed.Store(true)
					t.Logf("repeat with: go test ./internal/sim -run TestSimulation -seed %d", seed)
				}
			})
			simulate(t, seed, false)
		})
	}
}

// regressions are seeds that found a defect once.
var regressions = []uint64{
	10433, // a verification during a reopening saw rows that were not there yet
	21315, // an error of reading was taken for damage
	1211,  // a power cut kept the name of a marker and not of the file that it names
	2455,  // a compaction that could not read was repeated without a pause
}

const maxClients = 4

// generation is one process: from an opening of the buffer to its end.
type generation struct {
	dead   atomic.Bool
	ctx    context.Context
	cancel context.CancelFunc
	buf    *buffer.Buffer
}

// run is one simulation. Its fields belong to the operator, unless mu is named.
type run struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	begin time.Time
	story bool
	logs  *slog.Logger

	disk *disk
	out  *outside
	opts buffer.Options
	gen  *generation
	// found is the disk after the cut of power; nil while it is on. Guarded by mu.
	found *disk

	clients []chan func(*client)
	tasks   sync.WaitGroup // clients' commands and other calls that run beside the operator

	mu      sync.Mutex
	handles map[string][]*handle // all of a sink that the process has defined, the newest last
	configs map[string]buffer.SinkConfig
	rows    map[string]*row
	// unsynced bounds the age of rows that a cut may take although nobody waited for them.
	unsynced time.Duration
	// failures are the times at which the local level failed; rows in memory are lost then, as in a cut.
	failures []time.Time
	altered  map[string][]string // tables whose columns somebody has changed, with the right ones
}

type handle struct {
	sink *buffer.Sink
	conf buffer.SinkConfig
}

// fate is what a client was told about a row.
type fate uint8

const (
	unknown  fate = iota // no answer, or an error that leaves it open
	accepted             // taken, nobody waited
	acked                // on disk
	refused              // certainly not taken
)

type row struct {
	fate  fate
	sink  string
	table string
	at    time.Time // of acceptance
	gen   *generation
	gone  time.Time // when its process died by a cut; zero: it did not
}

// client appends rows, one command after the other.
type client struct {
	r    *run
	num  int
	next int
}

func simulate(t *testing.T, seed uint64, story bool) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{
			t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x5eed)), begin: time.Now(), story: story,
			out: newOutside(seed), disk: newDisk(vfsCrashable()), rows: map[string]*row{},
			configs: map[string]buffer.SinkConfig{}, altered: map[string][]string{},
		}
		r.play()
	})
}

func (r *run) tell(format string, args ...any) {
	if r.story {
		fmt.Fprintf(os.Stderr, "%12s  %s\n", time.Since(r.begin), fmt.Sprintf(format, args...))
	}
}

func (r *run) play() {
	r.logs = slog.New(slog.DiscardHandler)
	if r.story {
		r.logs = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	r.logs = slog.New(failureHandler{r.logs.Handler(), r})
	r.out.faulty = pick(r.rng, 0, 0.05, 0.3, 0.7)
	r.out.hang = r.rng.IntN(4) == 0
	r.opts = buffer.Options{
		MemTableBytes: 1 << 20, MaxPendingBytes: 1 << 20, MaxDiskBytes: pick[int64](r.rng, 1<<20, 16<<20),
		SyncInterval: pick(r.rng, time.Millisecond, 25*time.Millisecond, time.Second),
		Retry:        buffer.Retry{Initial: time.Second, Max: time.Minute, Jitter: -1}, AttemptTimeout: time.Minute,
		AdmissionWait: pick[time.Duration](r.rng, -1, 250*time.Millisecond),
		Uploads:       1 + r.rng.IntN(3), Imports: 1 + r.rng.IntN(3),
	}
	r.unsynced = 2*r.opts.SyncInterval + time.Millisecond
	defer func() { // also when the run fails: a bubble with goroutines left would hide why
		for _, c := range r.clients {
			close(c)
		}
	}()
	for i := range 1 + r.rng.IntN(maxClients) {
		c := &client{r: r, num: i}
		commands := make(chan func(*client), 64)
		r.clients = append(r.clients, commands)
		go func() {
			for cmd := range commands {
				cmd(c)
				r.tasks.Done()
			}
		}()
	}
	r.tell("seed %d: %d clients, %+v", r.seed, len(r.clients), r.opts)
	for i := range 1 + r.rng.IntN(3) {
		id := string(rune('a' + i))
		r.configs[id] = r.config(id)
	}
	r.start()
	for range 10 + r.rng.IntN(40) {
		r.step()
		if r.t.Failed() {
			break
		}
	}
	r.end()
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// config draws a definition.
func (r *run) config(id string) buffer.SinkConfig {
	return buffer.SinkConfig{
		ID:       id,
		Table:    buffer.Table{ID: "in.c-sim." + id, Columns: []string{"id", "value"}},
		Encoding: pick(r.rng, buffer.None, buffer.Gzip, buffer.Zstd),
		Upload: trigger.Conditions{
			Interval: pick(r.rng, time.Second, 30*time.Second, 5*time.Minute), Count: pick[int64](r.rng, 3, 20, 1000),
			Size: pick[int64](r.rng, 5<<10, 1<<20),
		},
		Import: trigger.Conditions{
			Interval: pick(r.rng, 30*time.Second, time.Minute, time.Hour), Count: pick[int64](r.rng, 100, 1000),
			Size: pick[int64](r.rng, 100<<10, 10<<20),
		},
	}
}

// start opens the buffer as a new process and defines the sinks.
func (r *run) start() {
	g := &generation{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	opts := r.opts
	d := &drivers{r.out, g}
	opts.Staging, opts.Target, opts.FS, opts.Logger = d, d, r.disk, r.logs
	b, err := buffer.Open("data", opts)
	for attempt := 1; err != nil; attempt++ {
		r.tell("open: %v", err)
		if attempt == 20 {
			r.t.Fatalf("open: %v", err)
		}
		time.Sleep(time.Minute)
		b, err = buffer.Open("data", opts)
	}
	g.buf = b
	r.mu.Lock()
	r.gen, r.handles = g, map[string][]*handle{}
	r.mu.Unlock()
	for _, id := range sortedKeys(r.configs) {
		r.define(id, r.configs[id])
	}
}

func (r *run) define(id string, c buffer.SinkConfig) {
	g := r.gen
	r.configs[id] = c
	ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
	defer cancel()
	s, err := g.buf.Define(ctx, c)
	if err != nil {
		r.tell("define %s: %v", id, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handles[id] = append(r.handles[id], &handle{s, c})
}

// step is one decision of the operator.
func (r *run) step() {
	switch x := r.rng.IntN(100); {
	case x < 45:
		r.appendRows()
	case x < 60:
		d := pick(r.rng, 0, time.Millisecond, 10*time.Millisecond, 100*time.Millisecond, time.Second, 10*time.Second, time.Minute,
			10*time.Minute)
		if r.rng.IntN(20) == 0 {
			d = time.Duration(r.rng.IntN(20)) * time.Hour
		}
		r.tell("sleep %s", d)
		time.Sleep(d)
	case x < 66:
		id := r.anySink()
		timeout := pick(r.rng, time.Second, time.Minute)
		r.tell("flush %s", id)
		r.beside(func(g *generation) {
			ctx, cancel := context.WithTimeout(g.ctx, timeout)
			defer cancel()
			before := r.ackedRows(g, id)
			if err := g.buf.Flush(ctx, id); err == nil {
				r.checkFlushed(g, id, before)
			}
		})
	case x < 72:
		id := r.anySink()
		c := r.config(id)
		if r.rng.IntN(3) == 0 {
			c.Table = buffer.Table{ID: "in.c-sim." + id + "2", Columns: []string{"id", "value"}}
		}
		r.tell("define %s", id)
		r.define(id, c)
	case x < 74:
		id := r.anySink()
		r.tell("drop %s", id)
		_ = r.gen.buf.Drop(r.gen.ctx, id)
	case x < 76:
		id := r.anySink()
		r.tell("retry %s", id)
		_ = r.gen.buf.Retry(r.gen.ctx, id)
	case x < 79:
		level := pick(r.rng, "staging", "target")
		d := pick(r.rng, 10*time.Second, 10*time.Minute, 5*time.Hour)
		r.tell("outage of %s for %s", level, d)
		r.out.mu.Lock()
		r.out.down[level] = time.Now().Add(d)
		r.out.mu.Unlock()
	case x < 81:
		r.alter()
	case x < 85:
		r.breakDisk()
	case x < 88:
		n := pick(r.rng, r.rng.IntN(10), r.rng.IntN(100))
		r.tell("the power will go off after %d operations", n)
		g, percent := r.gen, r.percent()
		seed := r.rng.Uint64()
		r.disk.cutAfter(n, func() { r.cut(g, percent, seed) })
	case x < 91:
		r.tell("power off")
		r.cut(r.gen, r.percent(), r.rng.Uint64())
	case x < 93:
		r.tell("kill")
		r.cut(r.gen, 100, r.rng.Uint64())
	case x < 96:
		r.tell("restart")
		r.stop()
		r.start()
	default:
		r.verify()
	}
	if r.rng.IntN(2) == 0 {
		synctest.Wait()
	}
	r.reboot()
}

// breakDisk lets operations of the disk fail or be slow, from some operation on, for some time.
func (r *run) breakDisk() {
	var (
		from  = r.disk.ops() + r.rng.IntN(30)
		count = pick(r.rng, 1, 1, 3, 1000)
		until = time.Now().Add(pick(r.rng, time.Second, 10*time.Second, 10*time.Minute))
		what  = pick(r.rng, "log", "log", "sync", "write", "full", "create", "any", "read", "slow")
		half  = r.rng.IntN(2) == 0
		delay = pick(r.rng, 10*time.Millisecond, 300*time.Millisecond)
	)
	r.tell("disk fault %q from operation %d on, %d operations, until %s", what, from, count, until.Sub(r.begin))
	if what == "slow" {
		r.mu.Lock()
		r.unsynced = max(r.unsynced, 2*r.opts.SyncInterval+20*delay)
		r.mu.Unlock()
	}
	var once sync.Once
	r.disk.setFault(func(n int, kind opKind, name string) (f fault) {
		if what == "log" { // the next sync of a log
			if kind == opSync && isLog(name) {
				once.Do(func() { f.err = errIO })
			}
			return f
		}
		if n < from || n >= from+count || time.Now().After(until) {
			return fault{}
		}
		switch {
		case what == "sync" && kind == opSync, what == "write" && kind == opWrite, what == "create" && kind == opCreate,
			what == "any", what == "read" && kind == opRead:
			return fault{err: errIO, half: half}
		case what == "full" && (kind == opWrite || kind == opCreate):
			return fault{err: errFull, half: half}
		case what == "slow" && kind == opSync && isLog(name):
			return fault{delay: delay}
		}
		return fault{}
	})
}

func (r *run) percent() int { return pick(r.rng, 0, 0, 10, 50, 90) }

func (r *run) anySink() string { return pick(r.rng, sortedKeys(r.configs)...) }

// beside runs a call beside the operator.
func (r *run) beside(fn func(g *generation)) {
	g := r.gen
	r.tasks.Go(func() { fn(g) })
}

// cut takes the power off: from this moment on nothing that the process does has an effect.
func (r *run) cut(g *generation, percent int, seed uint64) {
	// The order matters: an answer that a client gets before dead is set was given before the disk is looked at.
	r.out.mu.Lock()
	r.mu.Lock()
	defer r.out.mu.Unlock()
	defer r.mu.Unlock()
	if g.dead.Load() {
		return
	}
	g.dead.Store(true)
	r.found = r.disk.crashed(percent, rand.New(rand.NewPCG(seed, 1)))
	now := time.Now()
	for _, row := range r.rows {
		if row.gen == g {
			row.gone = now
		}
	}
	r.tell("power is off, %d %% of what was not synced is kept", percent)
}

// reboot starts a new process when the power went off.
func (r *run) reboot() {
	r.mu.Lock()
	found := r.found
	r.found = nil
	r.mu.Unlock()
	if found == nil {
		return
	}
	r.disk.heal()
	r.gen.cancel()
	_ = r.gen.buf.Close() // of the process that is dead: it frees the goroutines and touches nothing
	r.tasks.Wait()
	r.disk = found
	r.tell("reboot")
	r.start()
}

// stop ends the process in good order. Calls that run meanwhile may fail.
func (r *run) stop() {
	r.disk.heal()
	var failed *buffer.FailedError
	if err := r.gen.buf.Close(); err != nil && !r.gen.dead.Load() && !errors.As(err, &failed) {
		r.t.Errorf("close: %v", err)
	}
	r.gen.cancel()
	r.tasks.Wait()
	r.reboot()
	if r.gen.buf != nil {
		_ = r.gen.buf.Close()
	}
}

// appendRows lets a client append a batch.
func (r *run) appendRows() {
	var (
		sinks = sortedKeys(r.configs)
		count = pick(r.rng, 1, 1, 1, 3, 20)
		size  = pick(r.rng, 1, 1, 10, 100, 3000)
		wait  = r.rng.IntN(3) > 0
		stale = r.rng.IntN(5) == 0
		times = 1 + r.rng.IntN(5)
	)
	if r.rng.IntN(30) == 0 {
		size, count = 200<<10, 1
	}
	used := []string{pick(r.rng, sinks...)}
	if r.rng.IntN(5) == 0 {
		used = sinks
	}
	num := r.rng.IntN(len(r.clients))
	r.tell("client %d: %d appends of %d rows of %d bytes to %v, wait %v", num, times, count, size, used, wait)
	r.tasks.Add(1)
	select {
	case r.clients[num] <- func(c *client) {
		for range times {
			c.append(used, count, size, wait, stale)
		}
	}:
	default: // the client is stuck
		r.tasks.Done()
	}
}

func (c *client) append(sinks []string, count, size int, wait, stale bool) {
	r := c.r
	r.mu.Lock()
	g := r.gen
	var batch []buffer.Rows
	var mine []*row
	for _, id := range sinks {
		list := r.handles[id]
		if len(list) == 0 {
			continue
		}
		h := list[len(list)-1]
		if stale {
			h = list[0]
		}
		var data []byte
		for range count {
			name := fmt.Sprintf("%d.%06d", c.num, c.next)
			c.next++
			data = fmt.Appendf(data, "\"%s\",\"%s\"\n", name, strings.Repeat(name[:3], 1+size/3))
			x := &row{sink: id, table: h.conf.Table.ID, at: time.Now(), gen: g}
			r.rows[name] = x
			mine = append(mine, x)
		}
		batch = append(batch, buffer.Rows{Sink: h.sink, Data: data, Count: count})
	}
	r.mu.Unlock()
	set := func(f fate) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if g.dead.Load() {
			return // the answer did not get through
		}
		for _, x := range mine {
			x.fate = f
		}
	}
	ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
	defer cancel()
	ticket, err := g.buf.Append(ctx, time.Now(), batch...)
	var full *buffer.OverloadError
	switch {
	case errors.As(err, &full):
		set(refused)
		return
	case err != nil:
		return
	}
	set(accepted)
	if !wait {
		return
	}
	set(unknown)
	if ticket.Wait(ctx) == nil {
		set(acked)
	}
}

// alter changes the columns of a table, or changes them back.
func (r *run) alter() {
	id := r.configs[r.anySink()].Table.ID
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	t := r.out.tables[id]
	switch {
	case t == nil:
	case r.altered[id] != nil:
		r.tell("table %s has its columns again", id)
		t.columns = r.altered[id]
		delete(r.altered, id)
	default:
		r.tell("table %s gets another column", id)
		r.altered[id] = t.columns
		t.columns = append(slices.Clone(t.columns), "extra")
	}
}

// ackedRows are the acknowledged rows of a sink that the process g took.
func (r *run) ackedRows(g *generation, sink string) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, x := range r.rows {
		if x.sink == sink && x.fate == acked && x.gen == g {
			names = append(names, name)
		}
	}
	return names
}

// checkFlushed checks the barrier.
func (r *run) checkFlushed(g *generation, sink string, names []string) {
	if g.dead.Load() {
		return
	}
	have := map[string]bool{}
	r.out.mu.Lock()
	for _, f := range r.out.files {
		for _, row := range f.rows {
			have[row[0]] = true
		}
	}
	r.out.mu.Unlock()
	for _, name := range names {
		if !have[name] {
			r.t.Errorf("flush of %s returned, row %s is not in the table", sink, name)
		}
	}
}

func (r *run) verify() {
	r.tell("verify")
	ctx, cancel := context.WithTimeout(r.gen.ctx, time.Minute)
	defer cancel()
	report, err := r.gen.buf.Verify(ctx)
	if err == nil && !report.OK() && !r.gen.dead.Load() {
		r.t.Errorf("the ledger differs: %+v", report)
	}
}

// end stops all faults, lets everything drain and checks the model.
func (r *run) end() {
	synctest.Wait()
	r.reboot()
	r.disk.heal()
	r.tasks.Wait()
	r.reboot()
	r.out.mu.Lock()
	r.out.quiet = true
	for id, columns := range r.altered {
		r.out.tables[id].columns = columns
	}
	r.out.mu.Unlock()
	r.tell("all faults end")
	time.Sleep(2 * time.Minute) // calls that hang, and the longest delays
	for _, st := range r.gen.buf.Stats().Sinks {
		ctx, cancel := context.WithTimeout(r.gen.ctx, time.Hour)
		if err := r.gen.buf.Flush(ctx, st.ID); err != nil {
			r.t.Errorf("flush of %s at the end: %v", st.ID, err)
		}
		cancel()
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	report, err := r.gen.buf.Verify(r.gen.ctx)
	if err != nil || !report.OK() {
		r.t.Errorf("verify at the end: %v %+v", err, report)
	}
	stats := r.gen.buf.Stats()
	if err := r.gen.buf.Close(); err != nil {
		r.t.Errorf("close at the end: %v", err)
	}
	r.gen.cancel()
	r.check(stats)
	r.checkStore()
}

// check compares the tables with what the clients were told.
func (r *run) check(stats buffer.Stats) {
	for _, b := range r.out.breach {
		r.t.Error(b)
	}
	total := 0
	seen := map[string]int{}
	for _, id := range sortedKeys(r.out.files) {
		f := r.out.files[id]
		last := map[string]string{}
		total += len(f.rows)
		for _, cells := range f.rows {
			name := cells[0]
			seen[name]++
			x := r.rows[name]
			if x == nil {
				r.t.Errorf("row %q of file %s was invented", name, id)
				continue
			}
			if x.table != f.table {
				r.t.Errorf("row %s is in table %s, it belongs to %s", name, f.table, x.table)
			}
			if client := name[:1]; name <= last[client] {
				r.t.Errorf("file %s: row %s comes after %s", id, name, last[client])
			} else {
				last[client] = name
			}
			if want := name[:3]; !strings.HasPrefix(cells[1], want) || strings.ReplaceAll(cells[1], want, "") != "" {
				r.t.Errorf("row %s has the value %.20q…", name, cells[1])
			}
		}
	}
	for _, name := range sortedKeys(r.rows) {
		x, n := r.rows[name], seen[name]
		switch {
		case n > 1:
			r.t.Errorf("row %s is %d times in the table", name, n)
		case n == 1 && x.fate == refused:
			r.t.Errorf("row %s was refused and is in the table", name)
		case n == 0 && x.fate == acked:
			r.t.Errorf("row %s was acknowledged at %s and is lost", name, x.at.Sub(r.begin))
		case n == 0 && x.fate == accepted && !r.mayLack(x):
			r.t.Errorf("row %s was accepted at %s and is lost, its process ended at %s", name, x.at.Sub(r.begin), x.gone.Sub(r.begin))
		}
	}
	if n := len(r.out.objects); n > 0 {
		r.t.Errorf("%d objects are left in staging: %v", n, sortedKeys(r.out.objects))
	}
	if stats.LocalBytes != 0 || stats.PendingBytes != 0 {
		r.t.Errorf("left over: %d bytes on disk, %d pending", stats.LocalBytes, stats.PendingBytes)
	}
	ledger := int64(0)
	for _, s := range stats.Sinks {
		ledger += s.Accepted
		if len(s.Slices) > 0 {
			r.t.Errorf("sink %s has slices left: %v", s.ID, s.Slices)
		}
		if s.Target.Rows != s.Accepted {
			r.t.Errorf("sink %s: %d rows accepted, %d imported", s.ID, s.Accepted, s.Target.Rows)
		}
	}
	if ledger != int64(total) {
		r.t.Errorf("the ledger has %d rows, the tables %d", ledger, total)
	}
}

// checkStore looks for slices and chunks in the store that was closed.
func (r *run) checkStore() {
	db, err := pebble.Open("data", &pebble.Options{FS: r.disk.mem, ReadOnly: true, Logger: quiet{}})
	if err != nil {
		r.t.Errorf("open the store: %v", err)
		return
	}
	defer db.Close()
	it, err := db.NewIter(nil)
	if err != nil {
		r.t.Errorf("read the store: %v", err)
		return
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if k := it.Key()[0]; k == 'l' || k == 'c' {
			r.t.Errorf("the store has the key %q left", it.Key())
		}
	}
}

// failureHandler learns from the log when the local level failed.
type failureHandler struct {
	slog.Handler
	r *run
}

func (h failureHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h failureHandler) Handle(ctx context.Context, rec slog.Record) error {
	if strings.HasPrefix(rec.Message, "local level failed") {
		h.r.mu.Lock()
		h.r.failures = append(h.r.failures, time.Now())
		h.r.mu.Unlock()
	}
	if !h.Handler.Enabled(ctx, rec.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, rec)
}

// mayLack tells whether a row that nobody waited for may have been lost by a cut or a failure soon after it was taken.
func (r *run) mayLack(x *row) bool {
	if !x.gone.IsZero() && x.gone.Sub(x.at) <= r.unsynced {
		return true
	}
	return slices.ContainsFunc(r.failures, func(at time.Time) bool {
		return !at.Before(x.at) && at.Sub(x.at) <= r.unsynced
	})
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var _ io.Closer = (*buffer.Buffer)(nil)
