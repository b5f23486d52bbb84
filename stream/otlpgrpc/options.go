package otlpgrpc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
)

const (
	// DefaultMaxWireBytes is the default of Options.MaxWireBytes.
	DefaultMaxWireBytes = 20 << 20
	// DefaultMaxMessageBytes is the default of Options.MaxMessageBytes.
	DefaultMaxMessageBytes = 64 << 20
	// MaxMessageBytesLimit is the highest Options.MaxWireBytes and Options.MaxMessageBytes.
	MaxMessageBytesLimit = 1 << 30
	// DefaultMaxBufferedBytes is the default of Options.MaxBufferedBytes.
	DefaultMaxBufferedBytes = 256 << 20
	// DefaultReadTimeout is the default of Options.ReadTimeout.
	DefaultReadTimeout = 30 * time.Second
	maxReadTimeout     = time.Hour
)

// Options of the services. The zero value is ready to use.
type Options struct {
	// MaxWireBytes is the greatest export request as it is sent, and MaxMessageBytes without its compression: 1 KB to
	// MaxMessageBytesLimit. Together they are at most three quarters of MaxBufferedBytes, which leaves room to decode a
	// request of that size. Exporters drop a batch that is refused for its size, so the defaults are above what SDKs and
	// Collectors send: DefaultMaxWireBytes and DefaultMaxMessageBytes, or, if that is less, a quarter and half of
	// MaxBufferedBytes.
	MaxWireBytes, MaxMessageBytes int
	// MaxBufferedBytes bounds the memory that the requests in progress take together, from the first byte on and with what
	// is decoded of them: at least 1 MB. Each call takes its metadata and 256 KB while its message arrives. Above it
	// requests are answered UNAVAILABLE. Default: DefaultMaxBufferedBytes.
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
	between := func(name string, v, low, high int) {
		if v != 0 && (v < low || v > high) {
			errs = append(errs, fmt.Errorf("otlpgrpc: Options.%s is %d, must be between %d and %d, or 0 for the default", name, v, low, high))
		}
	}
	between("MaxWireBytes", o.MaxWireBytes, 1<<10, MaxMessageBytesLimit)
	between("MaxMessageBytes", o.MaxMessageBytes, 1<<10, MaxMessageBytesLimit)
	between("MaxBufferedBytes", o.MaxBufferedBytes, 1<<20, math.MaxInt)
	if d := o.withDefaults(); d.MaxWireBytes+d.MaxMessageBytes > d.MaxBufferedBytes/4*3 {
		errs = append(errs, fmt.Errorf("otlpgrpc: Options.MaxWireBytes (%d) and MaxMessageBytes (%d) are together more than three quarters "+
			"of MaxBufferedBytes (%d)", d.MaxWireBytes, d.MaxMessageBytes, d.MaxBufferedBytes))
	}
	if o.ReadTimeout < 0 || o.ReadTimeout > maxReadTimeout {
		errs = append(errs, fmt.Errorf("otlpgrpc: Options.ReadTimeout is %v, must be at most %v, or 0 for the default", o.ReadTimeout, maxReadTimeout))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.MaxBufferedBytes = cmp.Or(o.MaxBufferedBytes, DefaultMaxBufferedBytes)
	o.MaxWireBytes = cmp.Or(o.MaxWireBytes, min(DefaultMaxWireBytes, o.MaxBufferedBytes/4))
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, min(DefaultMaxMessageBytes, o.MaxBufferedBytes/2))
	o.ReadTimeout = cmp.Or(o.ReadTimeout, DefaultReadTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}
