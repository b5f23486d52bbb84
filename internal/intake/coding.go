package intake

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Coding is a compression of request bodies.
type Coding uint8

// The supported codings. Clients disagree on two names, so both forms are detected: Deflate is zlib's format or raw DEFLATE,
// Snappy is the framed format or one block.
const (
	Identity Coding = iota
	Gzip
	Deflate
	Zstd
	Snappy
	LZ4
)

// DecodeError says that a body is not valid in its declared coding.
type DecodeError struct{ Err error }

func (e *DecodeError) Error() string { return e.Err.Error() }
func (e *DecodeError) Unwrap() error { return e.Err }

// zstdWindow bounds the memory that a frame can request before any of it is decoded. RFC 8878 recommends at least 8 MB.
const zstdWindow = 8 << 20

// Decode decompresses b.Sent, and frees it if it is large. The result has at most limit bytes and is valid until b is reused
// or dropped. Decompressed bytes count against the memory bound as they appear. An error is ErrBusy, a [*TooLargeError] or a
// [*DecodeError].
func (in *Intake) Decode(b *Body, c Coding, limit int) ([]byte, error) {
	if c == Identity {
		return b.Sent, nil
	}
	err := in.decode(b, c, limit)
	in.drop(b, &b.Sent, &b.heldSent)
	return b.decoded, err
}

func (in *Intake) decode(b *Body, c Coding, limit int) error {
	src := bytes.NewReader(b.Sent)
	var dec io.Reader
	var err error
	switch c {
	case Gzip:
		z, ok := in.gzips.Get().(*gzip.Reader)
		if !ok {
			z = new(gzip.Reader)
		}
		defer in.gzips.Put(z)
		dec, err = z, z.Reset(src)
	case Deflate:
		dec, err = in.deflate(b.Sent, src)
		if err == nil {
			defer in.putDeflate(dec)
		}
	case Zstd:
		z, ok := in.zstds.Get().(*zstd.Decoder)
		if !ok {
			z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
			if err != nil {
				return err
			}
		}
		in.slots <- struct{}{}
		defer func() {
			_ = z.Reset(nil) // so that it does not keep the body
			in.zstds.Put(z)
			<-in.slots
		}()
		dec, err = z, z.Reset(src)
	case Snappy:
		if !bytes.HasPrefix(b.Sent, []byte(snappyMagic)) {
			return in.snappyBlock(b, limit)
		}
		z, ok := in.snappies.Get().(*snappy.Reader)
		if !ok {
			z = snappy.NewReader(nil)
		}
		z.Reset(src)
		defer func() {
			z.Reset(nil) // as above
			in.snappies.Put(z)
		}()
		dec = z
	case LZ4:
		z, ok := in.lz4s.Get().(*lz4Reader)
		if !ok {
			z = new(lz4Reader)
		}
		in.slots <- struct{}{}
		z.reset(b.Sent)
		defer func() {
			z.reset(nil) // as above
			in.lz4s.Put(z)
			<-in.slots
		}()
		dec = z
	default:
		return errors.New("intake: unknown coding")
	}
	if err != nil {
		return &DecodeError{err}
	}
	return in.readAll(b, &b.decoded, &b.heldDecoded, decoder{dec}, -1, limit)
}

// deflate returns a reader for the format of the body. The standard means zlib's; some clients send raw DEFLATE.
func (in *Intake) deflate(sent []byte, src io.Reader) (io.Reader, error) {
	if len(sent) >= 2 && sent[0]&0x0f == 8 && (uint(sent[0])<<8|uint(sent[1]))%31 == 0 {
		if z, ok := in.zlibs.Get().(zlibReader); ok {
			return z, z.Reset(src, nil)
		}
		z, err := zlib.NewReader(src)
		if err != nil {
			return nil, err
		}
		return z.(zlibReader), nil
	}
	if z, ok := in.deflates.Get().(bareReader); ok {
		return z, z.Reset(src, nil)
	}
	return flate.NewReader(src).(bareReader), nil
}

func (in *Intake) putDeflate(dec io.Reader) {
	if z, ok := dec.(zlibReader); ok {
		in.zlibs.Put(z)
	} else {
		in.deflates.Put(dec)
	}
}

type zlibReader interface {
	io.Reader
	zlib.Resetter
}

type bareReader interface {
	io.Reader
	flate.Resetter
}

// snappyMagic starts the framed format. A block cannot start like this: it would copy from before its first byte.
const snappyMagic = "\xff\x06\x00\x00sNaPpY"

// snappyGain is the most bytes that one byte of a snappy block can become: a copy of three bytes stands for 64.
const snappyGain = 22

func (in *Intake) snappyBlock(b *Body, limit int) error {
	size, err := snappy.DecodedLen(b.Sent)
	switch {
	case err != nil:
		return &DecodeError{err}
	case size > snappyGain*len(b.Sent): // before memory is allocated for it
		return &DecodeError{snappy.ErrCorrupt}
	case size > limit:
		return &TooLargeError{limit}
	}
	if err := in.Take(b, size); err != nil {
		return err
	}
	b.heldDecoded = size
	if cap(b.decoded) < size {
		b.decoded = make([]byte, size)
	}
	if b.decoded, err = snappy.DecodeStrict(b.decoded[:size], b.Sent); err != nil {
		return &DecodeError{err}
	}
	return nil
}

// decoder marks the errors of a decoder, to tell them from those of a connection.
type decoder struct{ io.Reader }

func (d decoder) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &DecodeError{err}
	}
	return n, err
}
