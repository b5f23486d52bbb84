package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/forebay/forebay/internal/intake"
)

// Bodies reads request bodies and removes their Content-Encoding. Handlers that share an Intake share its memory bound.
type Bodies struct {
	*intake.Intake
	// Names is the prefix of its errors.
	Names Prefix
}

// Read returns the body of r, decoded. sent and decoded bound its size in bytes as it is sent and without its
// Content-Encoding. The body is valid until q is reused.
func (b Bodies) Read(q *intake.Body, r *http.Request, sent, decoded int) ([]byte, *Error) {
	if r.ContentLength > int64(sent) {
		return nil, b.Names.tooLarge(int64(sent))
	}
	coding, e := b.coding(r.Header)
	if e != nil {
		return nil, e
	}
	if err := b.Intake.Read(q, r.Body, r.ContentLength, sent); err != nil {
		return nil, b.Names.ReadError(err)
	}
	return b.decode(q, coding, decoded)
}

// Decode is Read for a body that has been read already.
func (b Bodies) Decode(q *intake.Body, h http.Header, body []byte, decoded int) ([]byte, *Error) {
	coding, e := b.coding(h)
	if e != nil {
		return nil, e
	}
	q.Sent = body
	return b.decode(q, coding, decoded)
}

func (b Bodies) decode(q *intake.Body, c intake.Coding, limit int) ([]byte, *Error) {
	body, err := b.Intake.Decode(q, c, limit)
	if err != nil {
		return nil, b.Names.ReadError(err)
	}
	return body, nil
}

// codings are the known values of Content-Encoding.
var codings = map[string]intake.Coding{
	"": intake.Identity, "identity": intake.Identity, "gzip": intake.Gzip, "x-gzip": intake.Gzip,
	"deflate": intake.Deflate, "zlib": intake.Deflate, "zstd": intake.Zstd,
	"snappy": intake.Snappy, "x-snappy-framed": intake.Snappy, "lz4": intake.LZ4,
}

func (b Bodies) coding(h http.Header) (intake.Coding, *Error) {
	values := h["Content-Encoding"]
	if len(values) == 0 {
		return intake.Identity, nil
	}
	c, ok := codings[strings.ToLower(strings.TrimSpace(values[0]))]
	if !ok || len(values) > 1 {
		return 0, b.Names.Errorf(http.StatusUnsupportedMediaType, "unsupportedMediaType", "The Content-Encoding is not supported. "+
			"Send gzip, deflate, zlib, zstd, snappy, lz4, or no Content-Encoding.").leaveBody()
	}
	return c, nil
}

func (p Prefix) tooLarge(limit int64) *Error {
	return p.Errorf(http.StatusRequestEntityTooLarge, "bodyTooLarge", "The body has more than %d bytes.", limit).leaveBody()
}

// ClientGone is the response for a client that ended its request early. Only logs and proxies see it.
func (p Prefix) ClientGone() *Error {
	return p.Errorf(499, "eof", "The client closed the connection before the request was complete.")
}

// ReadError returns the response for a body that could not be read or decoded.
func (p Prefix) ReadError(err error) *Error {
	var (
		over        *intake.TooLargeError
		undecodable *intake.DecodeError
		tooLarge    *http.MaxBytesError // a limit that the caller put around this handler
	)
	switch {
	case errors.Is(err, intake.ErrBusy):
		return p.Failure(err, "event")
	case errors.As(err, &over):
		return p.tooLarge(int64(over.Limit))
	case errors.As(err, &undecodable):
		return p.Errorf(http.StatusBadRequest, "badRequest", "The body does not have the encoding that Content-Encoding says: %v.", undecodable)
	case errors.As(err, &tooLarge):
		return p.tooLarge(tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return p.Errorf(http.StatusRequestTimeout, "timeout", "The body did not arrive in time.").leaveBody()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled):
		return p.ClientGone()
	}
	return p.Errorf(http.StatusBadRequest, "badRequest", "The body could not be read: %v.", err)
}
