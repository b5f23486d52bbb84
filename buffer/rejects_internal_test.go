package buffer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/seedtest"
)

// A list of rejected records has, after any removals and additions, the same records as a plain slice, and its first is the
// oldest.
func TestHeldList(t *testing.T) {
	r := seedtest.Rand(t)
	var l heldList
	var want []uint64
	next := uint64(0)
	for step := range 20_000 {
		if r.IntN(2) == 0 || len(want) == 0 {
			next += uint64(1 + r.IntN(3))
			l.add(held{seq: next, instance: "a", size: 1})
			want = append(want, next)
		} else {
			at := r.IntN(len(want)) * r.IntN(2) // half of them from the front
			h := l.find(format.RejectID("a", want[at]))
			if h == nil || h.seq != want[at] {
				t.Fatalf("step %d: record %d is not found", step, want[at])
			}
			l.remove(h)
			if l.find(format.RejectID("a", want[at])) != nil || l.find(format.RejectID("b", want[max(at-1, 0)])) != nil {
				t.Fatalf("step %d: a record that is gone, or of another instance, is found", step)
			}
			want = slices.Delete(want, at, at+1)
		}
		if l.len() != len(want) || len(want) > 0 && l.oldest().seq != want[0] {
			t.Fatalf("step %d: %d records from %+v, want %d", step, l.len(), l.list[:min(1, len(l.list))], len(want))
		}
		if step%500 == 0 {
			var got []uint64
			for _, h := range l.clone() {
				got = append(got, h.seq)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("step %d: the list differs", step)
			}
		}
	}
}

// Removing all records of a large quarantine one by one from the middle moves a few records for each.
func TestRemovalFromTheMiddleIsCheap(t *testing.T) {
	const records = 1 << 13
	var l heldList
	for n := range records {
		l.add(held{seq: uint64(n), instance: "a", size: 1})
	}
	moved := 0
	for n := range records {
		seq := uint64(records/2+n) % records // the middle is first
		last := &l.list[len(l.list)-1]
		l.remove(l.find(format.RejectID("a", seq)))
		if n := len(l.list); n > 0 && &l.list[n-1] != last { // they were copied
			moved += n
		}
	}
	if l.len() != 0 {
		t.Errorf("%d records are left, want 0", l.len())
	}
	if per := fmt.Sprintf("%.1f", float64(moved)/records); moved > 6*records {
		t.Errorf("each removal has moved %s records", per)
	}
}
