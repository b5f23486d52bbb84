package forebay

import (
	"context"

	"github.com/forebay/forebay/buffer"
)

// ReceiveQuarantine copies the quarantines of another engine to this one, as the first of three steps in which they move: see
// [buffer.Buffer.ReceiveRejected]. The caller lets nothing change the quarantines of the other engine until EndArrival. It returns the number of records.
func (e *Engine) ReceiveQuarantine(ctx context.Context, other *Engine, by buffer.Mover) (records int, err error) {
	var from *buffer.Buffer
	if other != nil {
		from = other.buf
	}
	return e.buf.ReceiveRejected(ctx, from, by)
}

// Arrivals returns the records for which EndArrival was not called yet.
func (e *Engine) Arrivals() []buffer.Arrival { return e.buf.Arrivals() }

// EndArrival ends the move of the quarantines of an instance: see [buffer.Buffer.EndArrival].
func (e *Engine) EndArrival(ctx context.Context, instance string, accept bool) error {
	return e.buf.EndArrival(ctx, instance, accept)
}
