package buffer

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/buffer/internal/salvage"
	"github.com/forebay/forebay/driver"
)

// sliceSource is the [driver.Content] of a sealed slice. It passes compressed chunks on as they are and packs runs of uncompressed
// ones into members.
type sliceSource struct {
	b     *Buffer
	slice uint64
	obj   driver.Object
	ext   format.Extent
	// damage is the damage that a reader met, nil if it met none.
	damage atomic.Pointer[DamageError]
	// complete is the checksum of all bytes. It is set when the source was read to its end.
	complete atomic.Pointer[format.Checksum]
	// unreadable is set when the disk failed to read a chunk.
	unreadable atomic.Bool

	mu      sync.Mutex
	over    bool
	readers []*io.PipeReader
}

// errSourceOver is the error for a driver that reads after its Put has returned.
var errSourceOver = errors.New("the call of Put that this source belongs to is over")

// end closes the readers that the driver left open, and refuses new ones.
func (s *sliceSource) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, r := range s.readers {
		_ = r.CloseWithError(errSourceOver)
	}
}

func (s *sliceSource) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Open implements [driver.Content].
func (s *sliceSource) Open() (io.ReadCloser, error) {
	r, w := io.Pipe()
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil, errSourceOver
	}
	s.readers = append(s.readers, r)
	s.mu.Unlock()
	reader := &sliceReader{PipeReader: r, ended: make(chan struct{})}
	go func() {
		defer close(reader.ended)
		_, err := s.WriteTo(w)
		w.CloseWithError(err)
	}()
	return reader, nil
}

// sliceReader waits in Close for its writer, so nothing reads from the store afterwards.
type sliceReader struct {
	*io.PipeReader
	ended chan struct{}
}

func (r *sliceReader) Close() error {
	err := r.PipeReader.Close()
	<-r.ended
	return err
}

// packBytes is how many uncompressed bytes of small chunks make one member.
const packBytes = 1 << 20

// slicePacker packs uncompressed chunks into members. Uploads share a few, because the tables of an encoder are larger than most small slices.
type slicePacker struct {
	compressor
	run []byte // uncompressed rows that wait to be packed
}

// slicePacker returns a packer, which returnPacker takes.
func (b *Buffer) slicePacker() *slicePacker {
	if p, ok := b.packers.Get().(*slicePacker); ok {
		return p
	}
	return &slicePacker{compressor: compressor{gzipLevel: b.opts.GzipLevel}}
}

func (b *Buffer) returnPacker(p *slicePacker) {
	p.reset()
	if p.run = p.run[:0]; cap(p.run) > maxLightUpload {
		p.run = nil
	}
	b.packers.Put(p)
}

// WriteTo implements [driver.Content].
func (s *sliceSource) WriteTo(w io.Writer) (n int64, err error) {
	packer := s.b.slicePacker()
	defer s.b.returnPacker(packer)
	var sum format.Checksum
	write := func(p []byte) error {
		if s.isOver() {
			return errSourceOver
		}
		k, err := w.Write(p)
		n += int64(k)
		_, _ = sum.Write(p[:k])
		return err
	}
	flush := func() error {
		if len(packer.run) == 0 {
			return nil
		}
		err := write(packer.member(format.Encoding(s.obj.Encoding), packer.run))
		packer.reset()
		packer.run = packer.run[:0]
		return err
	}
	rows := int64(0)
	err = s.b.eachChunk(s.slice, s.ext, func(_ int, h format.ChunkHeader, data []byte) error {
		rows += h.Rows
		if h.Encoding == format.Encoding(s.obj.Encoding) {
			if err := flush(); err != nil {
				return err
			}
			return write(data)
		}
		packer.run = append(packer.run, data...)
		if len(packer.run) >= packBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil && rows != s.obj.Rows {
		err = &DamageError{Chunk: -1, Rows: s.obj.Rows - rows, Err: errors.New("chunks are missing")}
	}
	if _, ok := errors.AsType[*salvage.ChunkError](err); ok {
		s.unreadable.Store(true)
	}
	if err == nil {
		s.complete.Store(&sum)
	}
	if damage, ok := errors.AsType[*DamageError](err); ok {
		damage.SinkID, damage.SliceID = s.obj.SinkID, s.obj.ID
		s.damage.Store(damage)
	}
	return n, err
}

// eachChunk calls fn with the chunks of a slice in order, except the chunks that were set aside. The payload is valid
// during the call. Damage is a [*DamageError]. Other errors of the disk may pass.
func (b *Buffer) eachChunk(slice uint64, ext format.Extent, fn func(seq int, h format.ChunkHeader, payload []byte) error) error {
	st := b.store.Opening()
	if err := st.Read(); err != nil {
		return fmt.Errorf("read slice: %w", err)
	}
	defer st.Release()
	return damageOf(salvage.Walk(st.DB, slice, ext, func(error) bool { return false }, func(c salvage.Chunk) error {
		return fn(int(c.Seq), c.Header, c.Payload)
	}))
}
