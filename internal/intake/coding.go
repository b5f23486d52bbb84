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

// Coding is a compression of bodies.
type Coding uint8

// The codings that an Intake takes off. Deflate is zlib's format or the bare one, and Snappy the framed format or one block,
// whichever it is: for both names, clients disagree about what it means.
const (
	Identity Coding = iota
	Gzip
	Deflate
	Zstd
	Snappy
	LZ4
)

// DecodeError says that a body does not have the coding that it claims.
type DecodeError struct{ Err error }

func (e *DecodeError) Error() string { return e.Err.Error() }
func (e *DecodeError) Unwrap() error { return e.Err }

// zstdWindow bounds the memory that a frame can ask for before any of it is decoded. RFC 8878 recommends 8 MB at least.
const zstdWindow = 8 << 20

// Decode takes the coding off b.Sent, and frees it if it is large. It returns at most limit bytes, which are valid until b is
// reused or dropped. What a small body inflates to is bounded and counted as it comes, like what arrives. An error is ErrBusy,
// a [*TooLargeError] or a [*DecodeError].
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
			_ = z.Reset(nil) // it must not keep the body
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

// deflate returns a reader of the format that the body has. The standard means zlib's; some clients send the bare one.
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

// snappyMagic begins the framed format. A block cannot begin like this: it would be a copy from before its first byte.
const snappyMagic = "\xff\x06\x00\x00sNaPpY"

// snappyGain is how many bytes one byte of a snappy block can become at most: a copy of three bytes stands for 64.
const snappyGain = 22

func (in *Intake) snappyBlock(b *Body, limit int) error {
	size, err := snappy.DecodedLen(b.Sent)
	switch {
	case err != nil:
		return &DecodeError{err}
	case size > snappyGain*len(b.Sent): // before memory is taken for it
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

// decoder marks the errors of a decoder, so that they are not taken for those of a connection.
type decoder struct{ io.Reader }

func (d decoder) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &DecodeError{err}
	}
	return n, err
}
