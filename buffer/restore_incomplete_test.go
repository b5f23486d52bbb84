package buffer_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// Any life of a machine, whose log has lost all batches behind any one of them, after the machine has uploaded and imported because of those.
// Rows that were acknowledged up to that batch come to their table, none comes twice, and the ledger holds.
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
				if err := buffer.RestoreIncomplete("restored", "", l.log.batches(0, n), localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.FS(l.disk))); err != nil {
					t.Fatal(err)
				}
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
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range report.Sinks {
					if s.ID != "c" && len(s.Differences) != 0 { // what was discarded from c is not in staging any more
						t.Errorf("the ledger does not hold: %+v", s)
					}
				}
				synctest.Wait()
				closeBuffer(t, l.b)
			})
		})
	}
}
