package buffer

import (
	"sync"

	"github.com/forebay/forebay/internal/quickgzip"
)

// early is a gzip member that a caller has made of the rows of one Append. Nil: there is none.
type early struct {
	encoder quickgzip.Encoder
	memory  []byte
	out     []byte // in memory; nil when it was not worth it
}

var earlies = sync.Pool{New: func() any { return new(early) }}

// early compresses rows that will probably be alone in their chunk, as those of the sink were in the last commit. The
// committer would do the same later, by itself while many callers wait for it, and would have to fetch the rows from the
// cache of another processor, where the caller has just written them. When others join the chunk after all, it gets one
// member of each, which is longer than one of all; the next commit is told by chunk.appends.
func (s *Sink) early(data []byte) *early {
	if !s.b.gate.spread.Load() || !s.state.single.Load() || len(data) >= compressMin || s.def.Encoding != Gzip {
		return nil
	}
	e := earlies.Get().(*early)
	if room := quickgzip.Room(len(data)); cap(e.memory) < room {
		e.memory = make([]byte, 0, room)
	}
	e.out = e.encoder.Append(e.memory, data)
	return e
}

// member is valid until release.
func (e *early) member() []byte {
	if e == nil {
		return nil
	}
	return e.out
}

func (e *early) release() {
	if e != nil {
		earlies.Put(e)
	}
}
