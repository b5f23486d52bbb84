package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// supportMessage is the text of a failure that the client can do nothing about.
const supportMessage = "Internal error. Send the event again later; if it fails again, quote the exception id to the operator."

// ingestError gives the answer for err, which an engine returned for a record or for one sink. contentType is that of
// the request. It is the one place where errors of the engine become statuses; the package documentation lists it.
func ingestError(err error, contentType string) *apiError {
	var (
		mapped   *mapping.Error
		overload *buffer.OverloadError
		failed   *buffer.FailedError
		tooLarge *forebay.RowTooLargeError
		tooMany  *buffer.TooLargeError
	)
	switch {
	case errors.As(err, &mapped):
		e := &apiError{status: http.StatusUnprocessableEntity, name: "stream.in.unprocessableContent", message: mapped.Error()}
		switch {
		case mapped.Reason == mapping.UnsupportedBody:
			e.status, e.name = http.StatusUnsupportedMediaType, "stream.in.unsupportedMediaType"
		case mapped.Reason == mapping.InvalidBody && mapping.FormatOf(contentType) == mapping.FormatForm:
			e.status, e.name = http.StatusBadRequest, "stream.in.badRequest"
		}
		return e
	case errors.As(err, &tooLarge):
		return &apiError{
			status: http.StatusRequestEntityTooLarge, name: "stream.in.payloadTooLarge", message: tooLarge.Error(),
		}
	case errors.As(err, &tooMany):
		return &apiError{
			status: http.StatusRequestEntityTooLarge, name: "stream.in.payloadTooLarge",
			message: fmt.Sprintf("The rows of all sinks together have %d bytes, at most %d are taken at once.", tooMany.Size, tooMany.Limit),
		}
	case errors.As(err, &overload):
		return &apiError{
			status: http.StatusServiceUnavailable, name: "stream.in.overloaded", retryAfter: max(overload.RetryAfter, time.Second),
			message: fmt.Sprintf("The bound of the %s is reached. Send the event again later.", overload.Resource),
		}
	case errors.As(err, &failed): // the buffer logs it, once
		return &apiError{
			status: http.StatusServiceUnavailable, name: "stream.in.noPipelineReady", retryAfter: failedRetryAfter,
			message: "The local disk cannot be written. It is unknown whether the event was stored. Send it again later.",
		}
	case errors.Is(err, forebay.ErrClosed):
		return &apiError{
			status: http.StatusServiceUnavailable, name: "stream.in.shutdown", retryAfter: time.Second,
			message: "The service is stopping. Send the event again.",
		}
	case errors.Is(err, forebay.ErrOtherContent):
		return otherBody
	case errors.Is(err, forebay.ErrUnknownSource):
		return noSourceFound
	case errors.Is(err, forebay.ErrDisabledSource):
		return disabledSource
	case errors.Is(err, context.Canceled):
		return clientGone
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{
			status: http.StatusServiceUnavailable, name: "stream.in.noPipelineReady", retryAfter: time.Second,
			message: "The event was not stored in time, it is unknown whether it will be. Send it again.",
		}
	}
	return &apiError{
		status: http.StatusInternalServerError, name: "stream.in.genericError", message: supportMessage, cause: err,
	}
}

// failedRetryAfter leaves time for the local level to be opened again.
const failedRetryAfter = 2 * time.Second

// resultBody is the body of an answer that tells the outcome per sink.
type resultBody struct {
	StatusCode  int            `json:"statusCode"`
	Error       string         `json:"error,omitempty"`
	Message     string         `json:"message"`
	ExceptionID string         `json:"exceptionId,omitempty"`
	Sources     []sourceResult `json:"sources,omitempty"`
}

type sourceResult struct {
	ProjectID  int          `json:"projectId"`
	SourceID   string       `json:"sourceId"`
	BranchID   int          `json:"branchId"`
	StatusCode int          `json:"statusCode"`
	Error      string       `json:"error,omitempty"`
	Message    string       `json:"message"`
	Sinks      []sinkResult `json:"sinks,omitempty"`
}

type sinkResult struct {
	SinkID     string `json:"sinkId"`
	StatusCode int    `json:"statusCode"`
	Error      string `json:"error,omitempty"`
	Message    string `json:"message"`
}

const writeFailed = "stream.in.writeFailed"

// accepted returns the status of a result without a failure: 200, or 202 if the row of a sink is only in memory yet.
// It reports false when a sink has failed.
func accepted(res forebay.Result) (status int, ok bool) {
	status = http.StatusOK
	for i := range res.Sinks {
		switch res.Sinks[i].Status {
		case forebay.Stored:
		case forebay.Queued:
			status = http.StatusAccepted
		default:
			return 0, false
		}
	}
	return status, true
}
