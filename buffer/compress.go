package buffer

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// compressMin is the chunk size below which compression is left to the upload, where small chunks are packed
// together: a gzip member of one row is hardly smaller than the row.
const compressMin = 4 << 10

// payload is what of a chunk is stored. It is valid until the compressor is reset.
type payload struct {
	encoding Encoding
	data     []byte
}

// payloads of the chunks of one group.
type payloads struct {
	list []payload
	size int // upper bound of the batch
}

func (p payloads) at(i int) payload { return p.list[i] }

// packParallel is how many bytes to compress make a second core worth its wake-up.
const packParallel = 128 << 10

// packer compresses the chunks of a group, on up to four cores. Its zero value is ready; it is the committer's.
type packer struct {
	lanes [4]compressor
	list  []payload
}

// pack compresses the chunks that are worth it. The result is valid until reset.
func (p *packer) pack(chunks []*chunk) payloads {
	heavy := 0
	for _, ch := range chunks {
		p.list = append(p.list, payload{encoding: None, data: ch.data})
		if ch.worthPacking() {
			heavy += len(ch.data)
		}
	}
	var next atomic.Int64
	work := func(lane *compressor) {
		for i := int(next.Add(1)) - 1; i < len(chunks); i = int(next.Add(1)) - 1 {
			if ch := chunks[i]; ch.worthPacking() {
				p.list[i] = payload{encoding: ch.def.Encoding, data: lane.member(ch.def.Encoding, ch.data)}
			}
		}
	}
	var others sync.WaitGroup
	for i := 1; i < min(len(p.lanes), len(chunks), runtime.GOMAXPROCS(0)) && heavy >= packParallel; i++ {
		others.Go(func() { work(&p.lanes[i]) })
	}
	if heavy > 0 {
		work(&p.lanes[0])
	}
	others.Wait()
	size := 0
	for _, pl := range p.list {
		size += len(pl.data) + chunkHeaderSize + chunkKeySize + 16
	}
	return payloads{list: p.list, size: size}
}

func (c *chunk) worthPacking() bool { return c.def.Encoding != None && len(c.data) >= compressMin }

// reset invalidates all payloads.
func (p *packer) reset() {
	clear(p.list)
	p.list = p.list[:0]
	for i := range p.lanes {
		p.lanes[i].reset()
	}
}

// compressor turns rows into independent gzip members or zstd frames. It keeps its encoders and its memory from one
// group to the next. It is not safe for concurrent use; its zero value is ready.
type compressor struct {
	gz  *gzip.Writer
	zs  *zstd.Encoder
	buf bytes.Buffer
}

// member appends one complete member to the compressor's memory and returns it.
func (c *compressor) member(e Encoding, data []byte) []byte {
	start := c.buf.Len()
	switch e {
	case Gzip:
		if c.gz == nil {
			c.gz, _ = gzip.NewWriterLevel(&c.buf, gzip.BestSpeed) // the level is valid
		} else {
			c.gz.Reset(&c.buf)
		}
		_, _ = c.gz.Write(data) // a bytes.Buffer does not fail
		_ = c.gz.Close()
	case Zstd:
		if c.zs == nil {
			c.zs, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		}
		c.buf.Grow(len(data)/2 + 64)
		out := c.zs.EncodeAll(data, c.buf.AvailableBuffer())
		c.buf.Write(out)
	default:
		panic(fmt.Sprintf("buffer: no members of encoding %s", e))
	}
	return c.buf.Bytes()[start:]
}

// reset invalidates all members.
func (c *compressor) reset() {
	if c.buf.Cap() > 16<<20 {
		c.buf = bytes.Buffer{}
	}
	c.buf.Reset()
}
