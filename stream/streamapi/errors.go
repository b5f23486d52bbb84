package streamapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/stream/internal/wire"
)

// names is the prefix of the errors of this package.
const names wire.Prefix = "stream.api."

var statusOf = map[catalog.Code]int{
	catalog.BadRequest:            http.StatusBadRequest,
	catalog.Forbidden:             http.StatusForbidden,
	catalog.SourceNotFound:        http.StatusNotFound,
	catalog.SinkNotFound:          http.StatusNotFound,
	catalog.DeletedSourceNotFound: http.StatusNotFound,
	catalog.DeletedSinkNotFound:   http.StatusNotFound,
	catalog.SourceVersionNotFound: http.StatusNotFound,
	catalog.SinkVersionNotFound:   http.StatusNotFound,
	catalog.VersionChanged:        http.StatusConflict,
	catalog.TaskNotFound:          http.StatusNotFound,
	catalog.SourceAlreadyExists:   http.StatusConflict,
	catalog.SinkAlreadyExists:     http.StatusConflict,
	catalog.SourceLimit:           http.StatusConflict,
	catalog.SinkLimit:             http.StatusConflict,
	catalog.FileNotFound:          http.StatusNotFound,
	catalog.ImportRuns:            http.StatusConflict,
	catalog.FileNotHeld:           http.StatusConflict,
	catalog.QuarantineFull:        http.StatusConflict,
	catalog.DamageNotFound:        http.StatusNotFound,
	catalog.RecordNotFound:        http.StatusNotFound,
	catalog.RecordChanged:         http.StatusConflict,
	catalog.SinkDisabled:          http.StatusConflict,
	catalog.ShadowNotFound:        http.StatusNotFound,
	catalog.ShadowRuns:            http.StatusConflict,
	catalog.ShadowLimit:           http.StatusConflict,
	catalog.Busy:                  http.StatusConflict,
}

const (
	// unavailableName is the name of failures that end without the client's help, unavailableAfter their Retry-After.
	unavailableName  = string(names) + "unavailable"
	unavailableAfter = 5 * time.Second
)

// answerTo returns the response for any error of an operation.
func answerTo(err error) *wire.Error {
	var (
		known       *wire.Error
		refused     *catalog.Error
		auth        *AuthError
		unavailable *UnavailableError
		store       *catalog.FailedError
		journal     *catalog.JournalError
		local       *buffer.FailedError
		fenced      *buffer.FencedError
		missing     *catalog.MissingError
		full        *buffer.OverloadError
	)
	var e *wire.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &auth):
		return &wire.Error{Status: auth.Status, Name: auth.Name, Message: auth.Message, ExceptionID: auth.ExceptionID}
	case errors.As(err, &unavailable):
		e = &wire.Error{
			Status: http.StatusServiceUnavailable, Name: cmp.Or(unavailable.Name, unavailableName),
			Message:    cmp.Or(unavailable.Message, "The token cannot be verified now. Send the request again later."),
			RetryAfter: cmp.Or(unavailable.RetryAfter, unavailableAfter), ExceptionID: unavailable.ExceptionID,
		}
	case errors.As(err, &store), errors.As(err, &journal), errors.As(err, &local), errors.As(err, &fenced), errors.Is(err, catalog.ErrChanged):
		e = names.Errorf(http.StatusServiceUnavailable, "unavailable",
			"The definitions cannot be read or written now. Send the request again later.").Retry(unavailableAfter)
	case errors.As(err, &full):
		e = names.Errorf(http.StatusServiceUnavailable, "unavailable",
			"There is no room: a bound of %s is reached. Send the request again later.", full.Resource).Retry(unavailableAfter)
	case errors.As(err, &missing):
		parts := make([]string, len(missing.Missing))
		for i, m := range missing.Missing {
			parts[i] = fmt.Sprintf("%q (%s)", m.Node, m.Reason)
		}
		e = names.Errorf(http.StatusServiceUnavailable, "nodeMissing",
			"Not all nodes have responded: %s. Send the request again later; no node does its part twice.",
			strings.Join(parts, ", ")).Retry(unavailableAfter)
	case errors.As(err, &refused):
		return names.Errorf(statusOf[refused.Code], string(refused.Code), "%s", refused.Message)
	case errors.Is(err, catalog.ErrClosed), errors.Is(err, forebay.ErrClosed):
		return names.Errorf(http.StatusServiceUnavailable, "shutdown", "The service is stopping; send the request again.").Retry(time.Second)
	case errors.Is(err, context.DeadlineExceeded):
		e = names.Errorf(http.StatusRequestTimeout, "internalError",
			"The request took too long. It may have changed something or not: read it before you try again.")
	default:
		e = names.Errorf(http.StatusInternalServerError, "internalError",
			"The request failed for a reason on our side. Please quote the exception id to support.")
	}
	e.Cause = err
	return e
}
