package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

// ingestError returns the response for err, which the engine returned for a record or for one sink. contentType is the
// request's. The package documentation lists the responses. Those shared with gRPC are in [wire.Prefix.Failure].
func ingestError(err error, contentType string) *wire.Error {
	var (
		mapped   *mapping.Error
		tooLarge *forebay.RowTooLargeError
		unknown  *buffer.UnknownError
	)
	switch {
	case errors.As(err, &mapped):
		switch {
		case mapped.Reason == mapping.UnsupportedBody:
			return names.Errorf(http.StatusUnsupportedMediaType, "unsupportedMediaType", "%v", mapped)
		case mapped.Reason == mapping.InvalidBody && mapping.FormatOf(contentType) == mapping.FormatForm:
			return names.Errorf(http.StatusBadRequest, "badRequest", "%v", mapped)
		}
		return names.Errorf(http.StatusUnprocessableEntity, "unprocessableContent", "%v", mapped)
	case errors.As(err, &tooLarge):
		return names.Errorf(http.StatusRequestEntityTooLarge, "payloadTooLarge", "%v", tooLarge)
	case errors.Is(err, forebay.ErrOtherContent):
		return names.Errorf(http.StatusUnprocessableEntity, "unprocessableContent",
			"The Idempotency-Key was used for another body. Nothing was stored.")
	case errors.Is(err, forebay.ErrUnknownSource):
		return noSourceFound
	case errors.Is(err, forebay.ErrDisabledSource):
		return disabledSource
	case errors.Is(err, context.Canceled) && !errors.As(err, &unknown):
		return names.ClientGone()
	}
	return names.Failure(err, "event")
}

// partResult is the result of a part of a request, in the response.
type partResult struct {
	StatusCode int    `json:"statusCode"`
	Error      string `json:"error,omitempty"`
	Message    string `json:"message"`
}

type sinkResult struct {
	SinkID string `json:"sinkId"`
	partResult
}

type sourceResult struct {
	ProjectID int    `json:"projectId"`
	SourceID  string `json:"sourceId"`
	BranchID  int    `json:"branchId"`
	partResult
	Sinks []sinkResult `json:"sinks,omitempty"`
}

// resultBody is the body of a response that has the outcome per sink.
type resultBody struct {
	partResult
	ExceptionID string         `json:"exceptionId,omitempty"`
	Sources     []sourceResult `json:"sources,omitempty"`
}

// eventResult is the outcome of one event that not every sink has taken.
type eventResult struct {
	Index int `json:"index"`
	partResult
	Sinks []sinkResult `json:"sinks"`
}

// eventsBody is the response to a request with several events.
type eventsBody struct {
	partResult
	ExceptionID string `json:"exceptionId,omitempty"`
	ProjectID   int    `json:"projectId"`
	SourceID    string `json:"sourceId"`
	BranchID    int    `json:"branchId"`
	Events      int    `json:"events"`
	// Failed has the events that not every sink has taken, at most maxFailed.
	Failed []eventResult `json:"failed,omitempty"`
	// Quarantined has the events that every sink has taken, some into its quarantine, at most maxFailed.
	Quarantined []eventResult `json:"quarantined,omitempty"`
}

// maxFailed bounds the events that a response names.
const maxFailed = 100

const (
	writeFailed = "stream.in.writeFailed"
	// replayedField marks the response to a request whose rows an earlier one with the same key had stored already.
	replayedField = "Idempotent-Replayed"
)

var (
	textType      = []string{"text/plain; charset=utf-8"}
	okLength      = []string{"2"}
	noSinkWarning = []string{"no enabled sink, the event was dropped"}
	replayedValue = []string{"true"}
)

// response writes the outcome of the events of one request.
type response struct {
	h                 *handler
	w                 http.ResponseWriter
	r                 *http.Request
	requestID, source string

	// retryAfter and exceptionID cover all sinks that were added.
	retryAfter  time.Duration
	exceptionID string
	logged      map[string]bool // by sink and error, one line each, not one per event
}

func (a *response) contentType() string { return a.r.Header.Get("Content-Type") }

func (a *response) verbose() bool {
	return a.r.URL.RawQuery != "" && a.r.URL.Query().Get("verbose") == "true"
}

// mark sets the headers that do not depend on verbose.
func (a *response) mark(dropped bool, results ...forebay.Result) {
	if dropped {
		a.w.Header()[wire.WarningField] = noSinkWarning
	}
	if replayed(results...) {
		a.w.Header()[replayedField] = replayedValue
	}
}

// add returns the outcome of one event at its sinks, by sink id, with the highest status and a summary.
func (a *response) add(res forebay.Result) (sinks []sinkResult, status int, summary string) {
	status = http.StatusOK
	sinks = make([]sinkResult, 0, len(res.Sinks))
	written, aside := 0, 0
	for _, s := range res.Sinks {
		out := sinkResult{SinkID: s.Sink}
		switch s.Status {
		case forebay.Stored:
			out.StatusCode, out.Message = http.StatusOK, "processed"
			written++
		case forebay.Queued:
			out.StatusCode, out.Message = http.StatusAccepted, "accepted"
			written++
		case forebay.Quarantined:
			out.StatusCode, out.Message = http.StatusOK, "quarantined"
			if s.Err != nil {
				out.Message += ": " + s.Err.Error()
			}
			aside++
		default:
			e := ingestError(s.Err, a.contentType())
			out.StatusCode, out.Error, out.Message = e.Status, e.Name, e.Message
			a.retryAfter = max(a.retryAfter, e.RetryAfter)
			if e.Status >= http.StatusInternalServerError {
				a.exceptionID = wire.ExceptionID(a.requestID)
			}
			if at := s.Sink + " " + e.Name; !a.logged[at] {
				if a.logged == nil {
					a.logged = map[string]bool{}
				}
				a.logged[at] = true
				wire.LogFault(a.r, a.h.opts.Logger, a.requestID, e, slog.String("source", a.source), slog.String("sink", s.Sink))
			}
		}
		status = max(status, out.StatusCode)
		sinks = append(sinks, out)
	}
	slices.SortFunc(sinks, func(a, b sinkResult) int { return cmp.Compare(a.SinkID, b.SinkID) })
	summary = fmt.Sprintf("%d/%d sinks written", written, len(res.Sinks))
	if aside > 0 {
		summary += fmt.Sprintf(", %d quarantined", aside)
	}
	return sinks, status, summary
}

// writeOne responds to a request with one event.
func (a *response) writeOne(res forebay.Result) {
	dropped := len(res.Sinks) == 0
	a.mark(dropped, res)
	status, ok := accepted(res)
	if ok && !a.verbose() && !quarantined(res) {
		a.writeOK(status)
		return
	}
	out := sourceResult{ProjectID: a.h.opts.ProjectID, SourceID: a.source, BranchID: a.h.opts.BranchID}
	out.Sinks, out.StatusCode, out.Message = a.add(res)
	if dropped {
		out.Message = noSinkWarning[0]
	}
	if !ok {
		out.Error = writeFailed
	}
	wire.SetRetryAfter(a.w.Header(), a.retryAfter)
	wire.WriteJSON(a.w, out.StatusCode, resultBody{out.partResult, a.exceptionID, []sourceResult{out}})
}

// writeMany responds to a request with several events. Its status is the highest of all events and sinks.
func (a *response) writeMany(results []forebay.Result) {
	out := eventsBody{ProjectID: a.h.opts.ProjectID, BranchID: a.h.opts.BranchID, SourceID: a.source, Events: len(results)}
	out.StatusCode = http.StatusOK
	failed, aside := 0, 0
	dropped := len(results) > 0
	for i, res := range results {
		dropped = dropped && len(res.Sinks) == 0
		status, ok := accepted(res)
		if !ok {
			failed++
			ev := eventResult{Index: i}
			ev.Error = writeFailed
			ev.Sinks, ev.StatusCode, ev.Message = a.add(res)
			if status = ev.StatusCode; len(out.Failed) < maxFailed {
				out.Failed = append(out.Failed, ev)
			}
		} else if quarantined(res) {
			if aside++; len(out.Quarantined) < maxFailed {
				ev := eventResult{Index: i}
				ev.Sinks, ev.StatusCode, ev.Message = a.add(res)
				out.Quarantined = append(out.Quarantined, ev)
			}
		}
		out.StatusCode = max(out.StatusCode, status)
	}
	a.mark(dropped, results...)
	switch {
	case failed == 0 && aside == 0 && !a.verbose():
		a.writeOK(out.StatusCode)
		return
	case failed > 0:
		out.Error, out.ExceptionID = writeFailed, a.exceptionID
		out.Message = fmt.Sprintf("%d/%d events written by all sinks", len(results)-failed-aside, len(results))
	case dropped:
		out.Message = fmt.Sprintf("no enabled sink, %d events were dropped", len(results))
	default:
		out.Message = fmt.Sprintf("%d/%d events written", len(results)-aside, len(results))
	}
	if aside > 0 {
		out.Message += fmt.Sprintf(", %d quarantined", aside)
	}
	wire.SetRetryAfter(a.w.Header(), a.retryAfter)
	wire.WriteJSON(a.w, out.StatusCode, out)
}

// writeOK responds for events that every sink has taken.
func (a *response) writeOK(status int) {
	header := a.w.Header()
	header["Content-Type"] = textType
	header["Content-Length"] = okLength
	a.w.WriteHeader(status)
	_, _ = io.WriteString(a.w, "OK") // if the client is gone, the error is of no use
}

// accepted returns the status of a result without a failure: 200, or 202 if some sink has the row in memory only. It
// reports false when a sink has failed.
func accepted(res forebay.Result) (status int, ok bool) {
	status = http.StatusOK
	for i := range res.Sinks {
		switch res.Sinks[i].Status {
		case forebay.Stored, forebay.Quarantined:
		case forebay.Queued:
			status = http.StatusAccepted
		default:
			return 0, false
		}
	}
	return status, true
}

// quarantined reports whether a sink has put the event into its quarantine.
func quarantined(res forebay.Result) bool {
	for i := range res.Sinks {
		if res.Sinks[i].Status == forebay.Quarantined {
			return true
		}
	}
	return false
}

// replayed reports whether an earlier request has stored all rows of a request.
func replayed(results ...forebay.Result) bool {
	rows := 0
	for _, res := range results {
		for _, s := range res.Sinks {
			if !s.Replayed {
				return false
			}
			rows++
		}
	}
	return rows > 0
}
