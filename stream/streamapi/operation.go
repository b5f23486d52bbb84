package streamapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/stream/internal/wire"
)

// access says who may use an operation.
type access uint8

const (
	open   access = iota // every caller
	member               // every master token of the project
	admin                // those whose role is admin
)

// operation is one endpoint, with everything that is needed to check, run and describe it.
type operation struct {
	method, path string
	id, summary  string
	access       access
	query        []parameter
	// body is a pointer to the zero value of the request's JSON body, or nil for no body. With raw it is any bytes.
	body any
	raw  bool
	// status and result describe a success. result is a zero value, nil for no body.
	status int
	result any
	// slow is set if the response may take longer than the time-out of the server.
	slow bool
	// codes are the errors that the catalog can return.
	codes  []catalog.Code
	handle func(*request) (any, error)
}

// parameter is one of the query.
type parameter struct {
	name, doc string
	schema    any // a zero value of its type
	enum      []string
	admin     bool // only those whose role is admin may give it
	// check adds the faults of a value that its schema cannot express. It is nil for none.
	check func(p *problems, text string)
}

// request is a checked HTTP request to an operation.
type request struct {
	r      *http.Request
	ctx    context.Context
	base   string // address of the API
	by     catalog.By
	source string
	sink   string // empty for an operation of a source
	number int    // of a version
	page   page
	body   any
	raw    []byte
}

func (c *request) query(name string) string { return c.r.URL.Query().Get(name) }

func (a *api) endpoint(op *operation) http.HandlerFunc {
	checks := a.docs.requestChecks(op)
	checks.programmatic = a.exchange != nil
	return func(w http.ResponseWriter, r *http.Request) {
		id := wire.SetCommonHeaders(w.Header())
		if op.slow {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a server that cannot do that keeps its time-out
		}
		answer, err := a.serve(op, checks, w, r)
		if err != nil {
			e := answerTo(err)
			if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
				e = names.ClientGone()
			}
			if f, ok := answer.(*testFailure); ok {
				f.ErrorBody = e.Body(id)
				wire.WriteJSON(w, e.Status, f)
				return
			}
			if e.Unread {
				wire.LeaveBody(w, r)
			}
			wire.WriteError(w, r, a.opts.Ingest.Logger, id, e)
			return
		}
		if answer == nil {
			w.WriteHeader(op.status)
			return
		}
		wire.WriteJSON(w, op.status, answer)
	}
}

// serve checks a request in the order that the package documentation promises, and runs the operation.
func (a *api) serve(op *operation, checks *checks, w http.ResponseWriter, r *http.Request) (any, error) {
	c := &request{r: r, ctx: r.Context(), base: a.base(r), source: r.PathValue("sourceId"), sink: r.PathValue("sinkId")}
	if op.access == open {
		if err := checks.decode(c, maxBody); err != nil {
			return nil, err
		}
		return op.handle(c)
	}
	// Faults of the form come first, but only callers with a valid token may send a large body: decoded JSON takes many
	// times its size.
	who, refused := a.verify(c)
	most := int64(maxBody)
	if op.raw {
		most = int64(a.opts.Ingest.MaxBodyBytes)
	}
	if refused != nil {
		most = min(most, maxUnverifiedBody)
	}
	if err := checks.decode(c, most); err != nil {
		if e, ok := errors.AsType[*wire.Error](err); ok && refused != nil && e.Status == http.StatusRequestEntityTooLarge {
			wire.LeaveBody(w, r)
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
	a.catchUp(c.ctx, w.Header())
	return op.handle(c)
}

// catchUpTimeout bounds how long a request waits for changes made through other nodes. It is longer than an election of the journal, which takes
// up to four seconds.
const catchUpTimeout = 6 * time.Second

// catchUp makes the response show changes made through any node. While the journal does not respond, requests read the state that this node
// knows, and the response has a warning. Requests that change something fail by themselves.
func (a *api) catchUp(ctx context.Context, response http.Header) {
	if a.cat == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	if err := a.cat.CatchUp(ctx); err != nil {
		response.Set(wire.WarningField, "recent changes made through other nodes may be missing, because the journal of definitions does not respond")
	}
}

// verify returns whose token it is and refuses those without access to the project.
func (a *api) verify(c *request) (Identity, error) {
	token := requestToken(c.r)
	if token == "" {
		return Identity{}, missingToken
	}
	who, err := a.identify(c, token)
	switch {
	case err != nil:
		return Identity{}, err
	case !who.Master:
		return Identity{}, names.Errorf(http.StatusUnauthorized, "masterTokenRequired", "A master token is required. Send one in the header "+tokenHeader+".")
	case who.ProjectID != a.project:
		return Identity{}, invalidToken
	}
	return who, nil
}

// identify asks the authenticator, but only about tokens that can be of the project.
func (a *api) identify(c *request, token string) (Identity, error) {
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
	if project != a.project {
		return Identity{}, invalidToken
	}
	return a.exchange.VerifyProgrammatic(c.ctx, token, project)
}

// authorize checks the branch and then the role.
func (a *api) authorize(op *operation, c *request, who Identity) error {
	if branch := c.r.PathValue("branchId"); branch != "" && branch != "default" {
		n, err := strconv.Atoi(branch)
		switch {
		case err != nil || branch[0] == '+':
			return names.Errorf(http.StatusBadRequest, "badRequest", "branchId is %q, must be a number or \"default\".", branch)
		case n != a.branch:
			return names.Errorf(http.StatusBadRequest, "badRequest", "Branch %d is not the default branch, and no other is supported.", n)
		}
	}
	if op.access == admin && !who.Admin {
		return names.Errorf(http.StatusForbidden, "forbidden", "The role admin is required to change something. Send a token with this role.")
	}
	for _, p := range op.query {
		if p.admin && !who.Admin && c.query(p.name) != "" {
			return names.Errorf(http.StatusForbidden, "forbidden", "The role admin is required for %q in the query. Send a token with this role, or leave the parameter out.", p.name)
		}
	}
	c.by = who.By
	return nil
}
