package buffer

import (
	"bytes"
	"fmt"

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

// compressor turns rows into independent gzip members or zstd frames. It keeps its encoders and its memory from one
// group to the next. It is not safe for concurrent use; its zero value is ready.
type compressor struct {
	gz   *gzip.Writer
	zs   *zstd.Encoder
	buf  bytes.Buffer
	list []payload
}

// pack compresses the chunks that are worth it.
func (c *compressor) pack(chunks []*chunk) payloads {
	size := 0
	for _, ch := range chunks {
		p := payload{encoding: None, data: ch.data}
		if ch.def.Encoding != None && len(ch.data) >= compressMin {
			p = payload{encoding: ch.def.Encoding, data: c.member(ch.def.Encoding, ch.data)}
		}
		c.list = append(c.list, p)
		size += len(p.data) + chunkHeaderSize + chunkKeySize + 16
	}
	return payloads{list: c.list, size: size}
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

// reset invalidates all payloads.
func (c *compressor) reset() {
	clear(c.list)
	c.list = c.list[:0]
	if c.buf.Cap() > 16<<20 {
		c.buf = bytes.Buffer{}
	}
	c.buf.Reset()
}
