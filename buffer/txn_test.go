package buffer

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/disktest"
)

// Slices of few chunks leave no deleted ranges in the store, for each reading would order them again, and however a slice
// is deleted, all of it goes and nothing of its neighbours.
func TestWipeChunks(t *testing.T) {
	const num = 7
	sealed := func(chunks uint32) *slice { return &slice{num: num, rec: format.Slice{Chunks: chunks}} }
	with := func(sl *slice, change func(*format.Slice)) *slice {
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
		{"found in a damaged store", with(sealed(2), func(r *format.Slice) { r.Salvaged = true }), 3, true},
		{"closed by a salvage", with(sealed(2), func(r *format.Slice) { r.Reason = format.ReasonSalvaged }), 3, true},
		{"its end is damaged", with(sealed(2), func(r *format.Slice) { r.Uncounted = true }), 3, true},
		{"damage set aside", with(sealed(2), func(r *format.Slice) { r.Revision = 1 }), 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, err := pebble.Open("", &pebble.Options{FS: disktest.New(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			fill := db.NewBatch()
			for _, slice := range []uint64{num - 1, num, num + 1} {
				for seq := range c.stored {
					var key [format.ChunkKeySize]byte
					format.PutChunkKey(key[:], slice, seq)
					_ = fill.Set(key[:], []byte("rows"), nil)
				}
			}
			wipe := db.NewBatch()
			wipeChunks(wipe, num, c.slice)
			ranges := 0
			for r := wipe.Reader(); ; {
				kind, _, _, ok, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if kind == pebble.InternalKeyKindRangeDelete {
					ranges++
				}
			}
			if c.ranged != (ranges == 1) || ranges > 1 {
				t.Errorf("got %d ranges deleted, want one: %v", ranges, c.ranged)
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
				slice, _ := format.ParseChunkKey(it.Key())
				left[slice]++
			}
			want := map[uint64]uint32{num - 1: c.stored, num + 1: c.stored}
			if fmt.Sprint(left) != fmt.Sprint(want) {
				t.Errorf("chunks left by slice: %v, want %v", left, want)
			}
		})
	}
}
