package buffer

// spareBytes, and an eighth of MaxPendingBytes, bound the memory of the chunks that wait to be used again.
const spareBytes = 8 << 20

// spareChunks keeps the chunks of written groups for the next ones. Its zero value is empty. Guarded by gate.mu.
//
// A sync.Pool lost, because chunks are taken on the processors of the callers and come back on the committer's, many at once,
// and each garbage collection throws them away.
type spareChunks struct {
	chunks []*chunk
	bytes  int
	bound  int      // at most so many bytes
	list   []*chunk // the list of a written group, empty
}

func (s *spareChunks) take() *chunk {
	last := len(s.chunks) - 1
	if last < 0 {
		return new(chunk)
	}
	c := s.chunks[last]
	s.chunks[last] = nil
	s.chunks = s.chunks[:last]
	s.bytes -= cap(c.data)
	return c
}

// put takes the chunks of a group, empty, and their list. They must no longer be in use.
func (s *spareChunks) put(list []*chunk) {
	for _, c := range list {
		if size := cap(c.data); size > 0 && size <= 2*chunkBytes && s.bytes+size <= s.bound { // else it has no memory, a huge row, or there are many
			s.chunks = append(s.chunks, c)
			s.bytes += size
		}
	}
	clear(list)
	s.list = list[:0]
}
