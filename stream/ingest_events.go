package stream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/mapping"
)

// serveEvents stores the events of a request whose body is taken apart, or whose key tells that it may have been sent
// before. There is one durable wait and one answer for all of them.
func (h *ingestHandler) serveEvents(
	ctx context.Context, w http.ResponseWriter, r *http.Request, requestID string, src forebay.Source, q *ingestRequest,
) *apiError {
	recs := []*mapping.Record{&q.rec}
	if src.Split != forebay.SplitNone {
		var e *apiError
		if recs, e = q.events.split(src.Split, q.rec.Body, &q.rec); e != nil {
			return e
		}
	}
	results, e, err := h.store(ctx, r, src, q.rec.Body, recs)
	if e != nil {
		return e
	}
	if results == nil && err != nil {
		return ingestError(err, r.Header.Get("Content-Type"))
	}
	if src.Split == forebay.SplitNone {
		h.writeResult(w, r, requestID, src.ID, results[0])
		return nil
	}
	h.writeEvents(w, r, requestID, src.ID, results)
	return nil
}

// store stores the events of a request. With a key it stores what earlier requests with the key have not.
func (h *ingestHandler) store(
	ctx context.Context, r *http.Request, src forebay.Source, body []byte, recs []*mapping.Record,
) ([]forebay.Result, *apiError, error) {
	// Another source can get the id of one that was deleted, and must not inherit what that one has stored. How bodies are
	// taken apart gives the events their places.
	key, err := callkey.Of(r.Header[callkey.Header], "event", src.Secret, string(src.Split))
	if err != nil {
		return nil, badKey, nil
	}
	if key == "" {
		results, err := h.eng.IngestBatch(ctx, src.ID, recs)
		return results, nil, err
	}
	if body == nil {
		body = []byte{} // an empty body is not the same as any body
	}
	results, err := h.eng.IngestOnce(ctx, src.ID, forebay.Once{Key: key, Content: body}, recs)
	return results, nil, err
}

// eventResult is the outcome of one event that not every sink has taken.
type eventResult struct {
	Index      int          `json:"index"`
	StatusCode int          `json:"statusCode"`
	Error      string       `json:"error"`
	Message    string       `json:"message"`
	Sinks      []sinkResult `json:"sinks"`
}

// eventsBody is the answer to a request with several events.
type eventsBody struct {
	StatusCode  int    `json:"statusCode"`
	Error       string `json:"error,omitempty"`
	Message     string `json:"message"`
	ExceptionID string `json:"exceptionId,omitempty"`
	ProjectID   int    `json:"projectId"`
	SourceID    string `json:"sourceId"`
	BranchID    int    `json:"branchId"`
	Events      int    `json:"events"`
	// Failed are the events that not every sink has taken, at most maxFailed of them.
	Failed []eventResult `json:"failed,omitempty"`
}

// maxFailed bounds the events that an answer names.
const maxFailed = 100

// writeEvents answers a request with several events. Its status is the highest of all events and sinks.
func (h *ingestHandler) writeEvents(w http.ResponseWriter, r *http.Request, requestID, source string, results []forebay.Result) {
	out := eventsBody{
		StatusCode: http.StatusOK, ProjectID: h.opts.ProjectID, BranchID: h.opts.BranchID, SourceID: source, Events: len(results),
	}
	failed := 0
	dropped := len(results) > 0
	var retryAfter time.Duration
	logged := map[string]bool{} // one line a sink and error, not one an event
	for i, res := range results {
		dropped = dropped && len(res.Sinks) == 0
		status, ok := accepted(res)
		if ok {
			out.StatusCode = max(out.StatusCode, status)
			continue
		}
		failed++
		ev := eventResult{Index: i, Error: writeFailed}
		for _, s := range res.Sinks {
			sink, e := newSinkResult(s, r.Header.Get("Content-Type"))
			if e != nil {
				retryAfter = max(retryAfter, e.retryAfter)
				if e.status >= http.StatusInternalServerError {
					out.ExceptionID = exceptionPrefix + requestID
				}
				if at := s.Sink + " " + e.name; !logged[at] {
					logged[at] = true
					logFault(r, h.opts.Logger, requestID, e, slog.String("source", source), slog.String("sink", s.Sink))
				}
			}
			ev.StatusCode = max(ev.StatusCode, sink.StatusCode)
			ev.Sinks = append(ev.Sinks, sink)
		}
		slices.SortFunc(ev.Sinks, func(a, b sinkResult) int { return cmp.Compare(a.SinkID, b.SinkID) })
		ev.Message = fmt.Sprintf("%d/%d sinks written", written(res), len(res.Sinks))
		out.StatusCode = max(out.StatusCode, ev.StatusCode)
		if len(out.Failed) < maxFailed {
			out.Failed = append(out.Failed, ev)
		}
	}
	if dropped {
		w.Header()[warningField] = noSinkWarning
	}
	if replayed(results...) {
		w.Header()[replayedField] = replayedValue
	}
	if failed == 0 && r.URL.Query().Get("verbose") != "true" {
		writeOK(w, out.StatusCode)
		return
	}
	switch {
	case failed > 0:
		out.Error = writeFailed
		out.Message = fmt.Sprintf("%d/%d events written by all sinks", len(results)-failed, len(results))
	case dropped:
		out.Message = fmt.Sprintf("no enabled sink, %d events were dropped", len(results))
	default:
		out.Message = fmt.Sprintf("%d/%d events written", len(results), len(results))
	}
	setRetryAfter(w.Header(), retryAfter)
	writeJSON(w, out.StatusCode, out)
}

// written is the number of sinks that have the row.
func written(res forebay.Result) int {
	n := 0
	for _, s := range res.Sinks {
		if s.Status == forebay.Stored || s.Status == forebay.Queued {
			n++
		}
	}
	return n
}

// newSinkResult returns the outcome at one sink for an answer, and the error behind it if there is one.
func newSinkResult(s forebay.SinkResult, contentType string) (sinkResult, *apiError) {
	out := sinkResult{SinkID: s.Sink}
	switch s.Status {
	case forebay.Stored:
		out.StatusCode, out.Message = http.StatusOK, "processed"
	case forebay.Queued:
		out.StatusCode, out.Message = http.StatusAccepted, "accepted"
	default:
		e := ingestError(s.Err, contentType)
		out.StatusCode, out.Error, out.Message = e.status, e.name, e.message
		return out, e
	}
	return out, nil
}
