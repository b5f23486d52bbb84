package stream

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/deadline"
	"github.com/forebay/forebay/internal/intake"
	"github.com/forebay/forebay/internal/otlp"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

// Ingest returns the handler that receives events and telemetry for the sources of eng. The package documentation has its
// paths and its responses. It responds to every request, with an error for other paths, and can be
// mounted below a prefix with [http.StripPrefix]. Close the engine after the last response is sent. If it is closed
// earlier, requests get 503.
//
// Give it to the server directly, or dispatch by path in your own handler. Do not put an [http.ServeMux] in front of
// it. A mux redirects every path with "//" or "/../" to the cleaned path, and so writes the secret into a Location header,
// where proxies and browsers log it.
//
// It panics if opts.Validate reports an error. Call Validate first on options that a user of your program can set.
//
// # Repeated requests
//
// A client that never repeats a request gets at-most-once. A client that repeats one after a 5xx, a timeout or a lost
// connection gets at-least-once. Sinks that had the row have it twice.
//
// With an Idempotency-Key, 1 to 255 bytes that name the request, a repeating client gets exactly once. Only missing rows
// are stored, and the response is the first request's. If nothing was missing, it has the header Idempotent-Replayed: true. The
// key is stored in one batch with the rows, so this also holds after a crash and when the outcome was unknown. Keys are kept
// for 24 h, within bounds. See KeyRetention, MaxKeys and MaxKeyBytes of buffer.Tuning. Concurrent requests with one key take
// turns. A request that stored nothing leaves no key.
//
// A key belongs to its source. It stays valid if the secret, the mapping or the sinks change after the first request. If the source now
// splits bodies differently, a repeated request is still split as in the first call, and its response has the form of the first call.
//
// # Errors
//
// The body of an error is a JSON object with statusCode, error, message and, from 500 on, exceptionId, which ends with
// the request id in the log. If the event reached the sinks, the body is the same as with verbose=true, with one error per
// sink. The names of all errors begin with "stream.in.".
//
//	routeNotFound         404  no such path
//	methodNotAllowed      405  see the Allow header
//	badRequest            400  the project id is not a positive integer; a chunked or compressed body is malformed; a bad Idempotency-Key
//	noSourceFound         404  no source has this id and this secret, or it is not an HTTP source
//	disabledSource        404  the secret is right, the source is disabled
//	headerTooLarge        413  headers above Options.MaxHeaderBytes
//	bodyTooLarge          413  body above Options.MaxBodyBytes, as it was sent or decoded
//	payloadTooLarge       413  more events than one request may have
//	unprocessableContent  422  the body is not the JSON that the source splits; the key was used for another body
//	unsupportedMediaType  415  another Content-Encoding
//	timeout               408  the body came too slowly, see Server
//	eof                   499  the client went away before its request was complete; nothing was stored
//	overloaded            503  a bound of memory or disk is reached, or a request with the same Idempotency-Key took about 30 s; nothing was
//	                           stored; Retry-After
//	shutdown              503  the engine is closing; nothing was stored; Retry-After
//	writeFailed           the highest status of the sinks: at least one of them does not have the row
//
//	per sink:
//	unprocessableContent  422  a value is missing, the JSON is malformed, a template failed: the message names the column
//	unsupportedMediaType  415  a column needs a field, and the body is neither JSON nor a form
//	badRequest            400  a column needs a field of a malformed form
//	payloadTooLarge       413  the row is too large
//	overloaded            503  as above
//	noPipelineReady       503  the disk failed, or took about 30 s, or another node has taken over: it is unknown whether the event was
//	                           stored; Retry-After
//	genericError          500  anything else; the log has the cause
//
// # Telemetry
//
// A batch is stored by all sinks of its signal or by none, with one durable wait. A batch with more than 16 MiB of rows is
// stored in portions, and some of them may be stored when the response is 503:
//
//	200  every record is stored in every sink that did not reject it. A partial success counts the records that some sink
//	     can never store, with the first reason, or all records if no enabled sink takes the signal: they were dropped
//	4xx  the batch can never be taken. The names of errors are those above. If every record was rejected, the status is
//	     the first one's
//	503  the service is overloaded, stopping or at fault, the source is disabled, or the body came too slowly: exporters send
//	     the batch again after Retry-After. Nothing was stored, unless the message says that this is unknown
//
// The body of an error is a google.rpc.Status in the encoding of the request. In JSON it also has the members of other errors.
//
// # Repeated batches
//
// Exporters repeat a batch, byte for byte, when they get no response. With an Idempotency-Key, which a sender may give, such a batch is stored
// once. A batch without a key is a repetition of an earlier batch if two conditions are met. First, the response to the earlier batch may not have
// arrived. That is so if it was a 503, if it could not be written, if the client had left before it, or if the process has died since. Second,
// these are equal:
//
//   - source, signal and encoding
//   - the bytes without their Content-Encoding
//   - the headers that columns see, except headers that change with each attempt: Host, Via, Date, headers of tracing
//     (traceparent, b3, …), X-Request-Id, X-Correlation-Id, X-Forwarded-For and the like
//
// Each record must also have a time within 24 h of now. All other batches are new, equal or not. Many lines of a loop have the same
// millisecond, and hosts send equal heartbeats. Equal batches that arrive at once take turns.
//
// Two windows remain. A response that was written but lost on its way, for example between a proxy and the client, counts as arrived. Then the
// repetition is stored again. After a crash, the responses of the last second and the responses since the last commit count as lost. Then for each
// of them, one later batch with equal bytes is not stored. If either matters, give each batch an Idempotency-Key. Options.BatchWindow switches the
// comparison off.
//
// # Traces
//
// If the engine has a tracer, the header traceparent of a request (W3C Trace Context) names the parent of the span of its call. A span in the context of
// the request, which a middleware has made, comes first. A malformed header is ignored.
//
// # Limits of a batch
//
// They are above what exporters send by default, because exporters drop a batch that is too large:
//
//	Options.MaxExportWireBytes  20 MiB   the body as it is sent
//	Options.MaxExportBytes      64 MiB   the body without its Content-Encoding
//	Options.MaxBufferedBytes    256 MB   all requests in progress with their decoded telemetry; half of it for one request
//	                            64       levels of nested lists and maps in a value
func Ingest(eng *forebay.Engine, opts Options) http.Handler { return newHandler(submitting{eng}, opts) }

// engine is the part of [forebay.Engine] that ingestion needs.
type engine interface {
	SourceWithSecret(id, secret string) (forebay.Source, bool)
	SourcesWithSecret(secret string) []forebay.Source
	// Ingest calls mem.release when it no longer needs the record, before the durable wait if it can.
	Ingest(ctx context.Context, source string, rec *mapping.Record, mem *memory) (forebay.Result, error)
	IngestBatch(ctx context.Context, source string, recs []*mapping.Record) ([]forebay.Result, error)
	IngestOnce(ctx context.Context, source string, once forebay.Once, recs []*mapping.Record) ([]forebay.Result, error)
	IngestAtomic(ctx context.Context, source string, b forebay.Batch) (forebay.BatchResult, error)
	Options() forebay.Options
}

// submitting releases the memory of a record before it waits for the disk. The next request then reuses memory that is
// still in the processor's caches, and waiting requests hold no bodies.
type submitting struct{ *forebay.Engine }

func (s submitting) Ingest(ctx context.Context, source string, rec *mapping.Record, mem *memory) (forebay.Result, error) {
	p, err := s.Submit(ctx, source, rec)
	if err != nil {
		return forebay.Result{}, err
	}
	mem.release()
	return p.Wait(ctx)
}

type handler struct {
	eng       engine
	opts      Options
	traced    bool      // the engine has a tracer
	requests  sync.Pool // of *request
	bodies    wire.Bodies
	deadlines deadline.Shared
}

func newHandler(eng engine, opts Options) *handler {
	if err := opts.Validate(); err != nil {
		panic(err)
	}
	opts = opts.withDefaults()
	h := &handler{eng: eng, opts: opts, traced: eng.Options().Tracer != nil, bodies: wire.Bodies{Intake: intake.New(opts.MaxBufferedBytes), Names: names}}
	h.requests.New = func() any { return &request{header: make(http.Header, 16)} }
	return h
}

// request is the reusable memory of one request.
type request struct {
	rec    mapping.Record
	body   intake.Body
	events events
	answer []byte
	// header and host replace those in the record when headers are hidden from it.
	header http.Header
	host   [1]string
}

// memory lends a request to one call. Its holder uses nothing of the request after release.
type memory struct {
	h *handler
	q *request
}

// release ends the loan. Calls after the first do nothing.
func (m *memory) release() {
	q := m.q
	if q == nil {
		return
	}
	m.q = nil
	m.h.bodies.Release(&q.body)
	q.rec.Reset()
	q.events.reuse()
	clear(q.header)
	q.host[0] = ""
	if q.body.Reuse() {
		m.h.requests.Put(q)
	}
}

// fields returns the headers and the host that mappings see. Without hidden headers they are the request's own.
// Otherwise they are valid until q is reused. An empty Host is a header, too.
func (q *request) fields(r *http.Request, hidden []string) (http.Header, string) {
	if r.Host != "" && !slices.ContainsFunc(hidden, func(name string) bool { return name == "Host" || r.Header[name] != nil }) {
		return r.Header, r.Host
	}
	maps.Copy(q.header, r.Header)
	q.host[0] = r.Host
	q.header["Host"] = q.host[:]
	for _, name := range hidden {
		delete(q.header, name)
	}
	return q.header, ""
}

// names is the prefix of all errors of this package.
const names wire.Prefix = "stream.in."

// The responses that do not depend on the content of a request.
var (
	routeNotFound = names.Errorf(http.StatusNotFound, "routeNotFound", "Not found. Events are posted to "+
		"/stream/{projectId}/{sourceId}/{secret}, telemetry to /otlp/{projectId}/{sourceId}/{secret}.")
	otlpRouteNotFound = names.Errorf(http.StatusNotFound, "routeNotFound", "Not found. Telemetry is posted to "+
		"/otlp/{projectId}/{sourceId}/{secret}/v1/logs, /v1/metrics or /v1/traces; the secret may be sent as bearer token "+
		"instead, also to /v1/logs, /v1/metrics and /v1/traces alone.")
	otlpNoProfiles       = names.Errorf(http.StatusNotFound, "routeNotFound", otlp.NoProfiles)
	methodNotAllowed     = names.Errorf(http.StatusMethodNotAllowed, "methodNotAllowed", "Events are sent with POST.")
	otlpMethodNotAllowed = names.Errorf(http.StatusMethodNotAllowed, "methodNotAllowed", "Telemetry is sent with POST.")
	badProjectID         = names.Errorf(http.StatusBadRequest, "badRequest", "The project id in the URL is wrong: it must be a positive integer.")
	badKey               = names.Errorf(http.StatusBadRequest, "badRequest", "The Idempotency-Key must have 1 to 255 characters.")
	// noSourceFound does not distinguish a wrong secret from an unknown source, because that would help in guessing.
	noSourceFound  = names.Errorf(http.StatusNotFound, "noSourceFound", "Unknown source or wrong secret. Use the URL of the source, which its operator can read in the Stream API or the configuration.")
	disabledSource = names.Errorf(http.StatusNotFound, "disabledSource", "The source is disabled. Ask its operator to enable it, and send the event again.")
	// otlpPausedSource is retryable, unlike disabledSource. Exporters keep their batches while a source is disabled, and
	// would drop them after any other response.
	otlpPausedSource = names.Errorf(http.StatusServiceUnavailable, "disabledSource",
		"The source is disabled. Send the batch again later.").Retry(otlp.PausedRetryAfter)
)

// ServeHTTP implements [http.Handler]. It reads nothing of the body before it has checked the secret.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := wire.SetCommonHeaders(w.Header())
	telemetry := isTelemetry(r.URL.Path)
	target, src, e := h.admit(w, r, telemetry)
	if e != nil || r.Method == http.MethodOptions {
		wire.LeaveBody(w, r)
	}
	switch {
	case e != nil:
	case r.Method == http.MethodOptions:
		writePreflight(w, telemetry)
		return
	case telemetry:
		e = h.serveTelemetry(w, r, id, target, src)
	default:
		e = h.serveEvent(w, r, id, target, src)
	}
	switch {
	case e == nil:
		return
	case e.Unread:
		wire.LeaveBody(w, r)
	}
	if telemetry {
		h.writeTelemetryError(w, r, id, e)
		return
	}
	wire.WriteError(w, r, h.opts.Logger, id, e)
}

// admit refuses what needs no body to be refused. It returns the source of a request unless that is a preflight request.
func (h *handler) admit(w http.ResponseWriter, r *http.Request, telemetry bool) (target endpoint, src forebay.Source, e *wire.Error) {
	parse, noRoute, wrongMethod, disabled := parseEvent, routeNotFound, methodNotAllowed, disabledSource
	if telemetry {
		parse, noRoute, wrongMethod, disabled = parseTelemetry, otlpRouteNotFound, otlpMethodNotAllowed, otlpPausedSource
	}
	path := r.URL.EscapedPath()
	if telemetry && isProfiles(path) {
		return target, src, otlpNoProfiles
	}
	target, ok := parse(path)
	if !ok {
		return target, src, noRoute
	}
	switch r.Method {
	case http.MethodOptions:
		return target, src, nil
	case http.MethodPost:
	default:
		w.Header()["Allow"] = ingestMethods
		return target, src, wrongMethod
	}
	project, ok := projectID(target.project)
	if !ok && !target.bearerOnly {
		return target, src, badProjectID
	}
	if size := headerBytes(r); size > h.opts.MaxHeaderBytes {
		return target, src, names.Errorf(http.StatusRequestEntityTooLarge, "headerTooLarge",
			"The headers have %d bytes, at most %d are allowed. Send fewer or shorter headers.", size, h.opts.MaxHeaderBytes)
	}
	if telemetry && target.secret == "" {
		target.secret = otlp.Bearer(r.Header["Authorization"])
	}
	if target.bearerOnly {
		src, e = h.sourceOf(target.secret)
	} else {
		// The work is the same for an unknown source and a wrong secret.
		src, ok = h.eng.SourceWithSecret(target.source, target.secret)
		isTelemetry := src.Type == forebay.OTLP
		if !ok || project != h.opts.ProjectID || isTelemetry != telemetry {
			e = noSourceFound
		}
	}
	if e == nil && src.Disabled {
		e = disabled
	}
	return target, src, e
}

// ingestMethods and the other header values are shared by all responses. Nothing writes into them.
var (
	ingestMethods    = []string{"OPTIONS, POST"}
	anyHeader        = []string{"*"}
	telemetryHeaders = []string{"Authorization, *"} // the wildcard does not include Authorization
)

// writePreflight responds to the preflight request of a browser.
func writePreflight(w http.ResponseWriter, telemetry bool) {
	header := w.Header()
	header["Allow"] = ingestMethods
	header["Access-Control-Allow-Methods"] = ingestMethods
	header["Access-Control-Allow-Headers"] = anyHeader
	if telemetry {
		header["Access-Control-Allow-Headers"] = telemetryHeaders
	}
	w.WriteHeader(http.StatusOK)
}

// headerBytes returns the size of the header lines of r as they were sent, within a few blanks.
func headerBytes(r *http.Request) int {
	const perLine = len(": \r\n")
	size := len("Host") + len(r.Host) + perLine
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + perLine
		}
	}
	return size
}
