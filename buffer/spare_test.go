package buffer

import "testing"

// The memory of written chunks is used again, within its bound.
func TestChunksAreUsedAgain(t *testing.T) {
	s := spareChunks{bound: spareBytes}
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
