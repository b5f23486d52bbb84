package buffer

import (
	"cmp"
	"math"
	"slices"
)

// chunkOrder sorts the chunks of a group by the keys that they will have, so that the store inserts them one behind the
// other. It keeps its memory from one group to the next. Its zero value is ready; it is the committer's.
type chunkOrder struct{ list []placedChunk }

type placedChunk struct {
	slice uint64 // the slice that is open now; new slices come last
	at    int    // the place in the group
	chunk *chunk
}

// sort keeps the order of the chunks of each sink. Called by the committer, which alone changes what it reads.
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
