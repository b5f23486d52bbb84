package buffer

import (
	"sync"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/quickgzip"
)

// precompressed is the gzip member that a caller has made of the rows of its Append. nil means that there is none.
type precompressed struct {
	encoder quickgzip.Encoder
	memory  []byte
	out     []byte // in memory, nil when compression did not pay
}

var precompressedPool = sync.Pool{New: func() any { return new(precompressed) }}

// precompress compresses the rows of an Append on the caller's goroutine when they will probably be alone in their chunk,
// as the sink's rows were in the last commit. The committer would otherwise do it, alone, while many callers wait for it,
// and would first fetch the rows from the cache of the processor that has just written them.
//
// If other rows join the chunk after all, it holds one member for each Append. That is longer than one member for all. The
// committer sees it in chunk.appends and stops the callers with sinkState.single.
func (s *DefinedSink) precompress(data []byte) *precompressed {
	if !s.b.gate.spread.Load() || !s.state.single.Load() || len(data) >= compressMin || s.def.Encoding != format.Gzip {
		return nil
	}
	p := precompressedPool.Get().(*precompressed)
	if room := quickgzip.Room(len(data)); cap(p.memory) < room {
		p.memory = make([]byte, 0, room)
	}
	p.out = p.encoder.Append(p.memory, data)
	return p
}

// member returns the compressed rows, nil when there are none. They are valid until release.
func (p *precompressed) member() []byte {
	if p == nil {
		return nil
	}
	return p.out
}

func (p *precompressed) release() {
	if p != nil {
		precompressedPool.Put(p)
	}
}
