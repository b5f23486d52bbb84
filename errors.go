package forebay

import (
	"errors"
	"fmt"

	"github.com/forebay/forebay/buffer"
)

var (
	// ErrClosed is returned by every call after Close has begun.
	ErrClosed = buffer.ErrClosed
	// ErrUnknownSource is returned for a source id that is not defined.
	ErrUnknownSource = errors.New("unknown source")
	// ErrUnknownSink is returned for a sink id that the source does not have.
	ErrUnknownSink = errors.New("unknown sink")
	// ErrDisabledSource is returned for a record to a disabled source. Nothing was stored.
	ErrDisabledSource = errors.New("source is disabled")
	// ErrTooManySources is returned by Define above Options.MaxSources.
	ErrTooManySources = errors.New("the engine has too many sources")
)

func unknownSource(id string) error {
	return fmt.Errorf("%w: %q: define it first, or correct the id", ErrUnknownSource, id)
}

func unknownSink(source, id string) error {
	return fmt.Errorf("%w: %q of source %q: it is not defined, or it is disabled; change the definition, or correct the id", ErrUnknownSink, id, source)
}

// RowTooLargeError rejects a record whose row is above Options.MaxRowBytes. Sending it again is useless.
type RowTooLargeError struct {
	// Size of the encoded row and Limit are in bytes.
	Size, Limit int
}

func (e *RowTooLargeError) Error() string {
	return fmt.Sprintf("the row has %d bytes, at most %d are allowed: send a smaller record, or raise the limit of a row", e.Size, e.Limit)
}
