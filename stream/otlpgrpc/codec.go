package otlpgrpc

import (
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/forebay/forebay/internal/intake"
)

// codings are the values of grpc-encoding. gRPC decides which of them arrive. Before the call is handled, it refuses an
// encoding for which the server has no decompressor.
var codings = map[string]intake.Coding{
	"": intake.Identity, "identity": intake.Identity, "gzip": intake.Gzip, "deflate": intake.Deflate, "zstd": intake.Zstd,
	"snappy": intake.Snappy,
}

// codec writes responses without the copy that they cost otherwise, and leaves all else to the codec that it wraps.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

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

// compressor makes gRPC accept calls with its coding. A server has one separate decompressor, for zstd, and takes the others from the registry
// of the program. Like the gzip of gRPC, every client and server of the program can use it.
type compressor struct {
	name       string
	compress   func(io.Writer) io.WriteCloser
	decompress func(io.Reader) (io.Reader, error)
}

var _ = registerCompressors(
	compressor{
		"snappy",
		func(w io.Writer) io.WriteCloser { return snappy.NewBufferedWriter(w) },
		func(r io.Reader) (io.Reader, error) { return snappy.NewReader(r), nil },
	},
	compressor{
		"deflate", // zlib's format, as in HTTP
		func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	},
)

func registerCompressors(all ...compressor) (registered int) {
	for _, c := range all {
		if encoding.GetCompressor(c.name) == nil {
			encoding.RegisterCompressor(c)
			registered++
		}
	}
	return registered
}

// Name is the name in the header grpc-encoding.
func (c compressor) Name() string { return c.name }

// Compress implements [encoding.Compressor].
func (c compressor) Compress(w io.Writer) (io.WriteCloser, error) { return c.compress(w), nil }

// Decompress implements [encoding.Compressor].
func (c compressor) Decompress(r io.Reader) (io.Reader, error) { return c.decompress(r) }

// zstdDecoder makes gRPC let calls with zstd through to the services of this package, which decode them themselves, and decodes
// the messages of other services of the server. The design that lost was to register it with gRPC, for every server and client
// of the program.
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
