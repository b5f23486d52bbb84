package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/deadline"
	"github.com/forebay/forebay/internal/intake"
	"github.com/forebay/forebay/internal/otlp"
	"github.com/forebay/forebay/mapping"
)

// telemetryEngine is what the OTLP endpoints need of a [forebay.Engine].
type telemetryEngine interface {
	SourceWithSecret(id, secret string) (forebay.Source, bool)
	SourcesWithSecret(secret string) []forebay.Source
	IngestAtomic(ctx context.Context, source string, b forebay.Batch) (forebay.BatchResult, error)
}

// otlpHandler takes export requests over HTTP, as the specification of OTLP says, for the OTLP sources of an engine.
type otlpHandler struct {
	eng       telemetryEngine
	opts      Options
	bodies    bodies
	deadlines *deadline.Shared
	// requests holds *otlpRequest.
	requests sync.Pool
}

// otlpRequest is the reusable memory of one request.
type otlpRequest struct {
	rec    mapping.Record
	buffer intake.Body
	header http.Header
	host   [1]string
	answer []byte
}

// newOTLPHandler takes options that are valid and have their defaults.
func newOTLPHandler(eng telemetryEngine, opts Options, b bodies, d *deadline.Shared) *otlpHandler {
	h := &otlpHandler{eng: eng, opts: opts, bodies: b, deadlines: d}
	h.requests.New = func() any { return &otlpRequest{header: make(http.Header, 16)} }
	return h
}

func (h *otlpHandler) release(q *otlpRequest) {
	q.rec.Reset()
	clear(q.header)
	q.host[0] = ""
	if q.buffer.Reuse() {
		h.requests.Put(q)
	}
}

var (
	otlpRouteNotFound = &apiError{
		status: http.StatusNotFound, name: "stream.in.routeNotFound",
		message: "Not found. Telemetry is posted to /otlp/{projectId}/{sourceId}/{secret}/v1/logs, /v1/metrics or /v1/traces; the " +
			"secret may be sent as bearer token instead, also to /v1/logs, /v1/metrics and /v1/traces alone.",
	}
	otlpNoProfiles       = &apiError{status: http.StatusNotFound, name: "stream.in.routeNotFound", message: otlp.NoProfiles}
	otlpMethodNotAllowed = &apiError{
		status: http.StatusMethodNotAllowed, name: "stream.in.methodNotAllowed", message: "Telemetry is sent with POST.",
	}
	otlpUnsupportedType = &apiError{
		status: http.StatusUnsupportedMediaType, name: "stream.in.unsupportedMediaType",
		message: "The Content-Type must be application/x-protobuf or application/json.",
	}
	otlpUnknownSignal = &apiError{
		status: http.StatusBadRequest, name: "stream.in.badRequest",
		message: "Neither the path nor the first record tells the signal. Append /v1/logs, /v1/metrics or /v1/traces to the path.",
	}
)

// bearerChallenge is the header of every 401.
var bearerChallenge = []string{"Bearer"}

// otlpHeaders are the headers that a page of another origin may send. The wildcard does not stand for Authorization.
var otlpHeaders = []string{"Authorization, *"}

// otlpPausedSource is retryable, unlike the answer to an event: an exporter keeps its batches for a source that is disabled for
// a while, and would drop them after any other answer.
var otlpPausedSource = &apiError{
	status: http.StatusServiceUnavailable, name: "stream.in.disabledSource", retryAfter: otlp.PausedRetryAfter,
	message: "The source is disabled. Send the batch again later.",
}

func otlpOtherSignal(address, body forebay.Signal) *apiError {
	return &apiError{
		status: http.StatusBadRequest, name: "stream.in.badRequest",
		message: fmt.Sprintf("The request has %s, but the path is that of %s. Post it to /v1/%s.", body, address, body),
	}
}

func (h *otlpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := setCommonHeaders(w.Header())
	enc, err := otlpEncoding(r.Header)
	if e := h.serve(w, r, enc, err); e != nil {
		if e.unread {
			leaveBody(w, r)
		}
		h.writeError(w, r, requestID, enc, e.retriable())
	}
}

// serve answers the request, or returns the error to answer it with. Nothing is read of the body before the secret has
// been checked. encErr tells that the Content-Type is not one of OTLP.
func (h *otlpHandler) serve(w http.ResponseWriter, r *http.Request, enc otlp.Encoding, encErr *apiError) *apiError {
	path := r.URL.EscapedPath()
	if isProfiles(path) {
		leaveBody(w, r)
		return otlpNoProfiles
	}
	target, ok := parseOTLPEndpoint(path)
	if !ok {
		leaveBody(w, r)
		return otlpRouteNotFound
	}
	if r.Method == http.MethodOptions {
		leaveBody(w, r)
		writePreflight(w, otlpHeaders)
		return nil
	}
	if e := h.admit(w, r, &target); e != nil {
		leaveBody(w, r)
		return e
	}
	if encErr != nil {
		leaveBody(w, r)
		return encErr
	}
	q := h.requests.Get().(*otlpRequest)
	defer h.release(q)
	defer h.bodies.Release(&q.buffer)
	data, e := h.bodies.read(&q.buffer, r, bodyLimits{h.opts.MaxExportWireBytes, h.opts.MaxExportBytes})
	if e != nil {
		return e
	}
	return h.export(w, r, q, target, enc, data)
}

// admit refuses what is known to be wrong before the body is read.
func (h *otlpHandler) admit(w http.ResponseWriter, r *http.Request, target *otlpEndpoint) *apiError {
	if r.Method != http.MethodPost {
		w.Header()["Allow"] = ingestMethods
		return otlpMethodNotAllowed
	}
	project, ok := projectID(target.project)
	if !ok && !target.plain {
		return badProjectID
	}
	if e := checkHeaders(r, h.opts.MaxHeaderBytes); e != nil {
		return e
	}
	if target.secret == "" {
		target.secret = otlp.Bearer(r.Header["Authorization"])
	}
	if target.plain {
		return h.admitBearer(target)
	}
	src, ok := h.eng.SourceWithSecret(target.source, target.secret)
	if !ok || project != h.opts.ProjectID || src.Type != forebay.OTLP {
		return noSourceFound
	}
	if src.Disabled {
		return otlpPausedSource
	}
	return nil
}

// admitBearer finds the source of a request whose path does not name one.
func (h *otlpHandler) admitBearer(target *otlpEndpoint) *apiError {
	src, err := otlp.SourceOf(h.eng.SourcesWithSecret(target.secret))
	switch {
	case errors.Is(err, otlp.ErrNoSource):
		return &apiError{status: http.StatusUnauthorized, name: "stream.in.noSourceFound", message: otlp.Sentence(otlp.ErrNoSource)}
	case err != nil:
		return &apiError{status: http.StatusBadRequest, name: "stream.in.badRequest", message: otlp.Sentence(err)}
	case src.Disabled:
		return otlpPausedSource
	}
	target.source = src.ID
	return nil
}

// export decodes and stores a request and answers it.
func (h *otlpHandler) export(
	w http.ResponseWriter, r *http.Request, q *otlpRequest, target otlpEndpoint, enc otlp.Encoding, data []byte,
) *apiError {
	signal := target.signal
	if signal == "" {
		var ok bool
		if signal, ok = otlp.Sniff(enc, data); !ok {
			if len(data) == 0 {
				signal = forebay.SignalLogs // an empty request is of every signal
			} else {
				return otlpUnknownSignal
			}
		}
	}
	headers := headerBytes(r)
	cost, err := otlp.Check(signal, enc, data, headers, h.bodies.Room(&q.buffer))
	if err != nil {
		return otlpRequestError(err)
	}
	if h.bodies.Take(&q.buffer, cost) != nil {
		return tooManyBytes
	}
	docs, n, err := otlp.Decode(signal, enc, data, headers)
	if err != nil {
		return otlpRequestError(err)
	}
	if n == 0 {
		// Fields that are not known are ignored, so nothing else tells that the address is wrong, or the guess.
		if target.signal == "" && len(data) > 0 && enc == otlp.Protobuf {
			return otlpUnknownSignal
		}
		if other, ok := otlp.Sniff(enc, data); ok && other != signal && enc == otlp.JSON {
			return otlpOtherSignal(signal, other)
		}
	}
	sum := otlp.SumOf(data)
	h.bodies.Drop(&q.buffer) // what was decoded has its own copy

	request := mapping.Record{Header: r.Header, Host: r.Host, ClientIP: clientIP(r, h.opts.TrustedProxies), Received: time.Now()}
	if len(h.opts.HiddenHeaders) > 0 || r.Host == "" || r.Header["Authorization"] != nil {
		request.Header, request.Host = q.visible(r, h.opts.HiddenHeaders), ""
	}
	ctx := h.deadlines.From(request.Received)
	once, err := otlp.Once(&otlp.Request{
		Secret: target.secret, Signal: signal, Encoding: enc, Keys: r.Header[callkey.Header],
		Header: request.Header, Sum: sum, Received: request.Received, Window: h.opts.BatchWindow,
	}, docs)
	if err != nil {
		return badKey
	}
	records := otlp.Records(&q.rec, docs, request)
	res, err := h.eng.IngestAtomic(ctx, target.source, forebay.Batch{Signal: signal, Records: records, Once: once})
	if errors.Is(err, forebay.ErrDisabledSource) {
		return otlpPausedSource
	}
	if err != nil {
		return ingestError(err, "")
	}
	message := otlp.Summary(signal, res)
	if res.Rejected > 0 && res.Rejected == res.Records {
		e := *ingestError(res.First.Err, "")
		e.message = message
		return &e
	}
	q.answer = otlp.AppendResponse(q.answer[:0], signal, enc, otlp.Rejected(res), message)
	header := w.Header()
	if res.Replayed > 0 && res.Replayed == res.Records {
		header[replayedField] = replayedValue
	}
	header["Content-Type"] = otlpTypes[enc]
	header["Content-Length"] = []string{strconv.Itoa(len(q.answer))}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(q.answer) // the client may be gone: it has nobody else to tell
	return nil
}

// visible returns the headers that a record has when it cannot have those of the request. They are valid until q is reused.
func (q *otlpRequest) visible(r *http.Request, hidden []string) http.Header {
	maps.Copy(q.header, r.Header)
	q.host[0] = r.Host
	q.header["Host"] = q.host[:] // an empty one, too
	delete(q.header, "Authorization")
	for _, name := range hidden {
		delete(q.header, name)
	}
	return q.header
}

func otlpRequestError(err error) *apiError {
	e := &apiError{status: http.StatusBadRequest, name: "stream.in.badRequest", message: otlp.Sentence(err)}
	if tooMuch := (*otlp.TooExpensiveError)(nil); errors.As(err, &tooMuch) {
		e.status, e.name = http.StatusRequestEntityTooLarge, "stream.in.bodyTooLarge"
	}
	return e
}

// retriable returns e with a status that exporters act on as e calls for: of the failures that another attempt can mend,
// they repeat 503 and, unlike other clients, neither 408 nor 500.
func (e *apiError) retriable() *apiError {
	if e.status != http.StatusRequestTimeout && e.status < http.StatusInternalServerError {
		return e
	}
	c := *e
	c.status, c.retryAfter = http.StatusServiceUnavailable, max(e.retryAfter, time.Second)
	return &c
}

const protobufType = "application/x-protobuf"

var otlpTypes = [...][]string{otlp.Protobuf: {protobufType}, otlp.JSON: jsonType}

// otlpEncoding reads the Content-Type of a request. With an error the encoding is that of the answer.
func otlpEncoding(header http.Header) (otlp.Encoding, *apiError) {
	contentType := header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil { // parameters do not matter, not even malformed ones
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	switch media {
	case protobufType, "application/protobuf":
		return otlp.Protobuf, nil
	case "application/json":
		return otlp.JSON, nil
	}
	return otlp.JSON, otlpUnsupportedType
}

// otlpErrorBody is the JSON form of google.rpc.Status, with the members of every other error of this package.
type otlpErrorBody struct {
	Code uint32 `json:"code"`
	errorBody
}

// writeError answers with a google.rpc.Status in the encoding of the request.
func (h *otlpHandler) writeError(w http.ResponseWriter, r *http.Request, requestID string, enc otlp.Encoding, e *apiError) {
	logFault(r, h.opts.Logger, requestID, e)
	setRetryAfter(w.Header(), e.retryAfter)
	if e.status == http.StatusUnauthorized {
		w.Header()["Www-Authenticate"] = bearerChallenge
	}
	code := otlp.Code(e.status)
	if enc == otlp.Protobuf {
		body := otlp.AppendStatus(nil, code, e.message)
		w.Header()["Content-Type"] = otlpTypes[enc]
		w.WriteHeader(e.status)
		_, _ = w.Write(body) // as above
		return
	}
	body := otlpErrorBody{code, errorBody{StatusCode: e.status, Error: e.name, Message: e.message}}
	if e.status >= http.StatusInternalServerError {
		body.ExceptionID = exceptionPrefix + requestID
	}
	writeJSON(w, e.status, body)
}
