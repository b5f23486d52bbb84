package otlpgrpc

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// DefaultMaxMessageBytes is the default of Options.MaxMessageBytes.
	DefaultMaxMessageBytes = 8 << 20
	// DefaultMaxBufferedBytes is the default of Options.MaxBufferedBytes.
	DefaultMaxBufferedBytes = 256 << 20
	// memoryPerByte is what a byte of the largest message may take in memory once it is decoded.
	memoryPerByte = 16
	// DefaultReadTimeout is the default of Options.ReadTimeout.
	DefaultReadTimeout = 30 * time.Second
	maxReadTimeout     = time.Hour
)

// Options of the services. The zero value is ready to use.
type Options struct {
	// MaxMessageBytes is the greatest export request without its compression: 1 KB to 64 MB. With Register it bounds what
	// is decoded: set grpc.MaxRecvMsgSize on the server, to bound what is inflated. Default: DefaultMaxMessageBytes.
	MaxMessageBytes int
	// MaxBufferedBytes bounds about the memory that the decoded requests in progress take together, at least sixteen times
	// MaxMessageBytes. Above it requests are answered UNAVAILABLE. Default: DefaultMaxBufferedBytes.
	MaxBufferedBytes int
	// ReadTimeout bounds the time from the headers of a request until its whole message is there, at most an hour. A request
	// that takes longer is answered UNAVAILABLE. Default: DefaultReadTimeout.
	ReadTimeout time.Duration
	// HiddenHeaders are names of metadata, in any case, that mappings do not see. They never see authorization.
	// Default: none.
	HiddenHeaders []string
	// BatchWindow is how long a batch without the metadata idempotency-key counts as a repetition of an equal one: as
	// stream.Options.BatchWindow, and with the same default. Negative: batches are not compared, and each is stored.
	BatchWindow time.Duration
	// Logger gets the failures of the service itself. Secrets and records are not logged. Default: nothing is logged.
	Logger *slog.Logger
}

// Validate reports every field that is out of its range.
func (o Options) Validate() error {
	var errs []error
	if o.MaxMessageBytes != 0 && (o.MaxMessageBytes < 1<<10 || o.MaxMessageBytes > 64<<20) {
		errs = append(errs, fmt.Errorf("otlpgrpc: Options.MaxMessageBytes is %d, must be between %d and %d, or 0 for the default",
			o.MaxMessageBytes, 1<<10, 64<<20))
	}
	if d := o.withDefaults(); d.MaxBufferedBytes < memoryPerByte*d.MaxMessageBytes {
		errs = append(errs, fmt.Errorf("otlpgrpc: Options.MaxBufferedBytes is %d, must be at least %d, sixteen times MaxMessageBytes",
			d.MaxBufferedBytes, memoryPerByte*d.MaxMessageBytes))
	}
	if o.ReadTimeout < 0 || o.ReadTimeout > maxReadTimeout {
		errs = append(errs, fmt.Errorf("otlpgrpc: Options.ReadTimeout is %v, must be at most %v, or 0 for the default", o.ReadTimeout, maxReadTimeout))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if o.MaxBufferedBytes == 0 {
		o.MaxBufferedBytes = DefaultMaxBufferedBytes
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = DefaultReadTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
