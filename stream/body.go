package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/forebay/forebay/internal/intake"
)

// bodies reads the bodies of requests and takes off their Content-Encoding. Handlers that share one share its bound of
// memory.
type bodies struct{ *intake.Intake }

// bodyLimits are the greatest sizes of one body in bytes: as it is sent, and without its Content-Encoding.
type bodyLimits struct{ sent, decoded int }

// read returns the body of r, decoded. It is valid until the memory is reused.
func (b bodies) read(q *intake.Body, r *http.Request, limits bodyLimits) ([]byte, *apiError) {
	if r.ContentLength > int64(limits.sent) {
		return nil, bodyTooLarge(limits.sent)
	}
	coding, ok := contentCoding(r.Header)
	if !ok {
		return nil, unknownEncoding
	}
	if err := b.Read(q, r.Body, r.ContentLength, limits.sent); err != nil {
		return nil, readError(err)
	}
	return b.decode(q, coding, limits.decoded)
}

// decode takes the coding off q.Sent.
func (b bodies) decode(q *intake.Body, c intake.Coding, limit int) ([]byte, *apiError) {
	body, err := b.Decode(q, c, limit)
	if err != nil {
		return nil, readError(err)
	}
	return body, nil
}

// codings are the names of what a Content-Encoding can be.
var codings = map[string]intake.Coding{
	"": intake.Identity, "identity": intake.Identity, "gzip": intake.Gzip, "x-gzip": intake.Gzip,
	"deflate": intake.Deflate, "zlib": intake.Deflate, "zstd": intake.Zstd,
	"snappy": intake.Snappy, "x-snappy-framed": intake.Snappy, "lz4": intake.LZ4,
}

// contentCoding reports false for a Content-Encoding that is not known.
func contentCoding(h http.Header) (intake.Coding, bool) {
	values := h["Content-Encoding"]
	if len(values) == 0 {
		return intake.Identity, true
	}
	c, ok := codings[strings.ToLower(strings.TrimSpace(values[0]))]
	return c, ok && len(values) == 1
}

func malformed(err error) *apiError {
	return &apiError{
		status: http.StatusBadRequest, name: "stream.in.badRequest",
		message: fmt.Sprintf("The body does not have the encoding that Content-Encoding says: %v.", err),
	}
}

var unknownEncoding = &apiError{
	status: http.StatusUnsupportedMediaType, name: "stream.in.unsupportedMediaType", unread: true,
	message: "The Content-Encoding is not supported. Send gzip, deflate, zlib, zstd, snappy, lz4, or no Content-Encoding.",
}

func bodyTooLarge(limit int) *apiError {
	return &apiError{
		status: http.StatusRequestEntityTooLarge, name: "stream.in.bodyTooLarge", unread: true,
		message: fmt.Sprintf("The body has more than %d bytes.", limit),
	}
}

func readError(err error) *apiError {
	var (
		over        *intake.TooLargeError
		undecodable *intake.DecodeError
		tooLarge    *http.MaxBytesError // a limit that the caller has put around this handler
	)
	switch {
	case errors.Is(err, intake.ErrBusy):
		return tooManyBytes
	case errors.As(err, &over):
		return bodyTooLarge(over.Limit)
	case errors.As(err, &undecodable):
		return malformed(undecodable)
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
