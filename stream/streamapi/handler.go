package streamapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driverkit/buildversion"
	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/internal/intake"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/internal/wire"
	"github.com/forebay/forebay/stream/refusal"
)

// Options of [New].
type Options struct {
	// Auth verifies tokens. It is required.
	Auth Authenticator
	// NoProgrammaticTokens refuses programmatic tokens. Default: they are accepted if Auth is a [ProgrammaticAuthenticator].
	NoProgrammaticTokens bool
	// Ingest has the options of the ingestion handler. The ids of project and branch stand in all responses, and a payload test
	// reads a sample as ingestion would. The logger gets failures of the API, too.
	Ingest stream.Options
	// URL is the address of the API and IngestURL the address of ingestion, both without a trailing path. Addresses in responses
	// begin with them. Default of URL: the host of the request. IngestURL is required.
	URL, IngestURL string
	// TableType is the value of table.type for tables of the platform, in requests and responses. Requests may have the word table in its place.
	// Default: [DefaultTableType].
	TableType string
}

// Validate reports every field that is out of its range.
func (o Options) Validate() error {
	errs := []error{o.Ingest.Validate()}
	if o.Auth == nil {
		errs = append(errs, errors.New("streamapi: Options.Auth is required, see StaticToken"))
	}
	check := func(name, text string, required bool) {
		if text == "" && !required {
			return
		}
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("streamapi: Options.%s is %q, must be an http or https address", name, text))
		}
	}
	check("URL", o.URL, false)
	check("IngestURL", o.IngestURL, true)
	return errors.Join(errs...)
}

// api serves a catalog over HTTP.
type api struct {
	// cat is nil where the sources are defined elsewhere. on is then a [catalog.Maintenance], else cat.
	cat  *catalog.Catalog
	on   maintenance
	opts Options
	mux  *http.ServeMux
	docs *documentation
	// project and branch stand in all responses.
	project, branch int
	// exchange is nil when programmatic tokens are not exchanged.
	exchange ProgrammaticAuthenticator
	// bodies decodes the samples of payload tests.
	bodies wire.Bodies
}

const (
	// maxBody bounds the body of a request, maxUnverifiedBody the body of a request without a valid token.
	maxBody           = 4 << 20
	maxUnverifiedBody = 64 << 10
	// requestTimeout bounds one request. Whatever takes longer is a task.
	requestTimeout = 30 * time.Second
)

// New returns the Stream API of a catalog, with the endpoints under /v1, their description at /v1/documentation, /health-check
// and /readiness-check. The last returns 503 while the local level of the engine or the store of the catalog cannot be
// written, or is closed. Close the catalog after the last response is sent. If it is closed earlier, requests get 503.
func New(cat *catalog.Catalog, opts Options) (http.Handler, error) {
	return serveAPI(&api{cat: cat, on: cat}, opts)
}

// serveAPI completes an API of which only the catalog, or what takes its place, is set.
func serveAPI(a *api, opts Options) (http.Handler, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	in := &opts.Ingest
	in.ProjectID, in.BranchID = cmp.Or(in.ProjectID, 1), cmp.Or(in.BranchID, 1)
	in.MaxBodyBytes = cmp.Or(in.MaxBodyBytes, stream.DefaultMaxBodyBytes)
	in.Logger = warnlog.Or(in.Logger)
	opts.TableType = cmp.Or(opts.TableType, DefaultTableType)
	opts.URL, opts.IngestURL = strings.TrimRight(opts.URL, "/"), strings.TrimRight(opts.IngestURL, "/")
	a.opts, a.mux, a.project, a.branch = opts, http.NewServeMux(), in.ProjectID, in.BranchID
	a.bodies = wire.Bodies{Intake: intake.New(stream.DefaultMaxBufferedBytes), Names: names}
	if exchange, ok := opts.Auth.(ProgrammaticAuthenticator); ok && !opts.NoProgrammaticTokens {
		a.exchange = exchange
	}
	ops := a.operations()
	if a.cat == nil {
		ops = slices.DeleteFunc(ops, func(op operation) bool { return !op.maintains() })
	}
	a.docs = describe(ops, opts)
	for i := range ops {
		op := &ops[i]
		a.mux.Handle(op.method+" "+op.path, a.endpoint(op))
	}
	a.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		wire.SetCommonHeaders(w.Header())
		http.Redirect(w, r, "/v1", http.StatusMovedPermanently)
	})
	a.mux.HandleFunc("GET /health-check", func(w http.ResponseWriter, _ *http.Request) {
		wire.SetCommonHeaders(w.Header())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Server", buildversion.Product())
		_, _ = w.Write([]byte("OK"))
	})
	ready := wire.Ready(a.on.Engine().Ready, nil)
	if a.cat != nil {
		ready = wire.Ready(a.cat.Engine().Ready, a.cat.Ready)
	}
	a.mux.Handle("GET /readiness-check", ready)
	a.docs.mount(a.mux)
	a.mux.HandleFunc("/", a.noEndpoint)
	// The mux would redirect the path of no task to the path of one without a name.
	a.mux.HandleFunc("/v1/tasks", a.unknownPath)
	return a, nil
}

// ServeHTTP implements [http.Handler].
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		h := w.Header()
		wire.SetCommonHeaders(h)
		h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization, "+tokenHeader+", "+projectHeader)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	if !isClean(r.URL.Path) {
		a.unknownPath(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// isClean reports whether a path is in the form that endpoints have. The mux would redirect others, also requests whose
// bodies would then be lost.
func isClean(p string) bool {
	clean := path.Clean("/" + p)
	return p == clean || p == clean+"/"
}

// noEndpoint responds to requests that match no pattern, such as an unknown path, or a known one with another method.
func (a *api) noEndpoint(w http.ResponseWriter, r *http.Request) {
	allowed := refusal.Methods(a.mux, r)
	if len(allowed) == 0 {
		a.unknownPath(w, r)
		return
	}
	id := wire.SetCommonHeaders(w.Header())
	wire.LeaveBody(w, r)
	wire.WriteError(w, r, a.opts.Ingest.Logger, id, names.Errorf(http.StatusMethodNotAllowed, "methodNotAllowed", "%s", refusal.WrongMethod(w, r, allowed...)))
}

func (a *api) unknownPath(w http.ResponseWriter, r *http.Request) {
	id := wire.SetCommonHeaders(w.Header())
	wire.LeaveBody(w, r)
	e := names.Errorf(http.StatusNotFound, "endpointNotFound", "Endpoint %q not found. GET /v1/documentation describes all endpoints.", r.URL.Path)
	if a.cat == nil {
		e.Message += " The sources of this server are defined elsewhere, such as in its configuration file: change them there and reload it, for example " +
			"with SIGHUP. This API serves quarantines, held files and shadows."
		switch path.Base(r.URL.Path) {
		case "rotate-secret":
			e.Message += " A secret rotates with the keys secret, oldSecret and oldSecretUntil of the source."
		case "replay":
			e.Message += " To replay an archive, stop the server and run forebay replay start with -config."
		}
	}
	wire.WriteError(w, r, a.opts.Ingest.Logger, id, e)
}

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
