package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
)

// endpoint is one URL of a page. The frame checks host, origin, method, rights and proof before it runs.
type endpoint struct {
	// name is the last element of the path: "PAGE.VERB".
	name string
	// method is GET for endpoints that only read, and POST for all others.
	method string
	// right that the caller needs; Numbers at least.
	right Rights
	// change is set if the call changes something. It then gets a line in the log.
	change bool
	// defs is set if the response shows definitions, which other nodes change.
	defs bool
	// run returns a value that is written as JSON. Nil is written as {}. See request for errors.
	run func(c *request) (any, error)
	// raw, in place of run, writes the response itself. It has the same checks.
	raw func(w http.ResponseWriter, r *http.Request, who caller)
}

// request is an HTTP request to an endpoint, with its caller.
type request struct {
	*Console
	// ctx ends with the request. Whatever must not end with it is a task.
	ctx   context.Context
	who   caller
	query url.Values

	r *http.Request
	// about has the attributes of a change for the log.
	about []any
}

// maxBody bounds the body of a request. A pasted event is 1 MB at most.
const maxBody = 2 << 20

// body decodes the JSON body into v. Unknown fields, and data after the value, are an error.
func (c *request) body(v any) error {
	d := json.NewDecoder(c.r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return refuse(http.StatusRequestEntityTooLarge, "The request has more than %d bytes.", maxBody)
		}
		return refuse(http.StatusBadRequest, "The request is not understood: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return refuse(http.StatusBadRequest, "The request has data after its JSON value.")
	}
	return nil
}

// number returns an integer of the query, def if it is missing, or the bound that it passes.
func (c *request) number(name string, def, least, most int) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, refuse(http.StatusBadRequest, "%s is %q, not a number.", name, text)
	}
	return max(least, min(most, n)), nil
}

// note adds attributes to the log line of the change, such as the previous value.
func (c *request) note(attributes ...any) { c.about = append(c.about, attributes...) }

// refusal is an error that the page shows as it is.
type refusal struct {
	status int
	text   string
	// more are members of the response next to "error", such as the places of errors in a template.
	more map[string]any
}

func (e *refusal) Error() string { return e.text }

// refuse makes the error of a call that must not or cannot be done. The text is a whole sentence.
func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// statusOf maps errors of the engine and the catalog to statuses, and to the body that the page shows.
func statusOf(err error) (status int, body map[string]any) {
	body = map[string]any{"error": visible(err.Error())}
	if own, ok := errors.AsType[*refusal](err); ok {
		for name, v := range own.more {
			body[name] = v
		}
		return own.status, body
	}
	if refused, ok := errors.AsType[*catalog.Error](err); ok {
		switch {
		case strings.HasSuffix(string(refused.Code), "NotFound"):
			return http.StatusNotFound, body
		case refused.Code == catalog.Busy, refused.Code == catalog.VersionChanged:
			return http.StatusConflict, body
		}
		return http.StatusUnprocessableEntity, body
	}
	_, overloaded := errors.AsType[*buffer.OverloadError](err)
	switch {
	case errors.Is(err, forebay.ErrUnknownSource), errors.Is(err, forebay.ErrUnknownSink), errors.Is(err, buffer.ErrUnknownFile),
		errors.Is(err, buffer.ErrUnknownRejected), errors.Is(err, buffer.ErrUnknownDamage):
		status = http.StatusNotFound
	case errors.Is(err, buffer.ErrRejectedChanged), errors.Is(err, buffer.ErrImportRuns), errors.Is(err, buffer.ErrNotHeld),
		errors.Is(err, buffer.ErrNoQuarantine), errors.Is(err, forebay.ErrDisabledSource):
		status = http.StatusConflict
	case overloaded:
		status = http.StatusServiceUnavailable
	case errors.Is(err, forebay.ErrClosed):
		status = http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	default:
		status = http.StatusInternalServerError
	}
	return status, body
}

func (c *Console) serveEndpoint(w http.ResponseWriter, r *http.Request, e endpoint) {
	if r.Method != e.method && !(r.Method == http.MethodHead && e.method == http.MethodGet) {
		w.Header().Set("Allow", e.method)
		fail(w, http.StatusMethodNotAllowed, "This address takes "+e.method+" only.")
		return
	}
	foreign := c.foreignRead(r)
	if e.method == http.MethodPost {
		foreign = c.foreignWrite(r)
	}
	if foreign {
		fail(w, http.StatusForbidden, "The request comes from a page of another origin.")
		return
	}
	who := c.caller(r)
	switch {
	case e.right == 0: // signing in and out
	case who.rights&e.right == e.right:
		if e.method == http.MethodPost && !who.proves(r) {
			fail(w, http.StatusForbidden, "The page is older than the session. Load it again.")
			return
		}
	case who.rights == 0 || who.user == "public":
		fail(w, http.StatusUnauthorized, "Sign in with a token that has the right to do this.")
		return
	default:
		fail(w, http.StatusForbidden, "Your token has no right to do this.")
		return
	}
	if e.raw != nil {
		e.raw(w, r, who)
		return
	}
	if e.change && r.URL.RawQuery != "" {
		fail(w, http.StatusBadRequest, "A call that changes something must have no parameters in its address, only a body. Nothing was changed.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	in := &request{Console: c, ctx: r.Context(), who: who, query: r.URL.Query(), r: r}
	if e.defs && c.opts.Catalog != nil {
		c.catchUp(r.Context(), w.Header())
	}
	answer, err := e.run(in)
	if e.change {
		in.note("user", who.user, "remote", r.RemoteAddr)
		if err != nil {
			// Fields: user, remote, action, cause, and fields of the action.
			c.opts.Logger.Warn("console change failed", append(in.about, "action", e.name, "cause", err, "next", "fix the cause that the page shows, and retry the change")...)
		} else {
			// Fields: user, remote, action, and fields of the action.
			c.opts.Logger.Info("console change", append(in.about, "action", e.name)...)
		}
	}
	if err != nil {
		status, body := statusOf(err)
		if status == http.StatusInternalServerError && !e.change {
			c.opts.Logger.Warn("console request failed", "action", e.name, "cause", err, "next", "fix the cause, and reload the page")
		}
		writeJSON(w, status, body)
		return
	}
	if answer == nil {
		answer = struct{}{}
	}
	writeJSON(w, http.StatusOK, answer)
}

// catchUpTimeout bounds how long a page waits for definitions that were changed through other nodes.
const catchUpTimeout = 6 * time.Second

// catchUp makes the response show changes made through any node. If the journal of definitions does not respond, the page shows a warning.
func (c *Console) catchUp(ctx context.Context, response http.Header) {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	if err := c.opts.Catalog.CatchUp(ctx); err != nil {
		response.Set("X-Stream-Warning", "Recent changes made through other nodes may be missing, because the journal of definitions does not respond.")
	}
}

func fail(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]any{"error": text})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone, or v has a type that is no JSON, which tests would show
}
