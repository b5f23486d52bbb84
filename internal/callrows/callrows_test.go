package callrows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/seedtest"
)

// Rows and records are handed over in their order, each once, whatever is marked when, and sizes and memory add up.
func TestRows(t *testing.T) {
	random := seedtest.Rand(t)
	const sinks = 3
	var (
		r               Rows
		kept, out, want [sinks][]string // in r, handed over, and both
		before          [sinks]int      // how many of kept are before the mark
	)
	r.Fit(sinks)
	check := func(op string) {
		total, memory := 0, 0
		for k := range sinks {
			records, bytes := 0, 0
			for _, s := range kept[k] {
				total += len(s)
				if strings.HasPrefix(s, "!") {
					records++
					bytes += len(s)
				}
			}
			if n, b := r.Rejects(k); n != records || b != bytes {
				t.Fatalf("after %s: sink %d has %d records of %d bytes, want %d of %d", op, k, n, b, records, bytes)
			}
			memory += cap(r.data[k])
		}
		for _, s := range r.spare {
			memory += cap(s)
		}
		if r.Size() != total || r.Memory() != memory {
			t.Fatalf("after %s: %d bytes in %d bytes of memory, want %d in %d", op, r.Size(), r.Memory(), total, memory)
		}
	}
	for i := range 5000 {
		k := random.IntN(sinks)
		text := fmt.Sprintf("%d:%s\n", i, strings.Repeat("x", random.IntN(2)*random.IntN(2*Large)))
		switch random.IntN(6) {
		case 0, 1:
			if n := r.Mapped(k, append(r.Next(k, len(text)), text...)); n != len(text) {
				t.Fatalf("Mapped returned %d, want %d", n, len(text))
			}
			if random.IntN(4) > 0 { // else the row is rejected
				r.Keep(k, len(text))
				kept[k], want[k] = append(kept[k], text), append(want[k], text)
			}
			check("a row")
		case 2:
			text = "!" + text
			r.Reject(k, buffer.Reject{Info: []byte(text[:1]), Data: []byte(text[1:])})
			kept[k], want[k] = append(kept[k], text), append(want[k], text)
			check("a record")
		case 3:
			r.Mark(k + 1)
			for j := range k + 1 {
				before[j] = len(kept[j])
			}
			check("Mark")
		case 4:
			for k := range sinks {
				var got strings.Builder
				rows, ok := r.Marked(k)
				got.Write(rows.Data)
				for _, reject := range rows.Rejects {
					got.Write(reject.Info)
					got.Write(reject.Data)
				}
				if text := inOrder(kept[k][:before[k]]); got.String() != text || ok != (before[k] > 0) || rows.Count+len(rows.Rejects) != before[k] {
					t.Fatalf("sink %d has %d bytes and %d rows marked: %t, want %d entries of %d bytes", k, got.Len(), rows.Count, ok, before[k], len(text))
				}
				r.Drop(k)
				out[k] = append(out[k], kept[k][:before[k]]...)
				kept[k], before[k] = kept[k][before[k]:], 0
			}
			check("Drop")
		case 5:
			if random.IntN(10) == 0 {
				r.DropSpare()
				if len(r.spare) > 0 {
					t.Fatal("large memory is left after DropSpare")
				}
				check("DropSpare")
			}
		}
	}
	for k := range sinks {
		if got := inOrder(append(out[k], kept[k]...)); got != inOrder(want[k]) {
			t.Errorf("sink %d: what was handed over and what is left differs from what came", k)
		}
	}
	r.Reset()
	kept = [sinks][]string{}
	check("Reset")
	for k := range sinks {
		if _, ok := r.Marked(k); ok {
			t.Errorf("sink %d has marked rows after Reset", k)
		}
	}
}

// inOrder returns the rows, and then the records.
func inOrder(list []string) string {
	var rows, records strings.Builder
	for _, s := range list {
		if strings.HasPrefix(s, "!") {
			records.WriteString(s)
		} else {
			rows.WriteString(s)
		}
	}
	return rows.String() + records.String()
}

// Large memory serves the next sink, so that a call for many sinks does not need it for each.
func TestLargeMemoryServesTheNextSink(t *testing.T) {
	var r Rows
	r.Fit(100)
	row := make([]byte, 2*Large)
	for k := range 100 {
		r.Keep(k, r.Mapped(k, append(r.Next(k, len(row)), row...)))
		r.Mark(k + 1)
		r.Drop(k)
	}
	if r.Memory() > 2*cap(append([]byte(nil), row...)) {
		t.Errorf("a large row for each of 100 sinks took %d bytes of memory, want the memory of one", r.Memory())
	}
}
