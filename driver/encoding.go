package driver

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/internal/gunzip"
)

// Encoding tells how the rows of a slice are stored in local and staging. It is part of the on-disk format.
type Encoding uint8

const (
	// None is plain CSV.
	None Encoding = iota
	// Gzip is a sequence of gzip members. Every gzip reader gives the rows of all of them.
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

// Decode returns the plain bytes of src, which it owns from then on. Closing the result closes src, and an error of
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
		zr, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1))
		if err != nil {
			src.Close()
			return nil, fmt.Errorf("decode zstd: %w", err)
		}
		return &decoder{Reader: zr, close: func() error { zr.Close(); return nil }, src: src}, nil
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
