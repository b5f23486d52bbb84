package natsdriver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The error codes that this driver acts on and that the client does not name.
const (
	codeStore   jetstream.ErrorCode = 10077 // maximum bytes exceeded, or any other reason not to store a message
	codeStorage jetstream.ErrorCode = 10047 // the server has no room for a larger reservation
	codePartial jetstream.ErrorCode = 10176 // a message of a batch has not arrived
	codeNoPlace jetstream.ErrorCode = 10005 // no suitable peers, for example while the servers of a new cluster meet
)

// code is the code of a server's error response, or 0.
func code(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// wrongLast reports whether a server refused a write because something else was written before. A replicated stream has the second
// code for a comparison with a write that is in progress.
func wrongLast(err error) bool {
	c := code(err)
	return c == jetstream.JSErrCodeStreamWrongLastSequence || c == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// failure adds the error of package changelog that says what to do about the error of an append. full says whether the stream is full.
func failure(err error, full func() bool) error {
	for _, known := range []error{changelog.ErrFull, changelog.ErrFenced, changelog.ErrHole, changelog.ErrMissing} {
		if errors.Is(err, known) {
			return err
		}
	}
	if code(err) == codeStore && full() {
		return fmt.Errorf("%w: %w", changelog.ErrFull, err)
	}
	return fmt.Errorf("%w: %w", changelog.ErrUnknown, err)
}

// full reports whether the leader refuses records for the bound of the stream, after it was raised as far as possible.
func (l *Log) full(ctx context.Context, stream jetstream.Stream) bool {
	info, err := l.info(ctx, stream, 0)
	if err == nil {
		info, _ = l.reserve(ctx, stream, info, 0, false)
	}
	return err == nil && bound(info) < int64(info.State.Bytes)+changelog.PartBytes+maxHeaders
}

// missing adds [changelog.ErrMissing] to an error that there is no such stream.
func missing(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("%w: %w", changelog.ErrMissing, err)
	}
	return err
}

// The first of several requests waits for its response for firstAttempt, each later one for half as long again, up to attempt. A request that arrives
// while a leader is elected gets no response, and the next one finds the new leader. The attempts end after 2, 5 and 9.5 s, and an
// election takes 4 to 9 s. A slow network needs the long ones.
const (
	firstAttempt = 2 * time.Second
	attempt      = 5 * time.Second
)

// withRetries repeats a request until a server responds. While a leader is elected, or right after a stream was created, there may
// be no server to respond. Only requests that may be carried out twice are repeated.
func withRetries[T any](ctx context.Context, o calls, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var last error
	wait := firstAttempt
	result, err := backoff.Retry(ctx, func() (T, error) {
		ctx, cancel := o.elections.bound(ctx, "", wait)
		defer cancel()
		wait = min(wait*3/2, attempt)
		result, err := request(ctx)
		if err != nil && refused(err) {
			return result, backoff.Permanent(err)
		}
		last = err
		return result, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: 10 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Second,
	}))
	if err != nil && ctx.Err() != nil && last != nil && !errors.Is(last, err) {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return result, err
}

// refused reports whether a server has refused, so that the same request would be refused again.
func refused(err error) bool {
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, nats.ErrConnectionClosed) || code(err) == codeStore || code(err) == codeStorage { // with the status 503
		return true
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code >= 400 && api.Code < 429 && api.ErrorCode != codeNoPlace && api.ErrorCode != codePartial
}
