package otlpgrpc

import (
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// codec decodes export requests without the copy into zeroed memory that they cost otherwise, and leaves the messages of
// other services to the codec that it wraps.
type codec struct {
	encoding.CodecV2
	// buffers holds *[]byte, as long as the messages were.
	buffers *sync.Pool
}

func newCodec() codec { return codec{encoding.GetCodecV2("proto"), new(sync.Pool)} }

// maxPooledMessage is the greatest buffer that is kept for later requests.
const maxPooledMessage = 256 << 10

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(response)
	switch {
	case !ok:
		return c.CodecV2.Marshal(v)
	case len(r) == 0:
		return nil, nil
	}
	return mem.BufferSlice{mem.SliceBuffer(r)}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if len(data) == 1 {
		return r.UnmarshalProto(data[0].ReadOnlyData())
	}
	buf, ok := c.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	*buf = (*buf)[:0]
	for _, part := range data {
		*buf = append(*buf, part.ReadOnlyData()...)
	}
	err := r.UnmarshalProto(*buf)
	if cap(*buf) <= maxPooledMessage {
		c.buffers.Put(buf)
	}
	return err
}

// zstdDecoder is the decompressor of one server. The design that lost: to register it with gRPC, for every server and
// client of the program.
type zstdDecoder struct {
	// limit is the greatest message without its compression, in bytes.
	limit int
	// decoders holds *zstd.Decoder.
	decoders sync.Pool
}

// zstdWindow bounds the memory that a frame can ask for before any of it is decoded. RFC 8878 recommends 8 MB at least.
const zstdWindow = 8 << 20

// Do returns the decoded message, or one byte more than the limit of it.
func (d *zstdDecoder) Do(r io.Reader) ([]byte, error) {
	z, ok := d.decoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
	}
	defer func() {
		_ = z.Reset(nil) // it must not keep the message
		d.decoders.Put(z)
	}()
	if err := z.Reset(r); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, int64(d.limit)+1))
}

// Type is the name in the header grpc-encoding.
func (*zstdDecoder) Type() string { return "zstd" }
