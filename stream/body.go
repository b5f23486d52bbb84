package stream

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// bodies reads the bodies of requests and takes off their Content-Encoding. Handlers that share one share its bound of
// memory.
type bodies struct {
	// limit is the greatest body, as it was sent.
	limit int
	// most bounds what all requests in progress take together; taken is what they take now.
	most  int64
	taken atomic.Int64

	gzips, deflates, zstds sync.Pool
}

// bodyBuffer is the reusable memory of one body.
type bodyBuffer struct {
	sent, decoded []byte
	// reserved is the part of bodies.taken that this body has.
	reserved int64
}

// maxPooledBody is the greatest body buffer that is kept for later requests.
const maxPooledBody = 256 << 10

// reuse prepares the buffer for another request. It reports false when it is too large to be kept.
func (q *bodyBuffer) reuse() bool {
	q.sent, q.decoded = q.sent[:0], q.decoded[:0]
	return cap(q.sent) <= maxPooledBody && cap(q.decoded) <= maxPooledBody
}

// release gives back what read has reserved. It is called after every read, also after one that failed.
func (b *bodies) release(q *bodyBuffer) {
	b.taken.Add(-q.reserved)
	q.reserved = 0
}

// bodyStep is the unit in which body memory is reserved.
const bodyStep = 16 << 10

// read returns the body of r, decoded, of at most inflated bytes. It is valid until the buffer is reused. Memory is taken
// as the bytes arrive, not by the announced length, so that a client pays with traffic for what it takes; what a small
// body inflates to is bounded in the same way.
func (b *bodies) read(q *bodyBuffer, r *http.Request, inflated int) ([]byte, *apiError) {
	if r.ContentLength > int64(b.limit) {
		return nil, bodyTooLarge(b.limit)
	}
	coding := contentCoding(r.Header)
	if coding == unknownCoding {
		return nil, unknownEncoding
	}
	var e *apiError
	if q.sent, e = b.readAll(q, q.sent, r.Body, r.ContentLength, b.limit); e != nil || coding == identity {
		return q.sent, e
	}
	q.decoded, e = b.decode(q, coding, inflated)
	return q.decoded, e
}

// readAll reads all of src, at most limit bytes, into buf. announced is the length, negative if it is not known.
func (b *bodies) readAll(q *bodyBuffer, buf []byte, src io.Reader, announced int64, limit int) ([]byte, *apiError) {
	most := limit + 1 // one byte more shows that there is more
	if announced >= 0 {
		most = int(announced) + 1 // one byte more: a reader may tell the end only after the last byte
	}
	buf = buf[:0]
	free := 0 // reserved and not used yet
	for {
		if free == 0 {
			step := min(bodyStep, most-len(buf))
			if step <= 0 {
				return buf, bodyTooLarge(limit)
			}
			q.reserved += int64(step)
			if b.taken.Add(int64(step)) > b.most {
				return buf, tooManyBytes
			}
			if cap(buf)-len(buf) < step {
				buf = slices.Grow(buf, max(step, min(cap(buf), most-len(buf))))
			}
			free = step
		}
		n, err := src.Read(buf[len(buf) : len(buf)+free])
		buf = buf[:len(buf)+n]
		free -= n
		switch {
		case len(buf) > limit:
			return buf, bodyTooLarge(limit)
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, readError(err)
		}
	}
}

// coding is a Content-Encoding.
type coding uint8

const (
	identity coding = iota
	gzipCoding
	deflateCoding
	zstdCoding
	unknownCoding
)

func contentCoding(h http.Header) coding {
	values := h["Content-Encoding"]
	if len(values) == 0 {
		return identity
	}
	if len(values) > 1 {
		return unknownCoding
	}
	switch strings.ToLower(strings.TrimSpace(values[0])) {
	case "", "identity":
		return identity
	case "gzip", "x-gzip":
		return gzipCoding
	case "deflate":
		return deflateCoding
	case "zstd":
		return zstdCoding
	}
	return unknownCoding
}

// decode inflates q.sent.
func (b *bodies) decode(q *bodyBuffer, c coding, limit int) ([]byte, *apiError) {
	src := bytes.NewReader(q.sent)
	var dec io.Reader
	var err error
	switch c {
	case gzipCoding:
		z, ok := b.gzips.Get().(*gzip.Reader)
		if !ok {
			z = new(gzip.Reader)
		}
		defer b.gzips.Put(z)
		dec, err = z, z.Reset(src)
	case deflateCoding:
		// The standard means zlib; some clients send the raw stream all the same.
		if len(q.sent) >= 2 && q.sent[0]&0x0f == 8 && (uint(q.sent[0])<<8|uint(q.sent[1]))%31 == 0 {
			dec, err = zlib.NewReader(src)
			break
		}
		z, ok := b.deflates.Get().(io.ReadCloser)
		if !ok {
			z = flate.NewReader(src)
		} else {
			err = z.(flate.Resetter).Reset(src, nil)
		}
		defer b.deflates.Put(z)
		dec = z
	case zstdCoding:
		z, ok := b.zstds.Get().(*zstd.Decoder)
		if !ok {
			z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
			if err != nil {
				return nil, &apiError{status: http.StatusInternalServerError, name: "stream.in.genericError", message: supportMessage, cause: err}
			}
		}
		defer func() {
			_ = z.Reset(nil) // it must not keep the body
			b.zstds.Put(z)
		}()
		dec, err = z, z.Reset(src)
	}
	if err != nil {
		return nil, malformed(err)
	}
	body, e := b.readAll(q, q.decoded, decodeErrors{dec}, -1, limit)
	return body, e
}

// zstdWindow bounds the memory that a frame can ask for before any of it is decoded. RFC 8878 recommends 8 MB at least.
const zstdWindow = 8 << 20

// decodeErrors marks the errors of a decoder, so that they are not taken for those of a connection.
type decodeErrors struct{ io.Reader }

type decodeError struct{ err error }

func (e *decodeError) Error() string { return e.err.Error() }

func (d decodeErrors) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &decodeError{err}
	}
	return n, err
}

func malformed(err error) *apiError {
	return &apiError{
		status: http.StatusBadRequest, name: "stream.in.badRequest",
		message: fmt.Sprintf("The body does not have the encoding that Content-Encoding says: %v.", err),
	}
}

var unknownEncoding = &apiError{
	status: http.StatusUnsupportedMediaType, name: "stream.in.unsupportedMediaType", unread: true,
	message: "The Content-Encoding is not supported. Send gzip, deflate, zstd, or no Content-Encoding.",
}

func bodyTooLarge(limit int) *apiError {
	return &apiError{
		status: http.StatusRequestEntityTooLarge, name: "stream.in.bodyTooLarge", unread: true,
		message: fmt.Sprintf("The body has more than %d bytes.", limit),
	}
}

func readError(err error) *apiError {
	var tooLarge *http.MaxBytesError // a limit that the caller has put around this handler
	var undecodable *decodeError
	switch {
	case errors.As(err, &undecodable):
		return malformed(undecodable.err)
	case errors.As(err, &tooLarge):
		return &apiError{
			status: http.StatusRequestEntityTooLarge, name: "stream.in.bodyTooLarge", unread: true,
			message: fmt.Sprintf("The body has more than %d bytes.", tooLarge.Limit),
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slowClient
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled):
		return clientGone
	}
	return &apiError{
		status: http.StatusBadRequest, name: "stream.in.badRequest", message: "The body could not be read: " + err.Error() + ".",
	}
}
