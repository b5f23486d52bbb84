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
// paths, its answers and what they promise. It answers every request, those to other paths with an error, and can be
// mounted below a prefix with [http.StripPrefix]. Close the engine after the last request is answered; if it is closed
// earlier, requests get 503.
//
// Give it to the server directly, or dispatch by path in a handler of your own. Do not put an [http.ServeMux] in front of
// it: a mux redirects every path with "//" or "/../" to the cleaned path, and so writes the secret into a Location header,
// where proxies and browsers log it.
//
// It panics if opts.Validate reports an error. Call Validate first on options that a user of your program can set.
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
	Receipts(ctx context.Context, source, key string) ([]forebay.Receipt, error)
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
	requests  sync.Pool // of *request
	bodies    wire.Bodies
	deadlines deadline.Shared
}

func newHandler(eng engine, opts Options) *handler {
	if err := opts.Validate(); err != nil {
		panic(err)
	}
	opts = opts.withDefaults()
	h := &handler{eng: eng, opts: opts, bodies: wire.Bodies{Intake: intake.New(opts.MaxBufferedBytes), Names: names}}
	h.requests.New = func() any { return &request{header: make(http.Header, 16)} }
	return h
}

// request is the reusable memory of one request.
type request struct {
	rec    mapping.Record
	body   intake.Body
	events events
	answer []byte
	// header and host are what the record gets when headers are hidden from it.
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

// fields returns the headers and the host that mappings see. Without hidden headers they are the request's own;
// otherwise they are valid until q is reused. An empty Host is a header, too.
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

// The answers that do not depend on the content of a request.
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
	// noSourceFound does not distinguish a wrong secret from an unknown source: that would help in guessing.
	noSourceFound  = names.Errorf(http.StatusNotFound, "noSourceFound", "Unknown source or wrong secret. Use the URL of the source, which its operator can read in the Stream API or the configuration.")
	disabledSource = names.Errorf(http.StatusNotFound, "disabledSource", "The source is disabled.")
	// otlpPausedSource is retryable, unlike disabledSource: exporters keep their batches while a source is disabled, and
	// would drop them after any other answer.
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
			"The headers have %d bytes, at most %d are allowed.", size, h.opts.MaxHeaderBytes)
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

// ingestMethods and the other header values are shared by all answers: nothing writes into them.
var (
	ingestMethods    = []string{"OPTIONS, POST"}
	anyHeader        = []string{"*"}
	telemetryHeaders = []string{"Authorization, *"} // the wildcard does not include Authorization
)

// writePreflight answers the preflight request of a browser.
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
