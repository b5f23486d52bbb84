package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

// refusing are tables that accept no file while it is set.
type refusing struct{ atomic.Bool }

var errColumn = driver.Permanent(errors.New("a column is missing"))

func (r *refusing) before(_ context.Context, call buffertest.Call) error {
	if call.Op == buffertest.OpImport && r.Load() {
		return errColumn
	}
	return nil
}

// holdFiles makes files of two rows each that the tables refuse, on a fake clock, and returns their ids.
func holdFiles(t *testing.T, b *buffer.Buffer, sink string, from, files int) (ids []string) {
	t.Helper()
	s := define(t, b, sink, func(c *buffer.SinkConfig) { c.Upload.Count, c.Table.ID = 1, tableA })
	for i := range files {
		put(t, b, s, from+2*i, from+2*i+2)
		held := (*buffer.HeldError)(nil)
		if err := b.Sink(sink).Flush(t.Context()); !errors.As(err, &held) {
			t.Fatalf("Flush = %v, want a file that is held", err)
		}
	}
	synctest.Wait() // until the last one is in staging
	return waitingFiles(b, sink)
}

// waitingFiles are the ids of the files that wait for their import.
func waitingFiles(b *buffer.Buffer, sink string) (ids []string) {
	st, _ := b.Sink(sink).Stats()
	for _, f := range st.Files {
		if f.FinishedAt.IsZero() {
			ids = append(ids, f.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// moveFiles moves the files of a buffer up to the decision.
func moveFiles(t *testing.T, to, from *buffer.Buffer, instance string, want int) {
	t.Helper()
	if n, err := from.Moves().BeginDeparture(t.Context()); err != nil || n != want {
		t.Fatalf("BeginDeparture of %s = %d, %v, want %d", instance, n, err, want)
	}
	if n, err := to.Moves().ReceiveFiles(t.Context(), from, buffer.Mover{Instance: instance, Session: "s", Epoch: 7}); err != nil || n != want {
		t.Fatalf("ReceiveFiles from %s = %d, %v, want %d", instance, n, err, want)
	}
}

// decideMove ends a move.
func decideMove(t *testing.T, to, from *buffer.Buffer, instance string, moved bool) {
	t.Helper()
	must(t, errors.Join(to.Moves().EndArrival(t.Context(), instance, moved), from.Moves().EndDeparture(t.Context(), moved)))
}

// Refused files move through two engines, each of which has a file too. They keep their ids, even if both engines restart. Before the
// decision no engine imports them. Each ledger holds at each step. When the table is repaired, it has each row once, imported under the id that the
// first engine has tried.
func TestFilesMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses refusing
		refuses.Store(true)
		mem := buffertest.NewMemory()
		mem.Before = refuses.before
		at := func(disk *disktest.Disk) *buffer.Buffer {
			return openAt(t, "data", localdisk.On(memoryOptions(t, mem), disk))
		}
		disks := []*disktest.Disk{disktest.New(t), disktest.New(t), disktest.New(t)}
		first, second, third := at(disks[0]), at(disks[1]), at(disks[2])
		moving := holdFiles(t, first, "a", 0, 3)
		other := holdFiles(t, first, "never defined elsewhere", 6, 1)
		own, last := holdFiles(t, second, "a", 8, 1), holdFiles(t, third, "a", 10, 1)

		moveFiles(t, second, first, "1st", 4)
		if err := first.Sink("a").Discard(t.Context(), moving[0]); !errors.Is(err, buffer.ErrFileMoves) {
			t.Errorf("Discard of a file that moves = %v, want ErrFileMoves", err)
		}
		if err := first.Sink("a").QuarantineFile(t.Context(), moving[0]); !errors.Is(err, buffer.ErrFileMoves) {
			t.Errorf("QuarantineFile of a file that moves = %v, want ErrFileMoves", err)
		}
		if got := waitingFiles(second, "a"); !slices.Equal(got, own) {
			t.Errorf("before the decision the second engine has the files %v, want its own %v", got, own)
		}
		if st, _ := second.Sink("a").Stats(); st.Arriving != 3 || st.Accepted != 2 {
			t.Errorf("before the decision %d files arrive and %d rows are accepted, want 3 and 2", st.Arriving, st.Accepted)
		}
		if got, want := second.Moves().Arrivals(), []buffer.Arrival{{Mover: buffer.Mover{Instance: "1st", Session: "s", Epoch: 7}, Files: 4}}; !slices.Equal(got, want) {
			t.Errorf("Arrivals = %v, want %v", got, want)
		}
		must(t, second.Sink("never defined elsewhere").Drop(t.Context()))
		if err := second.Sink("never defined elsewhere").Forget(t.Context()); !errors.Is(err, buffer.ErrSinkInUse) {
			t.Errorf("Forget of a sink whose files arrive = %v, want ErrSinkInUse", err)
		}
		closeBuffer(t, first)
		closeBuffer(t, second)
		first, second = at(disks[0]), at(disks[1])
		calls := len(mem.Calls())
		time.Sleep(time.Hour)
		for _, c := range mem.Calls()[calls:] {
			if c.Op == buffertest.OpImport && c.ID != own[0] && c.ID != last[0] {
				t.Fatalf("the file %s is imported while it moves", c.ID)
			}
		}
		verify(t, first)
		verify(t, second)

		decideMove(t, second, first, "1st", true)
		if st, _ := first.Sink("a").Stats(); st.Accepted != 0 || st.Staging.Rows != 0 || len(waitingFiles(first, "a")) > 0 {
			t.Errorf("the first engine still has %+v", st)
		}
		if st, _ := second.Sink("a").Stats(); st.Accepted != 8 || st.Staging.Rows != 8 {
			t.Errorf("the second engine has %+v, want 8 rows in staging", st)
		}
		verify(t, first)
		verify(t, second)
		all := slices.Sorted(slices.Values(append(slices.Clone(own), moving...)))
		if got := waitingFiles(second, "a"); !slices.Equal(got, all) {
			t.Errorf("the second engine has the files %v, want %v", got, all)
		}

		moveFiles(t, third, second, "2nd", 5)
		decideMove(t, third, second, "2nd", true)
		closeBuffer(t, second)
		closeBuffer(t, third)
		second, third = at(disks[1]), at(disks[2])
		all = slices.Sorted(slices.Values(append(all, last...)))
		if got := waitingFiles(third, "a"); !slices.Equal(got, all) {
			t.Errorf("the third engine has the files %v, want %v", got, all)
		}
		if got := waitingFiles(third, "never defined elsewhere"); !slices.Equal(got, other) {
			t.Errorf("the third engine has the files %v, want %v", got, other)
		}
		verify(t, second)
		verify(t, third)
		refuses.Store(false)
		for _, b := range []*buffer.Buffer{first, second, third} {
			for _, s := range b.Stats().Sinks {
				flush(t, b, s.ID)
			}
		}
		wantAll(t, mem, tableA, 0, 12)
		for _, id := range append(all, other...) {
			if n, err := mem.CountFile(t.Context(), driver.Table{ID: tableA}, id); n != 2 || err != nil {
				t.Errorf("the table has %d rows of the file %s, %v, want 2", n, id, err)
			}
		}
		time.Sleep(time.Minute)
		if n := len(mem.Objects()); n > 0 {
			t.Errorf("%d objects are left in staging, want 0", n)
		}
		for _, b := range []*buffer.Buffer{first, second, third} {
			verify(t, b)
			closeBuffer(t, b)
		}
	})
}

// Files that do not move after all leave nothing, and the first engine imports them. One that cannot leave says why.
func TestFilesThatDoNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses, hangs refusing
		refuses.Store(true)
		mem := buffertest.NewMemory()
		mem.Before = func(ctx context.Context, call buffertest.Call) error {
			if call.Op == buffertest.OpPut && hangs.Load() {
				return errors.New("the staging is away")
			}
			return refuses.before(ctx, call)
		}
		first := openAt(t, "data", memoryOptions(t, mem))
		opts := memoryOptions(t, mem)
		opts.MaxSinkBytes = 1 << 10
		second := openAt(t, "data", opts)
		holdFiles(t, first, "a", 0, 2)
		for range 2 {
			moveFiles(t, second, first, "1st", 2)
		}
		decideMove(t, second, first, "1st", false)
		if got := second.Moves().Arrivals(); len(got) > 0 {
			t.Errorf("left are %v", got)
		}
		verify(t, second)
		hangs.Store(true)
		put(t, first, define(t, first, "b"), 0, 1)
		must(t, first.Sink("b").CloseFile(t.Context(), 1))
		if n, err := first.Moves().BeginDeparture(t.Context()); err == nil || !strings.Contains(err.Error(), "not in staging yet") {
			t.Errorf("BeginDeparture while a slice is not in staging = %d, %v, want an error", n, err)
		}
		hangs.Store(false)
		must(t, first.Sink("b").Retry(t.Context()))
		time.Sleep(time.Minute)
		holdFiles(t, first, "a", 4, 30)
		if n, err := first.Moves().BeginDeparture(t.Context()); err != nil || n != 33 {
			t.Errorf("BeginDeparture = %d, %v, want 33", n, err)
		}
		if n, err := second.Moves().ReceiveFiles(t.Context(), first, buffer.Mover{Instance: "1st"}); err == nil || !strings.Contains(err.Error(), "half of MaxSinkBytes") {
			t.Errorf("ReceiveFiles without room = %d, %v, want an error", n, err)
		}
		decideMove(t, second, first, "1st", false)
		refuses.Store(false)
		flush(t, first, "a")
		flush(t, first, "b")
		wantAll(t, mem, tableA, 0, 64)
		verify(t, first)
		closeBuffer(t, first)
		closeBuffer(t, second)
	})
}

// A departure waits for the import that runs. Its rows are in the table once, and the file does not move.
func TestDepartureWaitsForAnImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var once sync.Once
		begun, end := make(chan struct{}), make(chan struct{})
		mem.Before = func(_ context.Context, call buffertest.Call) error {
			if call.Op == buffertest.OpImport {
				once.Do(func() { close(begun); <-end })
			}
			return nil
		}
		b := openAt(t, "data", memoryOptions(t, mem))
		put(t, b, define(t, b, "a"), 0, 2)
		must(t, b.Sink("a").CloseFile(t.Context(), 1))
		<-begun
		left := make(chan string)
		go func() {
			n, err := b.Moves().BeginDeparture(t.Context())
			left <- fmt.Sprint(n, err)
		}()
		time.Sleep(time.Minute)
		select {
		case got := <-left:
			t.Errorf("BeginDeparture returned %s during an import", got)
		default:
			close(end)
			if got, want := <-left, "0 <nil>"; got != want {
				t.Errorf("BeginDeparture = %s, want %s", got, want)
			}
		}
		wantAll(t, mem, tableA, 0, 2)
		verify(t, b)
		closeBuffer(t, b)
	})
}

// A file that is split moves with its parts. The refused rows that are in the quarantine move as records, the parts that are in the table are not
// imported again, and the rest follows under the ids of its parts.
func TestSplitFileMoves(t *testing.T) {
	withRefusing(t, 1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		const rows = 60
		refused := func(i int) bool { return i%7 == 3 }
		var voids atomic.Int32
		mem.Before = func(_ context.Context, call buffertest.Call) error {
			if call.Op == buffertest.OpImport && voids.Load() >= 3 { // the target is away in the middle of the split
				return errors.New("the server is away")
			}
			if call.Op == buffertest.OpVoid {
				voids.Add(1)
			}
			return nil
		}
		first := openAt(t, "data", opts)
		s := define(t, first, "a", quarantined(), smallSlicesOf(rows))
		putRows(t, first, s, rows, refused)
		must(t, first.Sink("a").CloseFile(t.Context(), 1))
		time.Sleep(time.Minute)
		second := openAt(t, "data", memoryOptions(t, mem))
		define(t, second, "a", quarantined(), smallSlicesOf(rows))
		if n, err := first.Moves().BeginDeparture(t.Context()); n != 1 || err != nil {
			t.Fatalf("BeginDeparture = %d, %v, want 1", n, err)
		}
		by := buffer.Mover{Instance: "1st", Session: "s", Epoch: 7}
		if _, err := second.Moves().ReceiveRejected(t.Context(), first, by); err != nil {
			t.Fatal(err)
		}
		if n, err := second.Moves().ReceiveFiles(t.Context(), first, by); n != 1 || err != nil {
			t.Fatalf("ReceiveFiles = %d, %v, want 1", n, err)
		}
		decideMove(t, second, first, "1st", true)
		verify(t, first)
		voids.Store(-1 << 20)
		flush(t, second, "a")
		wantSplit(t, second, mem, rows, refused)
		closeBuffer(t, first)
		closeBuffer(t, second)
	})
}

// Whatever the moment of a power cut in either engine, each row is in the table once. The decision says whose the files are.
func TestFileMoveSurvivesAPowerCut(t *testing.T) {
	seed := seedtest.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			var refuses refusing
			refuses.Store(true)
			mem := buffertest.NewMemory()
			mem.Before = refuses.before
			disks := []*disktest.Disk{disktest.New(t), disktest.New(t)}
			at := func(i int) *buffer.Buffer { return openAt(t, "data", localdisk.On(memoryOptions(t, mem), disks[i])) }
			first, second := at(0), at(1)
			files := 1 + rng.IntN(5)
			holdFiles(t, first, "a", 0, files)
			holdFiles(t, second, "a", 2*files, 1)
			by := buffer.Mover{Instance: "1st", Session: "s", Epoch: 7}
			// The cut comes after so many steps.
			steps, after, decision := 0, 1+rng.IntN(5), false
			step := func(do func() error) {
				if steps++; steps <= after {
					must(t, do())
				}
			}
			step(func() error { _, err := first.Moves().BeginDeparture(t.Context()); return err })
			step(func() error { _, err := second.Moves().ReceiveFiles(t.Context(), first, by); return err })
			step(func() error { decision = true; return nil })
			step(func() error { return second.Moves().EndArrival(t.Context(), "1st", true) })
			step(func() error { return first.Moves().EndDeparture(t.Context(), true) })
			for i, b := range []*buffer.Buffer{first, second} {
				cut := disks[i].Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rand.New(rand.NewPCG(seed, uint64(round)))})
				closeBuffer(t, b)
				disks[i] = cut
			}
			first, second = at(0), at(1)
			if rng.IntN(2) == 0 {
				refuses.Store(false) // an early import would store rows twice, or the ledgers would differ
				time.Sleep(time.Minute)
			}
			decideMove(t, second, first, "1st", decision)
			time.Sleep(time.Second)
			refuses.Store(false)
			flush(t, first, "a")
			flush(t, second, "a")
			wantAll(t, mem, tableA, 0, 2*files+2)
			ofFirst, _ := first.Sink("a").Stats()
			ofSecond, _ := second.Sink("a").Stats()
			want := [2]int64{int64(2 * files), 2}
			if decision {
				want = [2]int64{0, int64(2*files) + 2}
			}
			if got := [2]int64{ofFirst.Target.Rows, ofSecond.Target.Rows}; got != want {
				t.Errorf("seed %d, round %d, %d steps: the engines have imported %v rows, want %v", seed, round, after, got, want)
			}
			verify(t, first)
			verify(t, second)
			closeBuffer(t, first)
			closeBuffer(t, second)
		})
	}
}
