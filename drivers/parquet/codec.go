package parquet

import (
	"sync"

	kzstd "github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// zstdCodec writes the output of the library's codec at its fastest level. Its encoders have a window of a page, not 4 MiB, and so an eighth of the memory.
type zstdCodec struct {
	zstd.Codec
	encoders sync.Pool // of *kzstd.Encoder
}

func newZstdCodec() *zstdCodec { return &zstdCodec{Codec: zstd.Codec{Level: zstd.SpeedFastest}} }

func (c *zstdCodec) encoder() (*kzstd.Encoder, error) {
	if e, ok := c.encoders.Get().(*kzstd.Encoder); ok {
		return e, nil
	}
	return kzstd.NewWriter(nil, kzstd.WithEncoderConcurrency(1), kzstd.WithEncoderLevel(kzstd.SpeedFastest), kzstd.WithZeroFrames(true),
		kzstd.WithEncoderCRC(false), kzstd.WithWindowSize(pageBytes)) // a page has its own checksum
}

// scratch is memory that is reused. Parts that are written by one goroutine share it.
type scratch struct {
	codec                 compress.Codec
	zstd                  *kzstd.Encoder // of a zstdCodec, or nil before the first use
	levels, plain, packed []byte
}

func newScratch(codec compress.Codec) *scratch { return &scratch{codec: codec} }

// compress sets packed.
func (s *scratch) compress(plain []byte) (err error) {
	c, ok := s.codec.(*zstdCodec)
	if !ok {
		s.packed, err = s.codec.Encode(s.packed[:0], plain)
		return err
	}
	// A pool for each page loses encoders. One thread may not find the encoder that another gave back.
	if s.zstd == nil {
		if s.zstd, err = c.encoder(); err != nil {
			return err
		}
	}
	s.packed = s.zstd.EncodeAll(plain, s.packed[:0])
	return nil
}

// release gives the encoder back, for the next part.
func (s *scratch) release() {
	if s.zstd != nil {
		s.codec.(*zstdCodec).encoders.Put(s.zstd)
		s.zstd = nil
	}
}
