package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// An operation holds what it found in the state when it was asked for. When the store fails before its commit and is
// opened again, it must not act on the state that was read since: the end of an import would be counted twice. Rows that
// wait beside it are stored all the same.
func TestOperationsEndWithTheStateTheyWereMadeFor(t *testing.T) {
	b, err := Open("data", Options{Staging: nothing{}, Target: nothing{}, FS: vfs.NewMem(), SyncInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := b.Define(t.Context(), SinkConfig{ID: "a", Table: Table{ID: "in.c-test.a", Columns: []string{"id"}}})
	if err != nil {
		t.Fatal(err)
	}
	// The committer waits for callers that do not come.
	b.gate.mu.Lock()
	b.gate.expect = 1 << 30
	b.gate.cur.probed = true
	group := b.gate.cur
	b.gate.mu.Unlock()
	ticket, err := b.Append(t.Context(), time.Now(), Rows{Sink: s, Data: []byte("\"1\"\n"), Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	ended := make(chan error, 1)
	go func() { ended <- b.do(t.Context(), func(*txn) { ran = true }) }()
	for group.waiters.Load() == 0 {
		runtime.Gosched()
	}

	_ = b.fail(errors.New("the cable was pulled"))
	for b.failed.Load() != nil {
		runtime.Gosched()
	}
	group.settled.Store(true)
	b.gate.kick()
	var failed *FailedError
	if err := <-ended; !errors.As(err, &failed) || ran {
		t.Errorf("the operation ran: %v; its error is %v", ran, err)
	}
	if err := ticket.Wait(t.Context()); err != nil {
		t.Errorf("the row beside it: %v", err)
	}
	if st := b.Stats().Sinks[0]; st.Local.Rows != 1 {
		t.Errorf("%d rows are stored", st.Local.Rows)
	}
}

// nothing is a staging and a target that are never reached.
type nothing struct{}

func (nothing) Put(context.Context, Object, Source) error { return errors.ErrUnsupported }

func (nothing) Open(context.Context, Object) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}

func (nothing) Delete(context.Context, ...Object) error { return nil }
func (nothing) Ensure(context.Context, Table) error     { return nil }
func (nothing) Import(context.Context, *File) error     { return errors.ErrUnsupported }

// Slices of few chunks leave no deleted ranges in the store, for each reading would order them again; and however a slice
// is deleted, all of it goes and nothing of its neighbours.
func TestWipeChunks(t *testing.T) {
	const num = 7
	sealed := func(chunks uint32) *slice { return &slice{num: num, rec: sliceRecord{Chunks: chunks}} }
	with := func(sl *slice, change func(*sliceRecord)) *slice {
		change(&sl.rec)
		return sl
	}
	for _, c := range []struct {
		name   string
		slice  *slice
		stored uint32 // chunks
		ranged bool
	}{
		{"one chunk", sealed(1), 1, false},
		{"the most by keys", sealed(wipeOneByOne), wipeOneByOne, false},
		{"more", sealed(wipeOneByOne + 1), wipeOneByOne + 1, true},
		{"forgotten", nil, 3, true},
		{"sealed by a version that did not count", sealed(0), 3, true},
		{"found in a damaged store", with(sealed(2), func(r *sliceRecord) { r.Salvaged = true }), 3, true},
		{"closed by a salvage", with(sealed(2), func(r *sliceRecord) { r.Reason = reasonSalvaged }), 3, true},
		{"its end is damaged", with(sealed(2), func(r *sliceRecord) { r.Uncounted = true }), 3, true},
		{"damage set aside", with(sealed(2), func(r *sliceRecord) { r.Revision = 1 }), 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem()})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			fill := db.NewBatch()
			for _, slice := range []uint64{num - 1, num, num + 1} {
				for seq := range c.stored {
					var key [chunkKeySize]byte
					putChunkKey(key[:], slice, seq)
					_ = fill.Set(key[:], []byte("rows"), nil)
				}
			}
			wipe := db.NewBatch()
			wipeChunks(wipe, num, c.slice)
			ranges := 0
			if err := eachBatchEntry(wipe.Repr(), func(e entry) error {
				if e.kind == pebble.InternalKeyKindRangeDelete {
					ranges++
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if c.ranged != (ranges == 1) || ranges > 1 {
				t.Errorf("%d ranges deleted, want one: %v", ranges, c.ranged)
			}
			for _, batch := range []*pebble.Batch{fill, wipe} {
				if err := db.Apply(batch, pebble.NoSync); err != nil {
					t.Fatal(err)
				}
			}
			left := map[uint64]uint32{}
			it, err := db.NewIter(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			for ok := it.First(); ok; ok = it.Next() {
				slice, _ := chunkOf(it.Key())
				left[slice]++
			}
			want := map[uint64]uint32{num - 1: c.stored, num + 1: c.stored}
			if fmt.Sprint(left) != fmt.Sprint(want) {
				t.Errorf("chunks left by slice: %v, want %v", left, want)
			}
		})
	}
}
