package stream

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/forebay/forebay/internal/otlp"

	"github.com/forebay/forebay/driverkit/warnlog"
)

// Limits of one request.
const (
	// DefaultMaxBodyBytes is the default of Options.MaxBodyBytes.
	DefaultMaxBodyBytes = 1 << 20
	// MaxBodyBytesLimit is the highest Options.MaxBodyBytes.
	MaxBodyBytesLimit = 4 << 20
	// DefaultMaxBufferedBytes is the default of Options.MaxBufferedBytes.
	DefaultMaxBufferedBytes = 256 << 20
)

// Options of the handlers. The zero value is ready to use.
type Options struct {
	// ProjectID and BranchID stand in URLs and responses. An engine has the sources of one branch of one project. A request
	// for another project finds no source. Default: 1.
	ProjectID, BranchID int

	// MaxBodyBytes bounds the body of one request with events: 100 to MaxBodyBytesLimit. Default: DefaultMaxBodyBytes.
	MaxBodyBytes int
	// MaxExportWireBytes bounds a request with telemetry as it is sent, and MaxExportBytes without its Content-Encoding:
	// 100 B to 1 GB. Together they are at most three quarters of MaxBufferedBytes, which leaves room to decode a request of that
	// size. Exporters drop a batch that is refused for its size, so the defaults are above what SDKs and Collectors send: 20 MB
	// and 64 MB or, if that is less, a quarter and half of MaxBufferedBytes.
	MaxExportWireBytes, MaxExportBytes int
	// MaxHeaderBytes bounds the header lines of one request, counted as "Name: value" with the line end. It is 1 KB to 1 MB. The
	// server must accept them, too. See [Server]. Default: 16 KB.
	MaxHeaderBytes int
	// MaxBufferedBytes bounds the memory of all requests in progress, bodies and decoded telemetry. It is at least MaxBodyBytes.
	// Above it requests get 503 with Retry-After. Default: DefaultMaxBufferedBytes.
	MaxBufferedBytes int

	// TrustedProxies are the networks of proxies whose X-Forwarded-For header is believed. Default: none. The sender is the
	// TCP peer and the header is ignored.
	TrustedProxies []netip.Prefix

	// HiddenHeaders are names of headers, in any case, that mappings do not see, for example Authorization and Cookie if
	// they must not end in tables. Default: none.
	HiddenHeaders []string

	// BatchWindow is how long an OTLP batch without an Idempotency-Key whose response may not have arrived is remembered. See
	// [Ingest]. Default: as long as the engine keeps keys, which is 24 h by default. If it is negative,
	// batches are not compared, and each is stored.
	BatchWindow time.Duration

	// Logger gets the failures of the service itself, with the request id of the response, but no secrets and no events.
	// Default: warnings and errors go to [slog.Default]. [slog.DiscardHandler] silences them.
	Logger *slog.Logger

	// hiddenFromTelemetry is HiddenHeaders and Authorization, which may have the secret.
	hiddenFromTelemetry []string
}

// Validate reports every field that is out of its range.
func (o Options) Validate() error {
	var errs []error
	between := func(name string, v, low, high int) {
		if v != 0 && (v < low || v > high) {
			errs = append(errs, fmt.Errorf("stream: Options.%s is %d, must be between %d and %d, or 0 for the default",
				name, v, low, high))
		}
	}
	const unbounded = 1<<31 - 1
	between("ProjectID", o.ProjectID, 1, unbounded)
	between("BranchID", o.BranchID, 1, unbounded)
	between("MaxBodyBytes", o.MaxBodyBytes, 100, MaxBodyBytesLimit)
	between("MaxHeaderBytes", o.MaxHeaderBytes, 1024, 1<<20)
	between("MaxExportWireBytes", o.MaxExportWireBytes, 100, otlp.MaxLimit)
	between("MaxExportBytes", o.MaxExportBytes, 100, otlp.MaxLimit)
	d := o.withDefaults()
	if d.MaxBufferedBytes < d.MaxBodyBytes {
		errs = append(errs, fmt.Errorf("stream: Options.MaxBufferedBytes is %d, must be at least MaxBodyBytes (%d), or 0 "+
			"for the default", o.MaxBufferedBytes, d.MaxBodyBytes))
	}
	errs = append(errs, o.limits().Check("stream", "MaxExportWireBytes", "MaxExportBytes"))
	for i, p := range o.TrustedProxies {
		if !p.IsValid() {
			errs = append(errs, fmt.Errorf("stream: Options.TrustedProxies[%d] is not a network", i))
		} else if p.Addr().Is4In6() {
			errs = append(errs, fmt.Errorf("stream: Options.TrustedProxies[%d] is %s, write it as an IPv4 network", i, p))
		}
	}
	return errors.Join(errs...)
}

func (o Options) limits() otlp.Limits {
	return otlp.Limits{Wire: o.MaxExportWireBytes, Decoded: o.MaxExportBytes, Buffered: o.MaxBufferedBytes}
}

func (o Options) withDefaults() Options {
	l := o.limits().WithDefaults()
	o.MaxExportWireBytes, o.MaxExportBytes, o.MaxBufferedBytes = l.Wire, l.Decoded, l.Buffered
	o.ProjectID, o.BranchID = cmp.Or(o.ProjectID, 1), cmp.Or(o.BranchID, 1)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, DefaultMaxBodyBytes)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, 16<<10)
	o.TrustedProxies = slices.Clone(o.TrustedProxies)
	o.HiddenHeaders = slices.Clone(o.HiddenHeaders)
	for i, name := range o.HiddenHeaders {
		o.HiddenHeaders[i] = http.CanonicalHeaderKey(name)
	}
	o.hiddenFromTelemetry = append(slices.Clone(o.HiddenHeaders), "Authorization")
	o.Logger = warnlog.Or(o.Logger)
	return o
}
