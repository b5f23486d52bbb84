package buffer

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/internal/gunzip"
)

// Encoding tells how the rows of a slice are stored in local and staging. It is part of the on-disk format.
type Encoding uint8

const (
	// None is plain CSV.
	None Encoding = iota
	// Gzip is a sequence of gzip members; every gzip reader gives the rows of all of them.
	Gzip
	// Zstd is a sequence of Zstandard frames.
	Zstd
)

// String returns "none", "gzip" or "zstd".
func (e Encoding) String() string {
	switch e {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("encoding(%d)", uint8(e))
}

// Extension returns the usual suffix of a file name: "", ".gz" or ".zst".
func (e Encoding) Extension() string {
	switch e {
	case Gzip:
		return ".gz"
	case Zstd:
		return ".zst"
	}
	return ""
}

// Decode returns the plain bytes of src, which it owns from then on: closing the result closes src, and an error of
// Decode itself has closed it.
func Decode(e Encoding, src io.ReadCloser) (io.ReadCloser, error) {
	switch e {
	case None:
		return src, nil
	case Gzip:
		zr, err := gunzip.NewReader(src)
		if err != nil {
			src.Close()
			return nil, fmt.Errorf("decode gzip: %w", err)
		}
		return &decoder{Reader: zr, close: zr.Close, src: src}, nil
	case Zstd:
		zr, err := newZstdReader(src)
		if err != nil {
			src.Close()
			return nil, fmt.Errorf("decode zstd: %w", err)
		}
		return &decoder{Reader: zr, close: zr.Close, src: src}, nil
	}
	src.Close()
	return nil, fmt.Errorf("decode: unknown encoding %d", uint8(e))
}

type decoder struct {
	io.Reader
	close func() error
	src   io.Closer
}

func (d *decoder) Close() error {
	err := d.close()
	if e := d.src.Close(); err == nil {
		err = e
	}
	return err
}

// zstdReader is a decoder of zstdDecoders.
type zstdReader struct {
	using sync.Mutex // a driver that closes during a read must not give the decoder to the next reader
	in    *zstd.Decoder
}

// zstdDecoders are used one after the other: each keeps the largest window that it has met, 4 MiB for slices of the engine. There is no bound below
// that of the library, 512 MiB, because a slice must be readable whoever wrote it. They have no goroutines, so they need no Close.
var zstdDecoders sync.Pool

var errZstdClosed = errors.New("zstd: the reader is closed")

func newZstdReader(src io.Reader) (*zstdReader, error) {
	if in, ok := zstdDecoders.Get().(*zstd.Decoder); ok {
		if err := in.Reset(src); err == nil {
			return &zstdReader{in: in}, nil
		}
	}
	in, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1))
	return &zstdReader{in: in}, err
}

func (r *zstdReader) Read(p []byte) (int, error) {
	r.using.Lock()
	defer r.using.Unlock()
	if r.in == nil {
		return 0, errZstdClosed
	}
	return r.in.Read(p)
}

// Close gives the decoder back. It may be repeated. Read fails after it. A Close during a Read does nothing.
func (r *zstdReader) Close() error {
	if !r.using.TryLock() {
		return nil
	}
	defer r.using.Unlock()
	if r.in != nil && r.in.Reset(nil) == nil { // forgets the source
		zstdDecoders.Put(r.in)
	}
	r.in = nil
	return nil
}
