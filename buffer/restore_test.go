package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// keys returns everything that a store holds.
func keys(t *testing.T, disk vfs.FS, dir string) map[string]string {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{FS: disk, ReadOnly: true, ErrorIfNotExists: true, Logger: quiet{}})
	must(t, err)
	defer db.Close()
	it, err := db.NewIter(nil)
	must(t, err)
	all := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		if it.Key()[0] != 't' { // copies of batches that the log may lack
			all[string(it.Key())] = string(it.Value())
		}
	}
	must(t, it.Close())
	return all
}

// replicatedLife is the life of a machine with a changelog, up to its loss.
type replicatedLife struct {
	t    *testing.T
	rng  *rand.Rand
	mem  *buffertest.Memory
	down *down // for imports
	log  *fakeLog
	disk *disktest.Disk
	opts buffer.Options
	b    *buffer.Buffer
	// local means that the rows of sink a are acknowledged before the log has them.
	local, lost bool

	sinks map[string]*buffer.DefinedSink
	next  int
	acked map[string][]string // ids of rows by sink
	// moments are the contents of the store when the log had so many batches.
	moments map[int]moment
	// copies are the disks with a checkpoint in the folder copy, by the same number.
	copies map[int]*disktest.Disk
}

type moment struct {
	disk *disktest.Disk
	keys map[string]string
}

func newReplicatedLife(t *testing.T, seed uint64) *replicatedLife {
	l := &replicatedLife{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), mem: buffertest.NewMemory(), down: &down{}, log: newFakeLog(t), disk: disktest.New(t),
		acked: map[string][]string{}, moments: map[int]moment{}, copies: map[int]*disktest.Disk{},
	}
	var acks atomic.Int64
	l.log.delay = func() time.Duration { return time.Duration(acks.Add(7)%20) * time.Millisecond }
	l.mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport {
			return l.down.err(false)
		}
		return nil
	}
	l.opts = memoryOptions(t, l.mem)
	l.opts.KeepFormat = l.rng.IntN(2) == 0
	l.local = seed%2 == 1
	l.open("data")
	return l
}

// open opens the folder on the disk of now, as a new owner of the log.
func (l *replicatedLife) open(dir string) {
	l.t.Helper()
	l.opts.Changelog = l.log.open()
	l.opts = localdisk.On(l.opts, vfs.FS(&slowCopies{FS: l.disk}))
	l.b = openAt(l.t, dir, l.opts)
	l.sinks = map[string]*buffer.DefinedSink{}
}

func (l *replicatedLife) sink(id string) *buffer.DefinedSink {
	if l.sinks[id] == nil {
		l.sinks[id] = define(l.t, l.b, id, func(c *buffer.SinkConfig) {
			c.Upload.Count, c.Import.Count = 20, 60
			c.AckLocal = l.local && id == "a"
		})
	}
	return l.sinks[id]
}

// append appends rows and waits for them, unless the log is away.
func (l *replicatedLife) append(id string, n int, size int) {
	s := l.sink(id)
	var data []byte
	var rows []string
	value := make([]byte, size)
	for range n {
		for i := range value {
			value[i] = byte('a' + l.rng.IntN(26))
		}
		data = append(data, row(l.next, string(value))...)
		rows = append(rows, strconv.Itoa(l.next))
		l.next++
	}
	ticket, err := l.b.Append(l.t.Context(), time.Now(), buffer.Rows{Sink: s, Data: data, Count: n})
	if err != nil {
		l.t.Fatal(err)
	}
	switch err := waitShort(l.t, ticket); {
	case err == nil:
		if id != "a" || !l.lost { // else they went with the disk, perhaps
			l.acked[id] = append(l.acked[id], rows...)
		}
	case !errors.Is(err, context.DeadlineExceeded) || !l.log.silent():
		l.t.Fatal(err)
	}
}

// pass lets time pass, until everything has come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// step does something, and notes the contents of the store when all work has come to rest.
func (l *replicatedLife) step() {
	id := string(rune('a' + l.rng.IntN(3)))
	switch op := l.rng.IntN(20); {
	case op < 9:
		l.append(id, 1+l.rng.IntN(30), 1+l.rng.IntN(200))
	case op == 9:
		l.append(id, 10, 100<<10) // more than half of the store's write buffer
	case op < 12:
		pass(time.Duration(l.rng.IntN(10)) * time.Minute)
	case op == 12:
		l.down.target.Store(!l.down.target.Load())
	case op == 13 && !l.down.target.Load():
		l.sink(id)
		flush(l.t, l.b, id)
	case op == 14 && id == "c": // its rows are not counted
		if st, ok := l.b.Sink(id).Stats(); ok && len(st.Files) > 0 {
			_ = l.b.Sink(id).Discard(l.t.Context(), st.Files[len(st.Files)-1].ID) // it may have ended
		}
	case op == 15:
		if err := errors.Join(l.disk.RemoveAll("copy"), l.b.Checkpoint(l.t.Context(), "copy")); err != nil {
			l.t.Fatal(err)
		}
		disk := l.disk.Cut(vfs.CrashCloneCfg{})
		l.copies[positionOf(l.t, disk, "copy")] = disk
	case op == 19:
		l.snapshot()
	case op == 16:
		closeBuffer(l.t, l.b)
		l.opts.KeepFormat = false
		l.open("data")
	case op == 17: // the power fails while the log is away
		l.sink(id)
		l.log.setAway(true)
		l.append(id, 5, 10)
		crashed := l.disk.Cut(vfs.CrashCloneCfg{})
		l.log.set(func() {
			l.log.away = false
			if l.rng.IntN(2) == 0 { // an append without a reply was not stored either
				l.log.begun++
				if l.local && l.sinks["a"] != nil { // it was in the memory of the process that has ended
					l.log.pending = nil
				}
			}
		})
		l.replace(crashed)
	case op == 18: // an older copy of the disk
		if len(l.moments) > 0 {
			l.replace(l.moments[slices.Sorted(maps.Keys(l.moments))[l.rng.IntN(len(l.moments))]].disk.Cut(vfs.CrashCloneCfg{}))
		}
	}
	pass(time.Second)
	disk := l.disk.Cut(vfs.CrashCloneCfg{})
	if n := l.log.len(); positionOf(l.t, disk, "data") == n { // else something is on its way again
		l.moments[n] = moment{disk, keys(l.t, disk, "data")}
	}
}

// snapshot makes a snapshot while rows arrive and slices are uploaded, imported and deleted.
func (l *replicatedLife) snapshot() {
	if err := l.disk.RemoveAll("copy"); err != nil {
		l.t.Fatal(err)
	}
	before := l.log.len()
	var at buffer.LogPosition
	done := make(chan error)
	go func() {
		var err error
		at, err = l.b.Snapshot(l.t.Context(), "copy")
		done <- err
	}()
	for range 1 + l.rng.IntN(8) {
		pass(time.Duration(l.rng.IntN(10)) * time.Millisecond)
		l.append(string(rune('a'+l.rng.IntN(3))), 1+l.rng.IntN(30), 1+l.rng.IntN(3000))
	}
	if err := <-done; err != nil {
		l.t.Fatal(err)
	}
	disk := l.disk.Cut(vfs.CrashCloneCfg{})
	n := positionOf(l.t, disk, "copy")
	if n != int(at.Number) || string(at.Mark) != string(mark(n)) || n < before {
		l.t.Errorf("the snapshot has %d batches, at least %d were there before; Snapshot says %d, mark %q", n, before, at.Number, at.Mark)
	}
	l.copies[n] = disk
}

// slowCopies is a disk that takes its time for copies.
type slowCopies struct {
	vfs.FS
	turns atomic.Int64
}

func (d *slowCopies) pause(name string) {
	if strings.HasPrefix(name, "copy") {
		<-time.After(time.Duration(d.turns.Add(5)%13) * time.Millisecond)
	}
}

func (d *slowCopies) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	d.pause(name)
	f, err := d.FS.Create(name, c)
	if err == nil && strings.HasSuffix(name, ".log") {
		f = &slowCopy{f, d, name}
	}
	return f, err
}

func (d *slowCopies) Link(old, name string) error {
	d.pause(name)
	return d.FS.Link(old, name)
}

type slowCopy struct {
	vfs.File
	disk *slowCopies
	name string
}

func (f *slowCopy) Write(p []byte) (int, error) {
	f.disk.pause(f.name)
	return f.File.Write(p)
}

// replace continues with another disk, while the process before has not ended.
func (l *replicatedLife) replace(disk *disktest.Disk) {
	before := l.b
	l.disk = disk
	l.open("data")
	_ = before.Close() // it may be fenced
}

// lose ends the machine. From some batch on the log gets nothing from it.
func (l *replicatedLife) lose() {
	for _, id := range []string{"a", "b", "c"} {
		l.sink(id)
	}
	l.lost = l.local
	l.log.set(func() { l.log.stopAt = len(l.log.stored) + l.rng.IntN(6) })
	for range l.rng.IntN(6) {
		l.append(string(rune('a'+l.rng.IntN(3))), 1+l.rng.IntN(30), 10)
	}
	pass(time.Duration(l.rng.IntN(5)) * time.Minute)
	_ = l.b.Close()
	l.log.set(func() { l.log.stopAt = 0 })
}

// restore makes the store again in the folder restored, as it was after a number of batches, from some checkpoint before or none.
func (l *replicatedLife) restore(number int) *disktest.Disk {
	bases := []int{0}
	for n := range l.copies {
		if n <= number {
			bases = append(bases, n)
		}
	}
	slices.Sort(bases)
	base := bases[l.rng.IntN(len(bases))]
	disk, checkpoint := disktest.New(l.t), ""
	if base > 0 {
		disk, checkpoint = l.copies[base].Cut(vfs.CrashCloneCfg{}), "copy"
	}
	from := l.rng.IntN(base + 1) // batches in the checkpoint are skipped
	tuning := localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.FS(disk))
	if err := buffer.Restore("restored", checkpoint, l.log.batches(from, number), tuning); err != nil {
		l.t.Fatalf("restore batch %d from %d: %v", number, base, err)
	}
	return disk.Cut(vfs.CrashCloneCfg{}) // all of it is durable
}

func positionOf(t *testing.T, disk vfs.FS, dir string) int {
	t.Helper()
	i, err := buffer.Inspect(dir, localdisk.On(buffer.InspectOptions{}, disk))
	must(t, err)
	at := i.LogPosition()
	must(t, i.Close())
	return int(at.Number)
}

// Any life of a machine, cut after any batch. The restored state is the state of the machine. When it is lost, a new
// machine brings each acknowledged row into its table, and none twice.
func TestRestoredLife(t *testing.T) {
	for seed := range uint64(casetest.Of(60, 4, 2)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newReplicatedLife(t, seed)
				for range 30 {
					l.step()
				}
				l.lose()
				numbers := slices.Sorted(maps.Keys(l.moments))
				for range 3 {
					n := numbers[l.rng.IntN(len(numbers))]
					got, want := keys(t, l.restore(n), "restored"), l.moments[n].keys
					if !maps.Equal(got, want) {
						for key := range want {
							if got[key] != want[key] {
								t.Errorf("after batch %d, key %q: restored %q, want %q", n, key, got[key], want[key])
							}
						}
						t.Fatalf("after batch %d: restored %d keys, want %d", n, len(got), len(want))
					}
				}

				l.disk = l.restore(l.log.len())
				l.down.target.Store(false)
				l.open("restored")
				for _, s := range l.b.Stats().Sinks {
					flush(t, l.b, s.ID)
					table := ids(l.mem, "in.c-test."+s.ID)
					slices.Sort(table)
					if len(slices.Compact(slices.Clone(table))) != len(table) {
						t.Errorf("sink %s: rows are twice in the table", s.ID)
					}
					if s.ID == "c" { // some of its files were discarded
						continue
					}
					for _, id := range l.acked[s.ID] {
						if _, ok := slices.BinarySearch(table, id); !ok {
							t.Errorf("sink %s: row %s was acknowledged and is lost", s.ID, id)
						}
					}
				}
				verify(t, l.b)
				// The new owner's changes are in the log too, so it can be lost as well.
				synctest.Wait()
				closeBuffer(t, l.b)
				got, want := keys(t, l.restore(l.log.len()), "restored"), keys(t, l.disk, "restored")
				if !maps.Equal(got, want) {
					t.Errorf("the second owner: restored %d keys, want %d", len(got), len(want))
				}
			})
		})
	}
}

// Restore refuses an incomplete history, and leaves no folder then.
func TestRestoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		b := openAt(t, "data", opts)
		put(t, b, define(t, b, "a"), 0, 5)
		must(t, b.Checkpoint(t.Context(), "copy"))
		for id := range 3 { // a batch each
			put1(t, b, define(t, b, "a"), 5+id, "v")
		}
		closeBuffer(t, b)
		disk := localdisk.Of(opts)
		end, base := log.len(), positionOf(t, disk, "copy")
		changed := func(n int, change func(*buffer.LogBatch)) iter.Seq2[buffer.LogBatch, error] {
			return func(yield func(buffer.LogBatch, error) bool) {
				for b, err := range log.batches(0, end) {
					if b.Number == uint64(n) {
						b.Data = slices.Clone(b.Data)
						change(&b)
					}
					if !yield(b, err) {
						return
					}
				}
			}
		}
		failed := func(yield func(buffer.LogBatch, error) bool) { yield(buffer.LogBatch{}, errLogDown) }
		for name, c := range map[string]struct {
			checkpoint string
			batches    iter.Seq2[buffer.LogBatch, error]
			want       string
		}{
			"gap at the start":      {"", log.batches(1, end), "batch 2 of the changelog follows batch 0"},
			"gap behind the copy":   {"copy", log.batches(base+1, end), fmt.Sprintf("batch %d of the changelog follows batch %d", base+2, base)},
			"batch left out":        {"", changed(3, func(b *buffer.LogBatch) { b.Number = 4 }), "batch 4 of the changelog follows batch 2"},
			"another batch":         {"", changed(3, func(b *buffer.LogBatch) { b.Data = slices.Clone(b.Data[:12]) }), "batch 3 of the changelog"},
			"torn batch":            {"", changed(3, func(b *buffer.LogBatch) { b.Data = b.Data[:len(b.Data)-3] }), "batch 3 of the changelog: operation"},
			"operation of no store": {"", changed(3, func(b *buffer.LogBatch) { b.Data[12] = 2 }), "batch 3 of the changelog: operation"},
			"no bytes":              {"", changed(3, func(b *buffer.LogBatch) { b.Data = nil }), "0 bytes are no batch"},
			"log that fails":        {"copy", failed, errLogDown.Error()},
			"nothing":               {"", log.batches(0, 0), "format"},
			"no checkpoint there":   {"none", log.batches(0, end), "holds no local level"},
		} {
			err := buffer.Restore("restored", c.checkpoint, c.batches, opts.Tuning)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want one with %q", name, err, c.want)
			}
			for _, dir := range []string{"restored", "restored.partial"} {
				if _, err := disk.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: folder %s: got %v, want %v", name, dir, err, fs.ErrNotExist)
				}
			}
		}
		if err := buffer.Restore("copy", "", log.batches(0, end), opts.Tuning); !errors.Is(err, fs.ErrExist) {
			t.Errorf("into a folder that exists: %v", err)
		}
	})
}
