package buffer

import "testing"

// The chunks of a sink stay in their order, whatever comes between them.
func TestChunksAreSortedBySlice(t *testing.T) {
	sinks := make([]*sinkState, 5)
	for i := range sinks {
		sinks[i] = &sinkState{num: uint32(i)}
		if i != 2 { // no slice is open
			sinks[i].slice = &slice{num: uint64(10 - i)}
		}
	}
	var chunks []*chunk
	for i := range int64(1000) {
		chunks = append(chunks, &chunk{sink: sinks[(i*i+i/7)%5], rows: i})
	}
	var o chunkOrder
	for range 2 {
		o.sort(chunks)
		for i, c := range chunks[1:] {
			before := chunks[i]
			switch {
			case before.sink == c.sink:
				if before.rows >= c.rows {
					t.Fatalf("chunk %d of sink %d comes before %d", before.rows, c.sink.num, c.rows)
				}
			case before.sink.slice == nil || c.sink.slice != nil && before.sink.slice.num >= c.sink.slice.num:
				t.Fatalf("sink %d comes before %d", before.sink.num, c.sink.num)
			}
		}
	}
}
