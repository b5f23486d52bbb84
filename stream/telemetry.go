package stream

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/otlp"
	"github.com/forebay/forebay/internal/tracecontext"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

var (
	otlpUnsupportedType = names.Errorf(http.StatusUnsupportedMediaType, "unsupportedMediaType",
		"The Content-Type must be application/x-protobuf or application/json.")
	otlpUnknownSignal = names.Errorf(http.StatusBadRequest, "badRequest",
		"Neither the path nor the first record tells the signal. Append /v1/logs, /v1/metrics or /v1/traces to the path.")
)

// sourceOf finds the source of a request whose path does not name one.
func (h *handler) sourceOf(secret string) (forebay.Source, *wire.Error) {
	src, err := otlp.SourceOf(h.eng.SourcesWithSecret(secret))
	switch {
	case errors.Is(err, otlp.ErrNoSource):
		return src, names.Errorf(http.StatusUnauthorized, "noSourceFound", "%s", otlp.Sentence(err))
	case err != nil:
		return src, names.Errorf(http.StatusBadRequest, "badRequest", "%s", otlp.Sentence(err))
	}
	return src, nil
}

// serveTelemetry stores an export request and responds, as the specification of OTLP says, or returns the error to
// respond with.
func (h *handler) serveTelemetry(w http.ResponseWriter, r *http.Request, id string, target endpoint, src forebay.Source) *wire.Error {
	enc, ok := otlpEncoding(r.Header)
	if !ok {
		wire.LeaveBody(w, r)
		return otlpUnsupportedType
	}
	q := h.requests.Get().(*request)
	mem := &memory{h, q}
	defer mem.release()
	data, e := h.bodies.Read(&q.body, r, h.opts.MaxExportWireBytes, h.opts.MaxExportBytes)
	if e != nil {
		return e
	}
	signal, ok := target.signal, true
	if signal == "" {
		if signal, ok = otlp.Sniff(enc, data); !ok {
			if len(data) > 0 {
				return otlpUnknownSignal
			}
			signal = forebay.SignalLogs // an empty request is of every signal
		}
	}
	headers := headerBytes(r)
	cost, err := otlp.Check(signal, enc, data, headers, h.bodies.Room(&q.body))
	if err != nil {
		return otlpRequestError(err)
	}
	if err := h.bodies.Take(&q.body, cost); err != nil {
		return names.Failure(err, "event")
	}
	docs, n, err := otlp.Decode(signal, enc, data, headers)
	if err != nil {
		return otlpRequestError(err)
	}
	if n == 0 {
		// Unknown fields are ignored, so an empty result is the only sign of a wrong path or a wrong guess.
		if target.signal == "" && len(data) > 0 && enc == otlp.Protobuf {
			return otlpUnknownSignal
		}
		if other, ok := otlp.Sniff(enc, data); ok && other != signal && enc == otlp.JSON {
			return names.Errorf(http.StatusBadRequest, "badRequest",
				"The request has %s, but the path is for %s. Post it to /v1/%s.", other, signal, other)
		}
	}
	sum := otlp.SumOf(data)
	h.bodies.Drop(&q.body) // decoding made its own copy

	request := mapping.Record{
		Request:  mapping.RequestLine{Method: r.Method, Path: target.shown, Query: r.URL.RawQuery},
		ClientIP: wire.ClientIP(r, h.opts.TrustedProxies), Received: time.Now(),
	}
	request.Header, request.Host = q.fields(r, h.opts.hiddenFromTelemetry)
	ctx := h.deadlines.From(request.Received)
	if h.traced {
		ctx = tracecontext.Of(ctx, r.Context(), r.Header.Values)
	}
	once, err := otlp.Once(&otlp.Request{
		Signal: signal, Encoding: enc, Keys: r.Header[callkey.Header],
		Header: request.Header, Sum: sum, Received: request.Received, Window: h.opts.BatchWindow,
	}, docs)
	if err != nil {
		return badKey
	}
	records := otlp.Records(&q.rec, docs, request)
	// The turn of the batch lasts until the response is written. See [otlp.Once].
	var turn forebay.Turn
	defer turn.End(false)
	if otlp.Nameless(once) {
		once.Turn = &turn
	}
	res, err := h.eng.IngestAtomic(ctx, src.ID, forebay.Batch{Signal: signal, Records: records, Once: once})
	if errors.Is(err, forebay.ErrDisabledSource) {
		return otlpPausedSource
	}
	if err != nil {
		return ingestError(err, "")
	}
	message := otlp.Summary(signal, res)
	if res.Rejected > 0 && res.Rejected == res.Records {
		e := *ingestError(res.First.Err, "")
		e.Message = message
		there := r.Context().Err() == nil
		h.writeTelemetryError(w, r, id, &e) // other sinks may have the records
		turn.End(there && written(w))
		return nil
	}
	q.answer = otlp.AppendResponse(q.answer[:0], signal, enc, otlp.Rejected(res), message)
	header := w.Header()
	if res.Replayed > 0 && res.Replayed == res.Records {
		header[replayedField] = replayedValue
	}
	header["Content-Type"] = otlpTypes[enc]
	header["Content-Length"] = []string{strconv.Itoa(len(q.answer))}
	// This is read before the write, because a client that has its response may leave at once.
	there := r.Context().Err() == nil
	w.WriteHeader(http.StatusOK)
	_, err = w.Write(q.answer)
	if once.Turn != nil {
		turn.End(there && err == nil && written(w))
	}
	return nil
}

// written flushes a response and reports whether that succeeded. Below a middleware without Flush the response is written when the handler
// has returned.
func written(w http.ResponseWriter) bool {
	err := http.NewResponseController(w).Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

func otlpRequestError(err error) *wire.Error {
	if _, tooMuch := errors.AsType[*otlp.TooExpensiveError](err); tooMuch {
		return names.Errorf(http.StatusRequestEntityTooLarge, "bodyTooLarge", "%s", otlp.Sentence(err))
	}
	return names.Errorf(http.StatusBadRequest, "badRequest", "%s", otlp.Sentence(err))
}

const protobufType = "application/x-protobuf"

var otlpTypes = [...][]string{otlp.Protobuf: {protobufType}, otlp.JSON: {"application/json"}}

// otlpEncoding reads the Content-Type of a request. It returns JSON and false for an unsupported one. Errors are then
// written in JSON.
func otlpEncoding(header http.Header) (otlp.Encoding, bool) {
	contentType := header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil { // parameters do not matter, not even malformed ones
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	switch media {
	case protobufType, "application/protobuf":
		return otlp.Protobuf, true
	case "application/json":
		return otlp.JSON, true
	}
	return otlp.JSON, false
}

// writeTelemetryError responds with a google.rpc.Status in the encoding of the request. Exporters repeat a batch after 503
// but, unlike other clients, neither after 408 nor after 500, so every failure that a retry can cure becomes a 503.
func (h *handler) writeTelemetryError(w http.ResponseWriter, r *http.Request, requestID string, e *wire.Error) {
	if e.Status == http.StatusRequestTimeout || e.Status >= http.StatusInternalServerError {
		c := *e
		c.Status, c.RetryAfter = http.StatusServiceUnavailable, max(e.RetryAfter, time.Second)
		e = &c
	}
	wire.LogFault(r, h.opts.Logger, requestID, e)
	wire.SetRetryAfter(w.Header(), e.RetryAfter)
	if e.Status == http.StatusUnauthorized {
		w.Header()["Www-Authenticate"] = []string{"Bearer"}
	}
	code := otlp.Code(e.Status)
	if enc, _ := otlpEncoding(r.Header); enc == otlp.Protobuf {
		w.Header()["Content-Type"] = otlpTypes[enc]
		w.WriteHeader(e.Status)
		_, _ = w.Write(otlp.AppendStatus(nil, code, e.Message)) // as above
		return
	}
	wire.WriteJSON(w, e.Status, struct {
		Code uint32 `json:"code"`
		wire.ErrorBody
	}{code, e.Body(requestID)})
}
