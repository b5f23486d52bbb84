package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// Any life of a machine, whose log has lost all batches after any one of them, after the machine has uploaded and imported because of the
// lost ones. Rows that were acknowledged up to that batch arrive in their table, none arrives twice, and the ledger holds.
func TestRestoredLifeWithoutItsEnd(t *testing.T) {
	for seed := range uint64(casetest.Of(60, 6, 2)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newReplicatedLife(t, seed)
				known := map[int]map[string]int{} // how many rows of each sink were acknowledged with so many batches
				for range 30 {
					l.step()
					acked := map[string]int{}
					for id, rows := range l.acked {
						acked[id] = len(rows)
					}
					if n := l.log.len(); l.moments[n].keys != nil {
						known[n] = acked
					}
				}
				l.lose()
				numbers := slices.Sorted(maps.Keys(known))
				n := numbers[l.rng.IntN(len(numbers))]
				l.disk = disktest.New(t)
				must(t, buffer.RestoreIncomplete("restored", "", l.log.batches(0, n), localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.FS(l.disk))))
				l.log.set(func() { l.log.stored, l.log.pending = l.log.stored[:n], nil })
				l.down.target.Store(false)
				l.open("restored")
				for _, s := range l.b.Stats().Sinks {
					if s.ID == "c" { // some of its files were discarded, and wait for that again
						continue
					}
					flush(t, l.b, s.ID)
					table := ids(l.mem, "in.c-test."+s.ID)
					slices.Sort(table)
					if len(slices.Compact(slices.Clone(table))) != len(table) {
						t.Errorf("sink %s: rows are twice in the table", s.ID)
					}
					for _, id := range l.acked[s.ID][:known[n][s.ID]] {
						if _, ok := slices.BinarySearch(table, id); !ok {
							t.Errorf("sink %s: row %s was acknowledged up to batch %d and is lost", s.ID, id, n)
						}
					}
				}
				report, err := l.b.Verify(t.Context())
				must(t, err)
				for _, s := range report.Sinks {
					if s.ID != "c" && len(s.Differences) != 0 { // the rows discarded from c are no longer in staging
						t.Errorf("the ledger does not hold: %+v", s)
					}
				}
				synctest.Wait()
				closeBuffer(t, l.b)
			})
		})
	}
}

// stepwise is a target that stores a file slice by slice, as one that sends blocks. fails makes Import end after the first slice.
type stepwise struct {
	*buffertest.Memory
	mu    sync.Mutex
	rows  map[string]int64 // by slice
	fails bool

	imports int64
}

func (s *stepwise) Import(_ context.Context, f *driver.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.imports++
	for _, obj := range f.Slices {
		if s.rows[obj.ID] == 0 {
			rc, err := f.OpenSlice(context.Background(), obj)
			if err != nil {
				return err
			}
			rc.Close()
		}
		if s.rows[obj.ID] = obj.Rows; s.fails {
			return errors.New("the machine is gone")
		}
	}
	return nil
}

// CountFile is for tests with one file.
func (s *stepwise) CountFile(context.Context, driver.Table, string) (n int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rows := range s.rows {
		n += rows
	}
	return n, nil
}

// cutShort stores a file of three slices with two rows each, lets the target take the first of them, and closes the buffer. It returns how many records the
// log has.
func cutShort(t *testing.T, b *buffer.Buffer, log *fakeLog) int {
	t.Helper()
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 2 })
	for i := range 3 {
		put(t, b, s, 2*i, 2*i+2)
	}
	must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
	synctest.Wait()
	n := log.len()
	closeBuffer(t, b)
	return n
}

// A file of which the target has some rows is not taken for imported. The rest of its rows are imported from staging.
func TestRestoredFileThatIsHalfImported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := buffertest.NewMemory(), newFakeLog(t)
		opts := replicated(t, mem, log)
		target := &stepwise{Memory: mem, rows: map[string]int64{}, fails: true}
		opts.Target = target
		b := openAt(t, "data", opts)
		n := cutShort(t, b, log)
		if n, _ := target.CountFile(t.Context(), driver.Table{}, ""); n != 2 {
			t.Fatalf("the target has %d rows, want the rows of the first slice", n)
		}
		target.fails = false
		must(t, buffer.RestoreIncomplete("restored", "", log.batches(0, n), opts.Tuning))
		log.set(func() { log.stored, log.pending = log.stored[:n], nil })
		opts.Changelog = log.open()
		b = openAt(t, "restored", opts)
		flush(t, b, "a")
		var stored int64
		for _, rows := range target.rows {
			stored += rows
		}
		if st, _ := b.Sink("a").Stats(); stored != 6 || st.Target.Rows != 6 {
			t.Errorf("the target has %d rows and the ledger %d, want 6", stored, st.Target.Rows)
		}
		closeBuffer(t, b)
	})
}

// A file that the target already has when its records are restored is not imported again. If its staged objects are gone, the rows in the
// table are all that it had.
func TestRestoredFileThatIsInItsTable(t *testing.T) {
	for name, c := range map[string]struct {
		half    bool // the target has the first slice alone, and the staged objects are gone
		rows    int64
		imports int64 // calls of Import after the restore
	}{
		"with all rows":            {rows: 6},
		"without objects for more": {half: true, rows: 2, imports: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, log := buffertest.NewMemory(), newFakeLog(t)
				opts := replicated(t, mem, log)
				target := &stepwise{Memory: mem, rows: map[string]int64{}, fails: true}
				opts.Target = target
				b := openAt(t, "data", opts)
				n := cutShort(t, b, log)
				objects := mem.Objects()
				if c.half {
					if err := mem.Delete(t.Context(), objects...); err != nil {
						t.Fatal(err)
					}
				} else {
					for _, obj := range objects {
						target.rows[obj.ID] = obj.Rows
					}
				}
				target.fails = false
				before := target.imports
				if err := buffer.RestoreIncomplete("restored", "", log.batches(0, n), opts.Tuning); err != nil {
					t.Fatal(err)
				}
				log.set(func() { log.stored, log.pending = log.stored[:n], nil })
				opts.Changelog = log.open()
				b = openAt(t, "restored", opts)
				flush(t, b, "a")
				if st, _ := b.Sink("a").Stats(); st.Target.Rows != c.rows || target.imports-before != c.imports {
					t.Errorf("the ledger has %d rows in the table after %d imports, want %d rows and %d imports",
						st.Target.Rows, target.imports-before, c.rows, c.imports)
				}
				closeBuffer(t, b)
			})
		})
	}
}
