package intake

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
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
	if c == Snappy && !bytes.HasPrefix(b.Sent, []byte(snappyMagic)) {
		return in.snappyBlock(b, limit)
	}
	if c == Zstd || c == LZ4 {
		in.slots <- struct{}{}
		defer func() { <-in.slots }()
	}
	decoders := in.decoders(c, b.Sent)
	if decoders == nil {
		return errors.New("intake: unknown coding")
	}
	kept, src := decoders.Get(), bytes.NewReader(b.Sent)
	defer func() {
		src.Reset(nil) // so that the decoder does not keep the body
		decoders.Put(kept)
	}()
	var err error
	switch d := kept.(type) {
	case *gzip.Reader:
		err = d.Reset(src)
	case flate.Resetter: // and zlib's
		err = d.Reset(src, nil)
	case *zstd.Decoder:
		err = d.Reset(src)
	case *snappy.Reader:
		d.Reset(src)
	case *lz4Reader:
		d.reset(b.Sent)
		defer d.reset(nil) // as above
	}
	if err != nil {
		return &DecodeError{err}
	}
	return in.readAll(b, &b.decoded, &b.heldDecoded, decoder{kept.(io.Reader)}, -1, limit)
}

// decoders returns the pool of decoders for a body, nil for an unknown coding.
func (in *Intake) decoders(c Coding, sent []byte) *sync.Pool {
	switch c {
	case Gzip:
		return &in.gzips
	case Deflate:
		if len(sent) >= 2 && sent[0]&0x0f == 8 && (uint(sent[0])<<8|uint(sent[1]))%31 == 0 {
			return &in.zlibs
		}
		return &in.deflates
	case Zstd:
		return &in.zstds
	case Snappy:
		return &in.snappies
	case LZ4:
		return &in.lz4s
	}
	return nil
}

// snappyMagic starts the framed format. A block cannot start like this, because it would copy from before its first byte.
const snappyMagic = "\xff\x06\x00\x00sNaPpY"

// snappyGain is the most bytes that one byte of a snappy block can become. A copy of three bytes stands for 64.
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

// decoder marks the errors of a decoder, to tell them from errors of the connection.
type decoder struct{ io.Reader }

func (d decoder) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &DecodeError{err}
	}
	return n, err
}
