package buffer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

// stage is how far a rejected record has come. A record goes through some of them in their order.
type stage int

const (
	unknown stage = iota
	rejected
	edited
	replayed
	discarded
)

// fate is the caller's knowledge of a record.
type fate struct{ begun, acked stage }

// Whatever the moment of a power cut, a record is in the quarantine, or its row is in the table, or it was discarded. No two of these
// are true, and acknowledged changes stay.
func TestQuarantineSurvivesAPowerCut(t *testing.T) {
	seed := seedtest.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 15 {
		disk := disktest.New(t)
		opts := localdisk.On(memoryOptions(t, buffertest.NewMemory()), disk)
		b := openAt(t, "data", opts)
		s := define(t, b, "a", quarantined())
		const clients, each = 4, 8
		var (
			mu    sync.Mutex
			fates [clients * each]fate
			steps int
			at    = 1 + rng.IntN(2*clients*each)
			cfg   = vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rand.New(rand.NewPCG(seed, 1))}
			cut   *disktest.Disk
			known [clients * each]fate // at the cut
		)
		note := func(n int, change func(*fate)) {
			mu.Lock()
			defer mu.Unlock()
			change(&fates[n])
			if steps++; steps == at {
				known, cut = fates, disk.Cut(cfg)
			}
		}
		var wg sync.WaitGroup
		for c := range clients {
			rng := rand.New(rand.NewPCG(seed, uint64(2+c)))
			wg.Go(func() {
				for i := range each {
					n := c*each + i
					step := func(to stage, do func() error) {
						note(n, func(f *fate) { f.begun = to })
						if err := do(); err != nil {
							t.Error(err)
						}
						note(n, func(f *fate) { f.acked = to })
					}
					// A row of the same call is stored with the record or not at all.
					step(rejected, func() error {
						ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{
							Sink: s, Data: row(1000+n, "v"), Count: 1, Rejects: []buffer.Reject{{Info: fmt.Append(nil, n), Data: []byte("bad")}},
						})
						if err == nil {
							err = ticket.Wait(t.Context())
						}
						return err
					})
					r := find(t, b, n)
					if rng.IntN(2) == 0 {
						step(edited, func() error { return b.Sink("a").UpdateRejected(t.Context(), r.ID, 0, r.Info, []byte("good")) })
						r.Revision++
					}
					switch rng.IntN(3) {
					case 0:
						step(replayed, func() error {
							outcomes, err := s.ReplayRejected(t.Context(), time.Now(), buffer.ReplayRow{ID: r.ID, Revision: r.Revision, Row: row(n, "v")})
							return errors.Join(append(outcomes, err)...)
						})
					case 1:
						step(discarded, func() error {
							_, err := b.Sink("a").DiscardRejected(t.Context(), r.ID)
							return err
						})
					}
				}
			})
		}
		wg.Wait()
		closeBuffer(t, b)
		if cut == nil {
			continue // fewer steps than that were made
		}

		mem := buffertest.NewMemory()
		opts = localdisk.On(memoryOptions(t, mem), cut)
		b = openAt(t, "data", opts)
		s = define(t, b, "a", quarantined())
		flush(t, b, "a")
		verify(t, b)
		table := ids(mem, "in.c-test.a")
		for n, f := range known {
			var is []stage
			switch r := find(t, b, n); {
			case r.Edited:
				is = append(is, edited)
			case r.ID != "":
				is = append(is, rejected)
			}
			if slices.Contains(table, fmt.Sprint(n)) {
				is = append(is, replayed)
			}
			if len(is) == 0 {
				is = append(is, unknown) // or discarded
				if f.begun == discarded {
					is[0] = discarded
				}
			}
			if len(is) != 1 || is[0] < f.acked || is[0] > f.begun {
				t.Errorf("record %d is at %v, its caller knows %v", n, is, f)
			}
			if beside := slices.Contains(table, fmt.Sprint(1000+n)); beside != (is[0] != unknown) {
				t.Errorf("record %d is at %v, the row of its call in the table: %v", n, is, beside)
			}
		}
		for i, r := range list(t, b, "a") {
			if got := replay(t, b, s, 2000+i, r); got[0] != nil {
				t.Error(got)
			}
		}
		flush(t, b, "a")
		table = ids(mem, "in.c-test.a")
		slices.Sort(table)
		if n := len(table); len(slices.Compact(table)) != n {
			t.Error("a row is in the table twice")
		}
		wantRecords(t, b, "a", "")
		verify(t, b)
		closeBuffer(t, b)
	}
}

// find returns the record whose Info is n.
func find(t *testing.T, b *buffer.Buffer, n int) buffer.Rejected {
	for r, err := range b.Sink("a").Rejected(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
		if string(r.Info) == fmt.Sprint(n) {
			return r
		}
	}
	return buffer.Rejected{}
}

// A disk that fails during a replay leaves the record or the row, and the buffer knows which after it was reopened.
func TestReplayMeetsAFailingDisk(t *testing.T) {
	for _, on := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem, toggle := buffertest.NewMemory(), &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".log") {
					return syscall.EIO
				}
				return nil
			})}
			opts := localdisk.On(memoryOptions(t, mem), disktest.Wrap(disktest.New(t), toggle))
			b := openAt(t, "data", opts)
			s := define(t, b, "a", quarantined())
			reject(t, b, s, "one", "two")
			all := list(t, b, "a")
			if on {
				toggle.On()
			}
			outcomes, err := s.ReplayRejected(t.Context(), time.Now(), buffer.ReplayRow{ID: all[0].ID, Row: row(0, "v")})
			if _, failed := errors.AsType[*buffer.FailedError](err); failed != on || !on && outcomes[0] != nil {
				t.Errorf("a disk that fails %v: %v, %v", on, outcomes, err)
			}
			toggle.Off()
			for b.Ready() != nil {
				time.Sleep(time.Second)
			}
			left := len(list(t, b, "a"))
			flush(t, b, "a")
			if rows := len(mem.Rows("in.c-test.a")); rows+left != 2 || !on && rows != 1 {
				t.Errorf("%d rows and %d records are left of 2", rows, left)
			}
			verify(t, b)
			for i, r := range list(t, b, "a") {
				if got := replay(t, b, s, 10+i, r); got[0] != nil {
					t.Error(got)
				}
			}
			flush(t, b, "a")
			if rows := len(mem.Rows("in.c-test.a")); rows != 2 {
				t.Errorf("got %d rows after all replays, want 2", rows)
			}
			verify(t, b)
			closeBuffer(t, b)
		})
	}
}

// The changelog has the quarantine too. Acknowledged records are there on another machine.
func TestChangelogHasTheQuarantine(t *testing.T) {
	mem, log := buffertest.NewMemory(), newFakeLog(t)
	opts := replicated(t, mem, log)
	b := openAt(t, "data", opts)
	s := define(t, b, "a", quarantined())
	reject(t, b, s, "one", "two", "three", "four")
	all := list(t, b, "a")
	must(t, b.Sink("a").UpdateRejected(t.Context(), all[1].ID, 0, nil, []byte("2")))
	if got := replay(t, b, s, 0, all[2]); got[0] != nil {
		t.Fatal(got)
	}
	if _, err := b.Sink("a").DiscardRejected(t.Context(), all[0].ID); err != nil {
		t.Fatal(err)
	}
	n := log.len()

	disk := disktest.New(t)
	must(t, buffer.Restore("data", "", log.batches(0, n), localdisk.On(buffer.Tuning{}, disk)))
	wantFormat(t, disk, "3/3")
	mem2 := buffertest.NewMemory()
	opts2 := localdisk.On(memoryOptions(t, mem2), disk)
	c := openAt(t, "data", opts2)
	wantRecords(t, c, "a", "2 from two, four")
	s2 := define(t, c, "a", quarantined())
	reject(t, c, s2, "five")
	adopted := list(t, c, "a")
	if adopted[0].ID != all[1].ID || adopted[1].ID != all[3].ID || strings.HasPrefix(adopted[2].ID, all[0].ID[:12]) {
		t.Errorf("the records are %+v, were %+v", adopted, all)
	}
	// The same number in another store is not the same record.
	reject(t, b, s, "six")
	if six := list(t, b, "a")[2]; !errors.Is(replay(t, c, s2, 0, six)[0], buffer.ErrUnknownRejected) {
		t.Errorf("a record of another store was replayed: %s beside %s", six.ID, adopted[2].ID)
	}
	flush(t, c, "a")
	wantIDs(t, mem2, "in.c-test.a", 0, 1)
	verify(t, c)
	closeBuffer(t, c)
	closeBuffer(t, b)
}

// Only a definition with a quarantine upgrades to version 3, and an upgrade that was cut short is completed.
func TestUpgradeForAQuarantine(t *testing.T) {
	mem, disk := buffertest.NewMemory(), disktest.New(t)
	oldFolder(t, disk, mem)
	b, err := buffer.Open("data", upgradeOptions(t, disk, mem, true))
	must(t, err)
	reject(t, b, define(t, b, "a", quarantined()), "one")
	must(t, b.Checkpoint(t.Context(), "copy"))
	closeBuffer(t, b)
	wantFormat(t, disk, "3/3")
	if got, err := pebblestore.ReadNote(disk, "copy/forebay-format", 64); got != "3\n" || err != nil {
		t.Errorf("the checkpoint has the format %q, %v", got, err)
	}

	for _, keep := range []bool{false, true} {
		disk := disktest.New(t)
		oldFolder(t, disk, mem)
		if err := pebblestore.WriteNote(disk, "data", "forebay-format", "3\n"); err != nil { // the batch of the definition was lost
			t.Fatal(err)
		}
		b, err := buffer.Open("data", upgradeOptions(t, disk, mem, keep))
		must(t, err)
		closeBuffer(t, b)
		wantFormat(t, disk, "3/3")
	}
}

// A store whose list of tables is lost is salvaged with its quarantine, in the last revision of each record.
func TestSalvageKeepsTheQuarantine(t *testing.T) {
	mem, disk := buffertest.NewMemory(), disktest.New(t)
	opts := localdisk.On(memoryOptions(t, mem), disk)
	b := openAt(t, "data", opts)
	s := define(t, b, "a", quarantined())
	reject(t, b, s, "one", "two", "three", "four", "five")
	all := list(t, b, "a")
	for i, text := range []string{"2", "II", "zwei"} {
		must(t, b.Sink("a").UpdateRejected(t.Context(), all[1].ID, i, fmt.Append(nil, i), []byte(text)))
	}
	if got := replay(t, b, s, 0, all[2]); got[0] != nil {
		t.Fatal(got)
	}
	if _, err := b.Sink("a").DiscardRejected(t.Context(), all[0].ID); err != nil {
		t.Fatal(err)
	}
	closeBuffer(t, b)
	names, err := disk.List("data")
	must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") {
			must(t, disk.Remove("data/"+name))
		}
	}
	b = openAt(t, "data", opts)
	wantRecords(t, b, "a", "zwei from two, four, five")
	for _, r := range list(t, b, "a") {
		if r.ID == all[1].ID && string(r.Info) != "2" {
			t.Errorf("the head of the edited record is %+v", r)
		}
	}
	s = define(t, b, "a", quarantined())
	reject(t, b, s, "six")
	if r := list(t, b, "a"); r[3].ID[12:] <= all[4].ID[12:] {
		t.Errorf("a number was given again: %s after %s", r[3].ID, all[4].ID)
	}
	flush(t, b, "a")
	wantIDs(t, mem, "in.c-test.a", 0, 1)
	verify(t, b)
	if st := quarantineOf(t, b, "a"); st.Lost != 0 || st.Records != 4 || st.Replayed != 1 || st.Discarded != 1 {
		t.Errorf("the counters are %+v", st)
	}
	closeBuffer(t, b)
	wantFormat(t, disk, "3/3")
}

// Verify sees a record that is no longer in the store, and one that is shorter.
func TestVerifyReadsTheQuarantine(t *testing.T) {
	for name, damage := range map[string]func(db *pebble.DB, key []byte) error{
		"gone":    func(db *pebble.DB, key []byte) error { return db.Delete(key, pebble.Sync) },
		"shorter": func(db *pebble.DB, key []byte) error { return db.Set(key, []byte("o"), pebble.Sync) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := disktest.New(t)
			opts := localdisk.On(memoryOptions(t, buffertest.NewMemory()), disk)
			b := openAt(t, "data", opts)
			reject(t, b, define(t, b, "a", quarantined()), "one", "two")
			closeBuffer(t, b)
			db, err := pebble.Open("data", &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
			must(t, err)
			it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("y"), UpperBound: []byte("z")})
			if err != nil || !it.First() {
				t.Fatal("no record is stored", err)
			}
			key := slices.Clone(it.Key())
			must(t, errors.Join(it.Close(), damage(db, key), db.Close()))
			b = openAt(t, "data", opts)
			report, err := b.Verify(t.Context())
			if err != nil || report.OK() || report.Sinks[0].Quarantined != 1 || !strings.Contains(report.Sinks[0].Differences[0], "rejected record") {
				t.Errorf("verify: %+v, %v", report, err)
			}
			first, second := list(t, b, "a")[0], list(t, b, "a")[1]
			_, _, _, err = b.Sink("a").RejectedRecord(t.Context(), first.ID)
			if err == nil || errors.Is(err, buffer.ErrRejectedChanged) || errors.Is(err, buffer.ErrUnknownRejected) || !strings.Contains(err.Error(), first.ID) {
				t.Errorf("a record that is damaged: %v", err)
			}
			if _, record, _, err := b.Sink("a").RejectedRecord(t.Context(), second.ID); err != nil || string(record) != "two" {
				t.Errorf("the record beside it: %q, %v", record, err)
			}
			if n, err := b.Sink("a").DiscardRejected(t.Context(), first.ID); n != 1 || err != nil {
				t.Errorf("discard: %d, %v", n, err)
			}
			verify(t, b)
			closeBuffer(t, b)
		})
	}
}
