package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/intake"
)

// APIOptions are the choices of [API].
type APIOptions struct {
	// Auth verifies tokens. It is required.
	Auth Authenticator
	// NoProgrammaticTokens refuses programmatic tokens. Default: they are accepted if Auth is a [ProgrammaticAuthenticator].
	NoProgrammaticTokens bool
	// ProjectID and BranchID are those of the ingestion handlers. Default: 1.
	ProjectID, BranchID int
	// URL is where clients reach the API and IngestURL where they send events, both without a path's end: answers have
	// addresses that begin with them. Default of URL: the host of the request. IngestURL is required.
	URL, IngestURL string
	// TableType is the word for tables of the platform in table.type. Default: [DefaultTableType], which existing clients send.
	TableType string
	// TrustedProxies are those of the ingestion handler: a payload test tells the address of the sender by the same rule.
	TrustedProxies []netip.Prefix
	// HiddenHeaders are those of the ingestion handler: a payload test hides the same.
	HiddenHeaders []string
	// MaxBodyBytes is that of the ingestion handler: a payload test takes no more, sent or decompressed. Default:
	// [DefaultMaxBodyBytes].
	MaxBodyBytes int
	// Logger gets the failures of the service itself. Default: nothing is logged.
	Logger *slog.Logger
}

// Validate reports every breach at once.
func (o APIOptions) Validate() error {
	var errs []error
	if o.Auth == nil {
		errs = append(errs, errors.New("stream: APIOptions.Auth is required, see StaticToken"))
	}
	if o.ProjectID < 0 || o.BranchID < 0 {
		errs = append(errs, fmt.Errorf("stream: APIOptions.ProjectID is %d and BranchID %d, both must be positive, or 0 for the default", o.ProjectID, o.BranchID))
	}
	if o.MaxBodyBytes != 0 && (o.MaxBodyBytes < 100 || o.MaxBodyBytes > MaxBodyBytesLimit) {
		errs = append(errs, fmt.Errorf("stream: APIOptions.MaxBodyBytes is %d, must be between 100 and %d, or 0 for the default", o.MaxBodyBytes, MaxBodyBytesLimit))
	}
	check := func(name, text string, required bool) {
		if text == "" && !required {
			return
		}
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("stream: APIOptions.%s is %q, must be an http or https address", name, text))
		}
	}
	check("URL", o.URL, false)
	check("IngestURL", o.IngestURL, true)
	return errors.Join(errs...)
}

// api serves a catalog over HTTP.
type api struct {
	cat  *catalog.Catalog
	opts APIOptions
	mux  *http.ServeMux
	docs *documentation
	// exchange is nil when programmatic tokens are not exchanged.
	exchange ProgrammaticAuthenticator
	// bodies decodes the samples of payload tests.
	bodies bodies
}

// maxAPIBody bounds the body of a request to the API, and maxUnverifiedBody that of one without a valid token.
const (
	maxAPIBody        = 4 << 20
	maxUnverifiedBody = 64 << 10
)

// API returns the Stream API over a catalog: the endpoints under /v1 with which sources and sinks are managed, its
// description at /v1/documentation, /health-check and /readiness-check. See the package documentation for what it
// guarantees.
func API(cat *catalog.Catalog, opts APIOptions) (http.Handler, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.ProjectID == 0 {
		opts.ProjectID = 1
	}
	if opts.BranchID == 0 {
		opts.BranchID = 1
	}
	if opts.TableType == "" {
		opts.TableType = DefaultTableType
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.MaxBodyBytes == 0 {
		opts.MaxBodyBytes = DefaultMaxBodyBytes
	}
	opts.URL, opts.IngestURL = strings.TrimRight(opts.URL, "/"), strings.TrimRight(opts.IngestURL, "/")
	a := &api{cat: cat, opts: opts, mux: http.NewServeMux(), bodies: bodies{intake.New(DefaultMaxBufferedBytes)}}
	if exchange, ok := opts.Auth.(ProgrammaticAuthenticator); ok && !opts.NoProgrammaticTokens {
		a.exchange = exchange
	}
	ops := a.operations()
	a.docs = describe(ops, opts)
	for i := range ops {
		op := &ops[i]
		a.mux.Handle(op.method+" "+op.path, a.endpoint(op))
	}
	a.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		setCommonHeaders(w.Header())
		http.Redirect(w, r, "/v1", http.StatusMovedPermanently)
	})
	a.mux.HandleFunc("GET /health-check", func(w http.ResponseWriter, _ *http.Request) {
		setCommonHeaders(w.Header())
		w.Header()["Content-Type"] = textType
		_, _ = w.Write([]byte("OK"))
	})
	a.mux.Handle("GET "+readyPath, Ready(cat.Engine(), cat))
	a.docs.mount(a.mux)
	a.mux.HandleFunc("/", a.noEndpoint)
	// The mux would redirect the path of no task to that of one without a name.
	a.mux.HandleFunc("/v1/tasks", func(w http.ResponseWriter, r *http.Request) { a.unknownPath(w, r, setCommonHeaders(w.Header())) })
	return a, nil
}

// requestTimeout bounds one request; what takes longer is a task.
const requestTimeout = 30 * time.Second

// ServeHTTP implements [http.Handler].
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		h := w.Header()
		setCommonHeaders(h)
		h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization, "+tokenHeader+", "+projectHeader)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	if !isClean(r.URL.Path) {
		a.unknownPath(w, r, setCommonHeaders(w.Header()))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// isClean tells whether a path is the one that its endpoint has. The mux would redirect others, also requests whose
// bodies would then be lost.
func isClean(p string) bool {
	clean := path.Clean("/" + p)
	return p == clean || p == clean+"/"
}

// noEndpoint answers what no pattern has taken: an unknown path, or a known one with another method.
func (a *api) noEndpoint(w http.ResponseWriter, r *http.Request) {
	id := setCommonHeaders(w.Header())
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	a.unknownPath(w, r, id)
}

func (a *api) unknownPath(w http.ResponseWriter, r *http.Request, id string) {
	leaveBody(w, r)
	writeError(w, r, a.opts.Logger, id, &apiError{
		status: http.StatusNotFound, name: apiPrefix + "endpointNotFound", message: fmt.Sprintf("Endpoint %q not found.", r.URL.Path),
	})
}

// access says who may use an operation.
type access uint8

const (
	open   access = iota // everybody
	member               // every master token of the project
	admin                // those whose role is admin
)

// operation is one endpoint: all that is needed to check, run and describe it.
type operation struct {
	method, path string
	id, summary  string
	access       access
	query        []parameter
	// body is a pointer to the zero value of the request's JSON body; nil when there is none. raw takes any bytes.
	body any
	raw  bool
	// status and answer are of a success; answer is a zero value, nil for no body.
	status int
	answer any
	// codes are the errors that the catalog can give.
	codes  []catalog.Code
	handle func(*call) (any, error)
}

// parameter is one of the query.
type parameter struct {
	name, doc string
	schema    any // a zero value of its type
	enum      []string
	// check adds what is wrong with a value and its schema cannot say; nil for nothing.
	check func(p *problems, text string)
}

// call is one request to an operation, checked.
type call struct {
	r      *http.Request
	ctx    context.Context
	base   string // begin of the API's addresses
	by     catalog.By
	source string
	sink   string
	number int // of a version
	page   page
	body   any
	raw    []byte
}

// query returns a parameter of the query.
func (c *call) query(name string) string { return c.r.URL.Query().Get(name) }

// endpoint runs an operation: the form of the request first, then the token, the branch, the role, and the content.
func (a *api) endpoint(op *operation) http.HandlerFunc {
	checks := a.docs.requestChecks(op)
	checks.programmatic = a.exchange != nil
	return func(w http.ResponseWriter, r *http.Request) {
		id := setCommonHeaders(w.Header())
		answer, err := a.serve(op, checks, w, r)
		if err != nil {
			e := a.apiError(err)
			if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
				e = clientGone
			}
			if f, ok := answer.(*testFailure); ok {
				f.errorBody = errorBody{StatusCode: e.status, Error: e.name, Message: e.message}
				writeJSON(w, e.status, f)
				return
			}
			if e.unread {
				leaveBody(w, r)
			}
			writeError(w, r, a.opts.Logger, id, e)
			return
		}
		if answer == nil {
			w.WriteHeader(op.status)
			return
		}
		writeJSON(w, op.status, answer)
	}
}

func (a *api) serve(op *operation, checks *checks, w http.ResponseWriter, r *http.Request) (any, error) {
	c := &call{r: r, ctx: r.Context(), base: a.base(r), source: r.PathValue("sourceId"), sink: r.PathValue("sinkId")}
	if op.access == open {
		if err := checks.decode(c, maxAPIBody); err != nil {
			return nil, err
		}
		return op.handle(c)
	}
	// The form of a request is told first, but a large body is for those who may be here: as decoded JSON it takes many
	// times its size.
	who, refused := a.verify(c)
	most := int64(maxAPIBody)
	if op.raw {
		most = int64(a.opts.MaxBodyBytes)
	}
	if refused != nil {
		most = min(most, maxUnverifiedBody)
	}
	if err := checks.decode(c, most); err != nil {
		if e, ok := errors.AsType[*apiError](err); ok && refused != nil && e.status == http.StatusRequestEntityTooLarge {
			leaveBody(w, r)
			return nil, refused
		}
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	if err := a.authorize(op, c, who); err != nil {
		return nil, err
	}
	return op.handle(c)
}

// verify asks whose token it is and refuses those that have no access to the project.
func (a *api) verify(c *call) (Identity, error) {
	token := requestToken(c.r)
	if token == "" {
		return Identity{}, missingToken
	}
	who, err := a.identify(c, token)
	switch {
	case err != nil:
		return Identity{}, err
	case !who.Master:
		return Identity{}, &apiError{status: http.StatusUnauthorized, name: apiPrefix + "masterTokenRequired", message: "A master token is required."}
	case who.ProjectID != a.opts.ProjectID:
		return Identity{}, invalidToken
	}
	return who, nil
}

// identify asks the authenticator, and only for what can be a token of the project.
func (a *api) identify(c *call, token string) (Identity, error) {
	switch {
	case !isProgrammatic(token):
		return a.opts.Auth.Verify(c.ctx, token)
	case a.opts.NoProgrammaticTokens:
		return Identity{}, noProgrammaticTokens
	case a.exchange == nil:
		return a.opts.Auth.Verify(c.ctx, token)
	}
	var p problems
	project := requestProject(c.r, &p)
	if err := p.err(); err != nil {
		return Identity{}, err
	}
	if project != a.opts.ProjectID {
		return Identity{}, invalidToken
	}
	return a.exchange.VerifyProgrammatic(c.ctx, token, project)
}

// authorize checks the branch and the role, in this order.
func (a *api) authorize(op *operation, c *call, who Identity) error {
	if branch := c.r.PathValue("branchId"); branch != "" {
		if err := a.checkBranch(branch); err != nil {
			return err
		}
	}
	if op.access == admin && !who.Admin {
		return &apiError{status: http.StatusForbidden, name: apiPrefix + "forbidden", message: "The role admin is required to change something."}
	}
	c.by = who.By
	return nil
}

func (a *api) checkBranch(text string) error {
	if text == "default" {
		return nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || text[0] == '+':
		return badAPIRequest("badRequest", "branchId is %q, must be a number or \"default\".", text)
	case n != a.opts.BranchID:
		return badAPIRequest("badRequest", "Branch %d is not the default branch, and no other is supported.", n)
	}
	return nil
}

// base returns what addresses of the API begin with.
func (a *api) base(r *http.Request) string {
	if a.opts.URL != "" {
		return a.opts.URL
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// apiPrefix is that of the names of all errors of the API itself.
const apiPrefix = "stream.api."

func badAPIRequest(name, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, name: apiPrefix + name, message: fmt.Sprintf(format, args...)}
}

// statusOf has every code of the catalog.
var statusOf = map[catalog.Code]int{
	catalog.BadRequest:            http.StatusBadRequest,
	catalog.Forbidden:             http.StatusForbidden,
	catalog.SourceNotFound:        http.StatusNotFound,
	catalog.SinkNotFound:          http.StatusNotFound,
	catalog.DeletedSourceNotFound: http.StatusNotFound,
	catalog.DeletedSinkNotFound:   http.StatusNotFound,
	catalog.SourceVersionNotFound: http.StatusNotFound,
	catalog.SinkVersionNotFound:   http.StatusNotFound,
	catalog.TaskNotFound:          http.StatusNotFound,
	catalog.SourceAlreadyExists:   http.StatusConflict,
	catalog.SinkAlreadyExists:     http.StatusConflict,
	catalog.SourceLimit:           http.StatusConflict,
	catalog.SinkLimit:             http.StatusConflict,
	catalog.FileNotFound:          http.StatusNotFound,
	catalog.ImportRuns:            http.StatusConflict,
	catalog.Busy:                  http.StatusConflict,
}

// unavailableName is of the errors that end by themselves, unavailableAfter when to look again.
const (
	unavailableName  = apiPrefix + "unavailable"
	unavailableAfter = 5 * time.Second
)

// apiError turns any error of an operation into the answer.
func (a *api) apiError(err error) *apiError {
	var (
		known       *apiError
		refused     *catalog.Error
		auth        *AuthError
		unavailable *UnavailableError
		store       *catalog.FailedError
		local       *buffer.FailedError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &auth):
		return &apiError{status: auth.Status, name: auth.Name, message: auth.Message, exceptionID: auth.ExceptionID}
	case errors.As(err, &unavailable):
		return &apiError{
			status: http.StatusServiceUnavailable, name: cmp.Or(unavailable.Name, unavailableName),
			message:    cmp.Or(unavailable.Message, "The token cannot be verified now. Send the request again later."),
			retryAfter: cmp.Or(unavailable.RetryAfter, unavailableAfter), exceptionID: unavailable.ExceptionID, cause: err,
		}
	case errors.As(err, &store), errors.As(err, &local):
		return &apiError{
			status: http.StatusServiceUnavailable, name: unavailableName, retryAfter: unavailableAfter, cause: err,
			message: "The definitions cannot be read or written now. Send the request again later.",
		}
	case errors.As(err, &refused):
		return &apiError{status: statusOf[refused.Code], name: apiPrefix + string(refused.Code), message: refused.Message}
	case errors.Is(err, catalog.ErrClosed):
		return &apiError{
			status: http.StatusServiceUnavailable, name: apiPrefix + "shutdown", retryAfter: time.Second,
			message: "The service is stopping; send the request again.",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{
			status: http.StatusRequestTimeout, name: apiPrefix + "internalError",
			message: "The request took too long. What it was to change may be changed or not: read it before you try again.", cause: err,
		}
	}
	return &apiError{
		status: http.StatusInternalServerError, name: apiPrefix + "internalError", cause: err,
		message: "The request failed for a reason on our side. Please quote the exception id to support.",
	}
}
