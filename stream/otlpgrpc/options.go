package otlpgrpc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/forebay/forebay/internal/otlp"

	"github.com/forebay/forebay/driverkit/warnlog"
)

// Options of the services. The zero value is ready to use.
type Options struct {
	// MaxWireBytes is the greatest export request as it is sent, and MaxMessageBytes without its compression: 1 KB to 1 GB.
	// Together they are at most three quarters of MaxBufferedBytes, as stream.Options.MaxExportWireBytes and MaxExportBytes,
	// with the same defaults.
	MaxWireBytes, MaxMessageBytes int
	// MaxBufferedBytes bounds the memory that the requests in progress take together, from the first byte on and including
	// decoded data. It is at least 1 MB. Each call takes its metadata and 256 KB while its message arrives. Above it
	// requests get UNAVAILABLE. Default: 256 MB.
	MaxBufferedBytes int
	// ReadTimeout bounds the time from the headers of a request until its whole message is there, at most an hour. A request
	// that takes longer gets UNAVAILABLE. Default: 30 s.
	ReadTimeout time.Duration
	// HiddenHeaders are names of metadata, in any case, that mappings do not see. They never see authorization.
	// Default: none.
	HiddenHeaders []string
	// BatchWindow is how long a batch without the metadata idempotency-key whose response may not have arrived is remembered, as
	// stream.Options.BatchWindow, and with the same default. If it is negative, batches are not compared, and each is stored.
	BatchWindow time.Duration
	// Logger gets the failures of the service itself. Secrets and records are not logged.
	// Default: warnings and errors go to [slog.Default]. [slog.DiscardHandler] silences them.
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
	between("MaxWireBytes", o.MaxWireBytes, 1<<10, otlp.MaxLimit)
	between("MaxMessageBytes", o.MaxMessageBytes, 1<<10, otlp.MaxLimit)
	between("MaxBufferedBytes", o.MaxBufferedBytes, 1<<20, math.MaxInt)
	errs = append(errs, o.limits().Check("otlpgrpc", "MaxWireBytes", "MaxMessageBytes"))
	if o.ReadTimeout < 0 || o.ReadTimeout > time.Hour {
		errs = append(errs, fmt.Errorf("otlpgrpc: Options.ReadTimeout is %v, must be at most %v, or 0 for the default", o.ReadTimeout, time.Hour))
	}
	return errors.Join(errs...)
}

func (o Options) limits() otlp.Limits {
	return otlp.Limits{Wire: o.MaxWireBytes, Decoded: o.MaxMessageBytes, Buffered: o.MaxBufferedBytes}
}

func (o Options) withDefaults() Options {
	l := o.limits().WithDefaults()
	o.MaxWireBytes, o.MaxMessageBytes, o.MaxBufferedBytes = l.Wire, l.Decoded, l.Buffered
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 30*time.Second)
	o.Logger = warnlog.Or(o.Logger)
	return o
}
