package buffer

import (
	"cmp"
	"math"
	"slices"
)

// chunkOrder sorts the chunks of a group by their future keys, so that the store inserts them in sequence. It keeps its
// memory from one group to the next. Its zero value is ready. It is the committer's.
type chunkOrder struct{ list []placedChunk }

type placedChunk struct {
	slice uint64 // the slice that is open now. New slices come last
	at    int    // the place in the group
	chunk *chunk
}

// sort keeps the order of the chunks of each sink. Called by the committer, which alone changes the state that it reads.
func (o *chunkOrder) sort(chunks []*chunk) {
	if len(chunks) < 2 {
		return
	}
	for i, ch := range chunks {
		p := placedChunk{slice: math.MaxUint64, at: i, chunk: ch}
		if sl := ch.sink.slice; sl != nil {
			p.slice = sl.num
		}
		o.list = append(o.list, p)
	}
	slices.SortFunc(o.list, func(a, b placedChunk) int {
		if c := cmp.Compare(a.slice, b.slice); c != 0 {
			return c
		}
		return a.at - b.at
	})
	for i, p := range o.list {
		chunks[i] = p.chunk
	}
	clear(o.list)
	o.list = o.list[:0]
}
