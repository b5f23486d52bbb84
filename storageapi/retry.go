package storageapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// statusFault classifies a response, with the statuses of the package comment.
func statusFault(e *Error) fault {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusLocked:
		return faultRefused
	case http.StatusConflict:
		if hasSuffixFold(e.Code, "versionConflict") {
			return faultRefused
		}
		return faultUnknown
	case http.StatusRequestTimeout:
		return faultUnknown
	case http.StatusNotImplemented:
		return faultFinal
	}
	if e.Status >= 500 {
		return faultUnknown
	}
	return faultFinal
}

// networkFault classifies an error without a response. An unknown host and the end of the context are final.
// Without a connection the server has not seen the call.
func networkFault(err error) fault {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return faultFinal
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return faultFinal
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return faultRefused
	}
	return faultUnknown
}

// retry runs attempts until one succeeds, one is final, or the bounds are reached. It returns the last error.
func (c *Client) retry(ctx context.Context, method, path string, attempt func() (fault, error)) error {
	o := c.opts.Retry
	delays := backoff.ExponentialBackOff{InitialInterval: o.Initial, MaxInterval: o.Max, Multiplier: 2, RandomizationFactor: 0.5}
	delays.Reset()
	begin := time.Now()
	for n := 1; ; n++ {
		f, err := attempt()
		if err == nil || f == faultFinal || n >= o.Attempts || ctx.Err() != nil {
			return err
		}
		delay := delays.NextBackOff()
		if e, ok := errors.AsType[*Error](err); ok {
			delay = max(delay, e.RetryAfter)
		}
		if time.Since(begin)+delay > o.MaxElapsed {
			return err
		}
		c.opts.Logger.DebugContext(ctx, "storage api: call is repeated", "method", method, "path", path, "attempt", n+1, "delay", delay, "error", err)
		if ctxio.Sleep(ctx, delay) != nil {
			return err
		}
	}
}
