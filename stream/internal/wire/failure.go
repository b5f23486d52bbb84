package wire

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/intake"
)

// Failure returns the response for an error of the engine or the intake that concerns the whole request. what is "event" or
// "batch". Ingestion over HTTP and over gRPC both respond by this table. An error that is not in it is a fault of the service.
// The response has it as its Cause.
func (p Prefix) Failure(err error, what string) *Error {
	var (
		overload *buffer.OverloadError
		failed   *buffer.FailedError
		fenced   *buffer.FencedError
		unknown  *buffer.UnknownError
		tooLarge *buffer.TooLargeError
	)
	later := func(name string, after time.Duration, format string, args ...any) *Error {
		return p.Errorf(http.StatusServiceUnavailable, name, format, args...).Retry(max(after, time.Second))
	}
	switch {
	case errors.As(err, &unknown) && !errors.As(err, &failed) && !errors.As(err, &fenced):
		return later("noPipelineReady", 0, "The %s was not stored in time. It is unknown whether it will be. Send it again, with the same "+
			"Idempotency-Key if it has one.", what)
	case errors.As(err, &overload) && overload.Volume != "":
		return later("overloaded", overload.RetryAfter, "The disk of the server is full. Send the %s again later.", what)
	case errors.As(err, &overload):
		return later("overloaded", overload.RetryAfter, "The bound of the %s is reached. Send the %s again later.", overload.Resource, what)
	case errors.As(err, &failed): // the buffer logs it, once
		return later("noPipelineReady", ReopenRetryAfter, "The local disk cannot be written. It is unknown whether the %s was stored. Send it again later.", what)
	case errors.As(err, &fenced): // a balancer sends the next attempt to another node
		return later("noPipelineReady", ReopenRetryAfter, "Another node has taken over from this one. It is unknown whether the %s was stored. Send it again.", what)
	case errors.As(err, &tooLarge):
		return p.Errorf(http.StatusRequestEntityTooLarge, "payloadTooLarge",
			"The rows of all sinks together have %d bytes, at most %d are taken at once.", tooLarge.Size, tooLarge.Limit)
	case errors.Is(err, forebay.ErrKeyUnclear): // a node is lost, and another one takes over from it
		return later("noPipelineReady", ReopenRetryAfter, "The %s was not stored, because another node may have stored it. Send it again later, with "+
			"the same Idempotency-Key.", what)
	case errors.Is(err, intake.ErrBusy):
		return later("overloaded", 0, "Too many requests are in progress. Send the %s again later.", what).leaveBody()
	case errors.Is(err, forebay.ErrClosed):
		return later("shutdown", 0, "The service is stopping. Send the %s again.", what)
	case errors.Is(err, context.DeadlineExceeded):
		return later("overloaded", 0, "The %s was not stored: its turn did not come in time. Send it again.", what)
	}
	e := p.Errorf(http.StatusInternalServerError, "genericError",
		"Internal error. Send the %s again later; if it fails again, quote the exception id to the operator.", what)
	e.Cause = err
	return e
}
