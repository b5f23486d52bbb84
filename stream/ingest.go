package stream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/deadline"
	"github.com/forebay/forebay/internal/intake"
	"github.com/forebay/forebay/mapping"
)

// Ingest returns the handler that takes the events of the HTTP sources of eng; see the package documentation for its
// path, its answers and what they promise. It answers every request, those to other paths with an error, and can be
// mounted below a prefix with [http.StripPrefix]. Close the engine after the last request is answered; until then
// closing is safe, and answered 503.
//
// Hand it to the server itself, or dispatch by the path in a handler of your own. Do not put an [http.ServeMux] in front
// of it: a mux answers every path with "//" or "/../" in it by a redirect to the path without, and so writes the secret
// into a Location header, where proxies and browsers log it.
//
// It panics if opts.Validate reports an error. Call Validate first on options that a user of your program can set.
func Ingest(eng *forebay.Engine, opts Options) http.Handler {
	events := newIngestHandler(submitting{eng}, opts)
	telemetry := newOTLPHandler(eng, events.opts, events.bodies, events.deadlines)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isTelemetry(r.URL.Path) {
			telemetry.ServeHTTP(w, r)
		} else {
			events.ServeHTTP(w, r)
		}
	})
}

// engine is what the ingestion needs of a [forebay.Engine].
type engine interface {
	SourceWithSecret(id, secret string) (forebay.Source, bool)
	// Ingest calls mem.release when it needs the record no more, which should be before the durable wait.
	Ingest(ctx context.Context, source string, rec *mapping.Record, mem *memory) (forebay.Result, error)
	IngestBatch(ctx context.Context, source string, recs []*mapping.Record) ([]forebay.Result, error)
	IngestOnce(ctx context.Context, source string, once forebay.Once, recs []*mapping.Record) ([]forebay.Result, error)
}

// submitting gives back the memory of a record before it waits for the disk: the next request is then read and mapped
// in memory that is still in the caches of the processor, and what waits holds no body.
type submitting struct{ *forebay.Engine }

func (s submitting) Ingest(ctx context.Context, source string, rec *mapping.Record, mem *memory) (forebay.Result, error) {
	p, err := s.Submit(ctx, source, rec)
	if err != nil {
		return forebay.Result{}, err
	}
	mem.release()
	return p.Wait(ctx)
}

type ingestHandler struct {
	eng  engine
	opts Options
	// requests holds *ingestRequest.
	requests  sync.Pool
	bodies    bodies
	deadlines *deadline.Shared
}

func newIngestHandler(eng engine, opts Options) *ingestHandler {
	if err := opts.Validate(); err != nil {
		panic(err)
	}
	opts = opts.withDefaults()
	h := &ingestHandler{
		eng: eng, opts: opts, bodies: bodies{intake.New(opts.MaxBufferedBytes)}, deadlines: new(deadline.Shared),
	}
	h.requests.New = func() any { return &ingestRequest{header: make(http.Header, 16)} }
	return h
}

// ingestRequest is the reusable memory of one request.
type ingestRequest struct {
	rec    mapping.Record
	buffer intake.Body
	events events
	// header and host are those of the record when it cannot have those of the request.
	header http.Header
	host   [1]string
}

// memory is the loan of an ingestRequest to one request. Who holds it uses nothing of the request after release.
type memory struct {
	h *ingestHandler
	q *ingestRequest
}

// release ends the loan, if it has not ended yet.
func (m *memory) release() {
	if q := m.q; q != nil {
		m.q = nil
		m.h.release(q)
	}
}

func (h *ingestHandler) release(q *ingestRequest) {
	h.bodies.Release(&q.buffer)
	q.rec.Reset()
	q.events.reuse()
	clear(q.header)
	q.host[0] = ""
	if q.buffer.Reuse() {
		h.requests.Put(q)
	}
}

// Errors that carry nothing of the request.
var (
	routeNotFound = &apiError{
		status: http.StatusNotFound, name: "stream.in.routeNotFound",
		message: "Not found. Events are posted to /stream/{projectId}/{sourceId}/{secret}, telemetry to /otlp/{projectId}/{sourceId}/{secret}.",
	}
	methodNotAllowed = &apiError{
		status: http.StatusMethodNotAllowed, name: "stream.in.methodNotAllowed", message: "Events are sent with POST.",
	}
	badProjectID = &apiError{
		status: http.StatusBadRequest, name: "stream.in.badRequest", message: "The project id must be a positive integer.",
	}
	// noSourceFound does not tell a wrong secret from an unknown source: an answer that did would help in guessing.
	noSourceFound = &apiError{
		status: http.StatusNotFound, name: "stream.in.noSourceFound",
		message: "No source of the type of this path has this project id, source id and secret.",
	}
	disabledSource = &apiError{
		status: http.StatusNotFound, name: "stream.in.disabledSource", message: "The source is disabled.",
	}
	clientGone = &apiError{
		status: 499, name: "stream.in.eof", message: "The client closed the connection before the request was complete.",
	}
	slowClient = &apiError{
		status: http.StatusRequestTimeout, name: "stream.in.timeout", unread: true, message: "The body did not arrive in time.",
	}
	tooManyBytes = &apiError{
		status: http.StatusServiceUnavailable, name: "stream.in.overloaded", retryAfter: time.Second, unread: true,
		message: "Too many requests are in progress. Send the event again later.",
	}
)

func (h *ingestHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := setCommonHeaders(w.Header())
	if e := h.serve(w, r, id); e != nil {
		writeError(w, r, h.opts.Logger, id, e)
	}
}

// serve answers the request, or returns the error to answer it with. Nothing is read of the body before the secret has
// been checked.
func (h *ingestHandler) serve(w http.ResponseWriter, r *http.Request, requestID string) *apiError {
	target, ok := parseEndpoint(r.URL.EscapedPath())
	if !ok {
		leaveBody(w, r)
		return routeNotFound
	}
	if r.Method == http.MethodOptions {
		leaveBody(w, r)
		writePreflight(w, anyValue)
		return nil
	}
	src, e := h.admit(w, r, target)
	if e != nil {
		leaveBody(w, r)
		return e
	}

	q := h.requests.Get().(*ingestRequest)
	mem := &memory{h, q}
	defer mem.release()
	body, e := h.bodies.read(&q.buffer, r, bodyLimits{h.opts.MaxBodyBytes, h.opts.MaxBodyBytes})
	if e != nil {
		if e.unread {
			leaveBody(w, r)
		}
		return e
	}
	q.fill(r, body, h.opts)
	ctx := h.deadlines.From(q.rec.Received)
	if src.Split != forebay.SplitNone || len(r.Header[callkey.Header]) > 0 {
		return h.serveEvents(ctx, w, r, requestID, src, q)
	}
	res, err := h.eng.Ingest(ctx, target.source, &q.rec, mem)
	if err != nil && len(res.Sinks) == 0 {
		return ingestError(err, r.Header.Get("Content-Type"))
	}
	h.writeResult(w, r, requestID, target.source, res)
	return nil
}

// admit refuses what is known to be wrong before the body is read.
func (h *ingestHandler) admit(w http.ResponseWriter, r *http.Request, target endpoint) (forebay.Source, *apiError) {
	if r.Method != http.MethodPost {
		w.Header()["Allow"] = ingestMethods
		return forebay.Source{}, methodNotAllowed
	}
	project, ok := projectID(target.project)
	if !ok {
		return forebay.Source{}, badProjectID
	}
	if e := checkHeaders(r, h.opts.MaxHeaderBytes); e != nil {
		return forebay.Source{}, e
	}
	return h.authorize(project, target)
}

// writePreflight answers the preflight request of a browser. headers are those that the request itself may have.
func writePreflight(w http.ResponseWriter, headers []string) {
	header := w.Header()
	header["Allow"] = ingestMethods
	header["Access-Control-Allow-Methods"] = ingestMethods
	header["Access-Control-Allow-Headers"] = headers
	w.WriteHeader(http.StatusOK)
}

func checkHeaders(r *http.Request, limit int) *apiError {
	if size := headerBytes(r); size > limit {
		return &apiError{
			status: http.StatusRequestEntityTooLarge, name: "stream.in.headerTooLarge",
			message: fmt.Sprintf("The headers have %d bytes, at most %d are allowed.", size, limit),
		}
	}
	return nil
}

// authorize checks the address of a request. The work is the same for an unknown source and for a wrong secret.
func (h *ingestHandler) authorize(project int, target endpoint) (forebay.Source, *apiError) {
	src, ok := h.eng.SourceWithSecret(target.source, target.secret)
	if !ok || project != h.opts.ProjectID || src.Type != forebay.HTTP && src.Type != "" {
		return forebay.Source{}, noSourceFound
	}
	if src.Secret != target.secret {
		src.Secret = src.OldSecret // keys of requests go by the one that the sender has
	}
	if src.Disabled {
		return src, disabledSource
	}
	return src, nil
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

// fill makes the record of a request whose body has been read.
func (q *ingestRequest) fill(r *http.Request, body []byte, opts Options) {
	q.rec.Body = body
	q.rec.Header, q.rec.Host = r.Header, r.Host
	if len(opts.HiddenHeaders) > 0 || r.Host == "" { // an empty Host is a header, too
		maps.Copy(q.header, r.Header)
		q.host[0] = r.Host
		q.header["Host"] = q.host[:]
		for _, name := range opts.HiddenHeaders {
			delete(q.header, name)
		}
		q.rec.Header, q.rec.Host = q.header, ""
	}
	q.rec.ClientIP = clientIP(r, opts.TrustedProxies)
	q.rec.Received = time.Now()
}

// writeResult answers a request that reached the sinks.
func (h *ingestHandler) writeResult(
	w http.ResponseWriter, r *http.Request, requestID, source string, res forebay.Result,
) {
	if len(res.Sinks) == 0 {
		w.Header()[warningField] = noSinkWarning
	} else if replayed(res) {
		w.Header()[replayedField] = replayedValue
	}
	verbose := r.URL.RawQuery != "" && r.URL.Query().Get("verbose") == "true"
	if status, ok := accepted(res); ok && !verbose {
		writeOK(w, status)
		return
	}

	out := sourceResult{
		ProjectID: h.opts.ProjectID, SourceID: source, BranchID: h.opts.BranchID,
		StatusCode: http.StatusOK, Sinks: make([]sinkResult, 0, len(res.Sinks)),
	}
	var retryAfter time.Duration
	var exceptionID string
	for _, s := range res.Sinks {
		sink, e := newSinkResult(s, r.Header.Get("Content-Type"))
		if e != nil {
			retryAfter = max(retryAfter, e.retryAfter)
			if e.status >= http.StatusInternalServerError {
				exceptionID = exceptionPrefix + requestID
			}
			logFault(r, h.opts.Logger, requestID, e, slog.String("source", source), slog.String("sink", s.Sink))
		}
		out.StatusCode = max(out.StatusCode, sink.StatusCode)
		out.Sinks = append(out.Sinks, sink)
	}
	written := written(res)
	slices.SortFunc(out.Sinks, func(a, b sinkResult) int { return cmp.Compare(a.SinkID, b.SinkID) })
	out.Message = fmt.Sprintf("%d/%d sinks written", written, len(res.Sinks))
	if len(res.Sinks) == 0 {
		out.Message = "no enabled sink, the event was dropped"
	}
	if written < len(res.Sinks) {
		out.Error = writeFailed
	}
	setRetryAfter(w.Header(), retryAfter)
	writeJSON(w, out.StatusCode, resultBody{
		StatusCode: out.StatusCode, Error: out.Error, Message: out.Message, ExceptionID: exceptionID,
		Sources: []sourceResult{out},
	})
}
