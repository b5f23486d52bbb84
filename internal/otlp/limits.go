package otlp

import (
	"cmp"
	"fmt"
)

// MaxLimit is the highest bound of an export request in bytes.
const MaxLimit = 1 << 30

// Limits are the bounds of export requests in bytes: Wire for a request as it is sent, Decoded for a request without its compression,
// Buffered for the memory of all requests. Exporters drop a batch that is refused for its size, so the defaults are above what SDKs and
// Collectors send.
type Limits struct{ Wire, Decoded, Buffered int }

// WithDefaults returns the limits without zero fields.
func (l Limits) WithDefaults() Limits {
	l.Buffered = cmp.Or(l.Buffered, 256<<20)
	return Limits{cmp.Or(l.Wire, min(20<<20, l.Buffered/4)), cmp.Or(l.Decoded, min(64<<20, l.Buffered/2)), l.Buffered}
}

// Check returns an error that begins with a package and names the options of Wire and Decoded, when Buffered leaves no room to
// decode a request of that size.
func (l Limits) Check(pkg, wire, decoded string) error {
	if l = l.WithDefaults(); l.Wire+l.Decoded > l.Buffered/4*3 {
		return fmt.Errorf("%s: Options.%s (%d) and %s (%d) are together more than three quarters of MaxBufferedBytes (%d)",
			pkg, wire, l.Wire, decoded, l.Decoded, l.Buffered)
	}
	return nil
}
