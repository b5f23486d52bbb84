package buffer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// smallChunks returns chunks of as many sinks, of size bytes each, which repeat themselves or not.
func smallChunks(n, size int, e Encoding, repeating bool) []*chunk {
	rng := rand.New(rand.NewPCG(1, 1))
	def := &definition{Encoding: e}
	chunks := make([]*chunk, n)
	for i := range chunks {
		var text []byte
		for len(text) < size {
			if repeating {
				text = fmt.Appendf(text, "the gate %d opens when the basin is full\n", i)
			} else {
				text = append(text, byte(rng.Uint32()))
			}
		}
		chunks[i] = &chunk{sink: &sinkState{}, def: def, data: text[:size], rows: 1}
	}
	return chunks
}

// Small chunks are compressed at once when they are many, and stay as they are for the upload when they are few, when it
// gains little, and when there is no quick way.
func TestManySmallChunksAreCompressed(t *testing.T) {
	const size = 1 << 10
	for name, c := range map[string]struct {
		chunks []*chunk
		want   Encoding
	}{
		"many":            {smallChunks(quickFrom/size, size, Gzip, true), Gzip},
		"few":             {smallChunks(quickFrom/size-1, size, Gzip, true), None},
		"of noise":        {smallChunks(quickFrom/size, size, Gzip, false), None},
		"not compressed":  {smallChunks(quickFrom/size, size, None, true), None},
		"by another code": {smallChunks(quickFrom/size, size, Zstd, true), None},
	} {
		t.Run(name, func(t *testing.T) {
			var p packer
			for range 3 {
				stored := p.pack(c.chunks)
				size := 0
				for i, ch := range c.chunks {
					pl := stored.at(i)
					size += len(pl.data)
					if pl.encoding != c.want {
						t.Fatalf("chunk %d is stored as %s, want %s", i, pl.encoding, c.want)
					}
					plain := pl.data
					if pl.encoding == Gzip {
						plain = gunzip(t, pl.data)
					}
					if !bytes.Equal(plain, ch.data) {
						t.Fatalf("chunk %d is %q, want %q", i, plain, ch.data)
					}
				}
				if size > stored.size {
					t.Fatalf("%d bytes, at most %d were foretold", size, stored.size)
				}
				p.reset()
			}
		})
	}
}

// Rows that do not compress are not tried again and again.
func TestSinksOfNoiseAreLeftAlone(t *testing.T) {
	var p packer
	chunks := smallChunks(200, 1<<10, Gzip, false)
	tried := 0
	for range 3 * (quickRest + 1) {
		for _, pl := range p.pack(chunks).list {
			if pl.way == packQuick {
				tried++
			}
		}
		p.reset()
	}
	if tried != 3*len(chunks) {
		t.Errorf("%d attempts, want one of each %d commits", tried, quickRest+1)
	}
}

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

// The memory of written chunks is used again, within its bound.
func TestChunksAreUsedAgain(t *testing.T) {
	var s spareChunks
	first := &chunk{data: make([]byte, 0, chunkBytes)}
	s.put([]*chunk{first, {data: make([]byte, 0, 2*chunkBytes+1)}})
	if c := s.take(); c != first {
		t.Error("a written chunk was not used again")
	}
	if c := s.take(); cap(c.data) > 0 {
		t.Error("the chunk of a huge row was kept")
	}
	for range 100 {
		s.put([]*chunk{{data: make([]byte, 0, chunkBytes)}})
	}
	if n := len(s.chunks); n != spareBytes/chunkBytes || s.bytes != spareBytes {
		t.Errorf("%d chunks of %d bytes are kept", n, s.bytes)
	}
}
