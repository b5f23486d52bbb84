// Package forebaytest tests pipelines that use forebay under faults: an engine with disk, staging and tables in memory,
// whose drivers fail, hang and lose responses on demand, and whose power can be cut.
//
// In testing/synctest the clock is fake: hours of triggers and backoff pass at once, and [Kit.Advance] returns when
// everything due has happened.
//
//	synctest.Test(t, func(t *testing.T) {
//		kit := forebaytest.New(t, forebay.Options{}, source)
//		kit.Engine().Ingest(...)
//		kit.Lose(buffertest.OpImport, 1)  // the import succeeds, its response is lost
//		kit.Crash()                       // a power cut
//		kit.Advance(time.Hour)
//		rows := kit.Rows("in.c-web.events")
//	})
//
// [Kit.Define] changes the definition of a source, [Kit.RefuseRows] lets tables refuse rows, and [Kit.Beside] opens a second engine on the same tables.
// [Null] is NULL in [Kit.Rows].
package forebaytest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
)

// ErrInjected is the error of driver calls that were made to fail or to lose their response.
var ErrInjected = errors.New("forebaytest: injected failure")

// Kit is an engine in memory with its faults. Its methods are safe for concurrent use, except Crash, Restart, Define and Advance,
// which belong to the test's goroutine.
type Kit struct {
	tb      testing.TB
	opts    forebay.Options
	sources []forebay.Source
	memory  *buffertest.Memory
	disk    *vfs.MemFS
	process *process

	faults *faults
}

// faults are what happens to the next calls of each operation.
type faults struct {
	mu   sync.Mutex
	next map[buffertest.Op][]fault
	rows func(table string, row []string) driver.RowError
}

type fault struct {
	before, after error
	delay         time.Duration
}

// process is one opening of the engine. Calls from a crashed process have no effect.
type process struct {
	engine *forebay.Engine
	dead   atomic.Bool
}

// New opens an engine in memory and defines the sources. It replaces the disk, Staging and Target of the options. The engine
// is closed with the test, which fails if that fails.
func New(tb testing.TB, opts forebay.Options, sources ...forebay.Source) *Kit {
	tb.Helper()
	k := &Kit{faults: &faults{next: make(map[buffertest.Op][]fault)}, memory: buffertest.NewMemory()}
	k.memory.Before, k.memory.After, k.memory.Refuse = k.before, k.after, k.refuse
	return k.start(tb, opts, sources)
}

// Beside opens a second engine with the staging and the tables of k, and a separate disk, like two processes that feed one table. The kits share their
// faults: a fault hits the next call of either engine.
func (k *Kit) Beside(opts forebay.Options, sources ...forebay.Source) *Kit {
	k.tb.Helper()
	return (&Kit{faults: k.faults, memory: k.memory}).start(k.tb, opts, sources)
}

func (k *Kit) start(tb testing.TB, opts forebay.Options, sources []forebay.Source) *Kit {
	tb.Helper()
	k.tb, k.opts, k.sources, k.disk = tb, opts, slices.Clone(sources), vfs.NewCrashableMem()
	k.opts.Buffer.MemTableBytes = cmp.Or(k.opts.Buffer.MemTableBytes, 1<<20) // because tests open many engines
	k.makeFolders()
	tb.Cleanup(func() { // registered before open, because an engine that was opened may be left by a definition that fails
		if k.process == nil {
			return
		}
		if err := k.process.engine.Close(); err != nil {
			tb.Errorf("close the engine: %v", err)
		}
	})
	k.open()
	return k
}

// Engine returns the current engine. Crash and Restart replace it.
func (k *Kit) Engine() *forebay.Engine { return k.process.engine }

// Define defines a source, or changes its definition, like a new deployment of a program. Crash and Restart keep the change. If [forebay.Engine.Define]
// returns an error, Define returns it and changes nothing.
func (k *Kit) Define(s forebay.Source) error {
	if err := k.Engine().Define(context.Background(), s); err != nil {
		return err
	}
	if i := slices.IndexFunc(k.sources, func(old forebay.Source) bool { return old.ID == s.ID }); i >= 0 {
		k.sources[i] = s
	} else {
		k.sources = append(k.sources, s)
	}
	return nil
}

// makeFolders creates the data directory durably, so that a power cut does not remove it.
func (k *Kit) makeFolders() {
	err := k.disk.MkdirAll("data/local", 0o700)
	for _, dir := range []string{"", "data", "data/local"} {
		d, e := k.disk.OpenDir(dir)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		err = errors.Join(err, d.Sync(), d.Close())
	}
	if err != nil {
		k.tb.Fatalf("make the data directory: %v", err)
	}
}

func (k *Kit) open() {
	k.tb.Helper()
	p := &process{}
	opts := k.opts
	opts.Buffer = localdisk.On(opts.Buffer, k.disk)
	opts.Staging, opts.Target = &connection{k.memory, p}, &connection{k.memory, p}
	engine, err := forebay.Open("data", opts)
	if err != nil {
		k.tb.Fatalf("open the engine: %v", err)
	}
	p.engine, k.process = engine, p
	for _, s := range k.sources {
		if err := engine.Define(context.Background(), s); err != nil {
			k.tb.Fatalf("define source %q: %v", s.ID, err)
		}
	}
}

// Crash cuts the power and opens the engine again, with the sources of New and Define. Unsynced data is lost, driver calls in progress
// have an unknown outcome, and running calls of the old engine end with an error.
func (k *Kit) Crash() {
	k.tb.Helper()
	old := k.process
	old.dead.Store(true)
	k.disk = k.disk.CrashClone(vfs.CrashCloneCfg{})
	_ = old.engine.Close() // writes to the disk that was abandoned
	k.open()
}

// Restart closes the engine and opens it again, with the sources of New and Define.
func (k *Kit) Restart() {
	k.tb.Helper()
	if err := k.process.engine.Close(); err != nil {
		k.tb.Errorf("close the engine: %v", err)
	}
	k.open()
}

// Advance lets time pass on the fake clock and returns when everything due has happened. Call it inside synctest.Test only.
func (k *Kit) Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// StepUpload lets time pass until every accepted row has left the local level, and returns how long that took. It fails the
// test after a day. Call it inside synctest.Test only.
func (k *Kit) StepUpload() time.Duration {
	k.tb.Helper()
	return k.step("upload", func(s forebay.SinkStats) int64 { return s.Local.Rows })
}

// StepImport lets time pass until every accepted row is in its table, and returns how long that took. It fails the test
// after a day. Call it inside synctest.Test only.
func (k *Kit) StepImport() time.Duration {
	k.tb.Helper()
	return k.step("import", func(s forebay.SinkStats) int64 { return s.Local.Rows + s.Staging.Rows })
}

func (k *Kit) step(name string, waiting func(forebay.SinkStats) int64) time.Duration {
	k.tb.Helper()
	begin := time.Now()
	for synctest.Wait(); ; k.Advance(time.Second) {
		var rows int64
		for _, s := range k.Engine().Stats().Sinks {
			rows += waiting(s)
		}
		took := time.Since(begin)
		if rows == 0 {
			return took
		}
		if took > 24*time.Hour {
			k.tb.Fatalf("%s: %d rows still wait after a day: %+v", name, rows, k.Engine().Stats())
		}
	}
}

// Fail makes the next calls of an operation fail with [ErrInjected] before they take effect.
func (k *Kit) Fail(op buffertest.Op, times int) { k.inject(op, times, fault{before: ErrInjected}) }

// FailWith is Fail with err, for example one marked by [driver.Permanent].
func (k *Kit) FailWith(op buffertest.Op, times int, err error) {
	k.inject(op, times, fault{before: err})
}

// Lose makes the next calls of an operation take effect and then fail with [ErrInjected].
func (k *Kit) Lose(op buffertest.Op, times int) { k.inject(op, times, fault{after: ErrInjected}) }

// Delay makes the next calls of an operation wait before they start. A call that waits longer than
// buffer.Tuning.AttemptTimeout fails.
func (k *Kit) Delay(op buffertest.Op, times int, d time.Duration) {
	k.inject(op, times, fault{delay: d})
}

// RefuseRows makes the tables refuse each row for which refuse returns a Reason, such as a row that violates a check. With nil they refuse no row.
// Refused rows go to the quarantine of their sink, see [forebay.Sink].
func (k *Kit) RefuseRows(refuse func(table string, row []string) driver.RowError) {
	k.faults.mu.Lock()
	defer k.faults.mu.Unlock()
	k.faults.rows = refuse
}

func (k *Kit) refuse(table string, row []string) driver.RowError {
	k.faults.mu.Lock()
	refuse := k.faults.rows
	k.faults.mu.Unlock()
	if refuse == nil {
		return driver.RowError{}
	}
	return refuse(table, row)
}

func (k *Kit) inject(op buffertest.Op, times int, f fault) {
	k.faults.mu.Lock()
	defer k.faults.mu.Unlock()
	for range times {
		k.faults.next[op] = append(k.faults.next[op], f)
	}
}

// Null is NULL in the rows of [Kit.Rows]. It is a text that no test needs as a value.
const Null = buffertest.Null

// Rows returns the rows of a table in the order of the imports, with [Null] for NULL.
func (k *Kit) Rows(table string) [][]string { return k.memory.Rows(table) }

// Calls returns the calls of all drivers so far.
func (k *Kit) Calls() []buffertest.Call { return k.memory.Calls() }

// Memory returns staging and tables, to inspect and alter them. Its hooks belong to the kit.
func (k *Kit) Memory() *buffertest.Memory { return k.memory }

// lost carries the second half of a fault from before to after.
type lost struct{ err error }

type lostKey struct{}

func (k *Kit) before(ctx context.Context, call buffertest.Call) error {
	k.faults.mu.Lock()
	var f fault
	if list := k.faults.next[call.Op]; len(list) > 0 {
		f, k.faults.next[call.Op] = list[0], list[1:]
	}
	k.faults.mu.Unlock()
	if l, ok := ctx.Value(lostKey{}).(*lost); ok {
		l.err = f.after
	}
	if f.delay > 0 {
		timer := time.NewTimer(f.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.before
}

func (k *Kit) after(ctx context.Context, _ buffertest.Call) error {
	if l, ok := ctx.Value(lostKey{}).(*lost); ok {
		return l.err
	}
	return nil
}

var (
	_ driver.Staging   = (*connection)(nil)
	_ driver.Target    = (*connection)(nil)
	_ driver.Counter   = (*connection)(nil)
	_ driver.Extender  = (*connection)(nil)
	_ driver.Taker     = (*connection)(nil)
	_ driver.Uncreator = (*connection)(nil)
	_ driver.Voider    = (*connection)(nil)
)
