package extractor

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/extractor/internal/function"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// Methods of a configuration. FORM is POST with the parameters as a form. PUT and PATCH are like POST.
const (
	methodGet   = "GET"
	methodPost  = "POST"
	methodForm  = "FORM"
	methodPut   = "PUT"
	methodPatch = "PATCH"
)

// A header is a name and a value. Names keep their spelling until the request is sent.
type header struct {
	name, value string
}

// setHeader replaces the headers of an equal name by h, in the place of the first, or appends it.
func setHeader(list []header, h header, equal func(a, b string) bool) []header {
	out := slices.Clone(list)
	at := slices.IndexFunc(out, func(o header) bool { return equal(o.name, h.name) })
	if at < 0 {
		return append(out, h)
	}
	out[at] = h
	rest := slices.DeleteFunc(out[at+1:], func(o header) bool { return equal(o.name, h.name) })
	return out[:at+1+len(rest)]
}

func exactly(a, b string) bool { return a == b }

// An apiCall is a request as jobs and scrollers see it. The endpoint may be relative to the base URL, the parameters
// belong into the query or the body according to the method.
type apiCall struct {
	endpoint string
	method   string // "" means the default method, or GET
	params   tree.Node
	headers  []header
	// home is the origin that the configuration names for the call, whatever endpoint a response put in its place.
	home origin
	// delimiter separates the steps of the names that the pagination sets; "" when they are plain names.
	delimiter string
}

// param returns a parameter that the pagination knows by name.
func (call *apiCall) param(name string) tree.Node {
	if call.delimiter == "" {
		n, _ := call.params.Get(name)
		return n
	}
	n, _ := call.params.At(name, call.delimiter)
	return n
}

// with sets a parameter of the pagination.
func (call *apiCall) with(name string, value tree.Node) {
	if call.delimiter == "" {
		call.params = call.params.With(name, value)
		return
	}
	call.params = withPath(call.params, strings.Split(name, call.delimiter), value)
}

// withPath sets a value in objects below others, which it makes where they are missing.
func withPath(n tree.Node, steps []string, value tree.Node) tree.Node {
	if n.Kind() != tree.Object && (n.Kind() != tree.List || n.Len() == 0) {
		n = tree.OfObject()
	}
	if len(steps) > 1 {
		below, _ := n.Get(steps[0])
		value = withPath(below, steps[1:], value)
	}
	return n.With(steps[0], value)
}

// A request is ready to be sent, except for the login's additions.
type request struct {
	method  string // of HTTP
	url     *url.URL
	headers []header
	body    []byte
	login   bool
	home    origin
	// foreign requests carry no credentials because their origin is not one of the configuration.
	foreign bool
	// charset is how the body of the response is read.
	charset charset
	// creds are what an authenticator signed the last attempt with.
	creds *credentials
}

// resolve returns the URL of an endpoint (RFC 3986, section 5).
func resolve(base *url.URL, endpoint string) (*url.URL, error) {
	ref, err := url.Parse(normalizeURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("the endpoint is no URL")
	}
	u := base.ResolveReference(ref)
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the URL must begin with http or https and have a host")
	}
	return u, nil
}

// shown returns a URL for logs and errors, without a user, a password and secrets.
func (pl *plan) shown(u *url.URL) string {
	copied := *u
	if copied.User != nil {
		copied.User = url.User(redacted)
	}
	const most = 2000 // a link of an API may be as long as its response
	return textcut.Short(pl.secrets.clean(strings.Replace(copied.String(), url.QueryEscape(redacted)+"@", redacted+"@", 1)), most)
}

// shownEndpoint is shown for the text of an endpoint, which may be no URL.
func (pl *plan) shownEndpoint(endpoint string) string {
	if u, err := url.Parse(normalizeURL(endpoint)); err == nil {
		return pl.shown(u)
	}
	return pl.endpointName(endpoint)
}

// endpointName is an endpoint of the configuration as it is written there, without a user, a password and secrets.
func (pl *plan) endpointName(endpoint string) string {
	if before, after, ok := strings.Cut(endpoint, "//"); ok {
		host, _, _ := strings.Cut(after, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			endpoint = before + "//" + redacted + after[at:]
		}
	}
	return pl.secrets.clean(endpoint)
}

// apiRequest builds a request of a job. The defaults of the API lie under everything that the call sets.
func (pl *plan) apiRequest(call apiCall) (*request, error) {
	call.method = cmp.Or(call.method, pl.defaults.method)
	u, err := pl.resolve(call)
	if err != nil {
		return nil, err
	}
	if pl.trusts(u, call.home) {
		call.params = pl.defaults.params.Overlay(call.params)
	}
	headers := slices.Clone(pl.defaults.headers)
	for i, h := range call.headers {
		// The first of a name replaces the default, further ones send the header several times.
		if slices.ContainsFunc(call.headers[:i], func(o header) bool { return o.name == h.name }) {
			headers = append(headers, h)
		} else {
			headers = setHeader(headers, h, exactly)
		}
	}
	call.headers = headers
	return pl.build(call, u), nil
}

// resolve returns the URL of a call.
func (pl *plan) resolve(call apiCall) (*url.URL, error) {
	u, err := resolve(pl.baseURL, call.endpoint)
	if err != nil {
		return nil, &RequestError{Method: cmp.Or(call.method, methodGet), URL: pl.shownEndpoint(call.endpoint), Err: err}
	}
	return u, nil
}

// build makes the HTTP request of a call, whose URL is u.
func (pl *plan) build(call apiCall, u *url.URL) *request {
	r := &request{
		method: http.MethodGet, url: u, headers: slices.Clone(call.headers), home: call.home, foreign: !pl.trusts(u, call.home),
	}
	if r.foreign {
		call.params = pl.publicParams(call.params)
	}
	contentType := ""
	switch call.method {
	case methodPost, methodPut, methodPatch:
		r.method, contentType = call.method, "application/json"
		r.body = call.params.AppendJSON(nil, tree.Arrays)
	case methodForm:
		r.method, contentType = http.MethodPost, "application/x-www-form-urlencoded"
		r.body = []byte(formatPairs(pairsOf(call.params), function.EncodeForm))
	default:
		u.RawQuery = mergeQuery(u.RawQuery, call.params)
	}
	if contentType != "" {
		r.headers = setHeader(r.headers, header{"Content-Type", contentType}, exactly)
	}
	for _, h := range pl.headers {
		if !slices.ContainsFunc(r.headers, func(o header) bool { return strings.EqualFold(o.name, h.name) }) {
			r.headers = append(r.headers, h)
		}
	}
	if r.foreign {
		r.headers = pl.publicHeaders(r.headers)
	}
	return r
}
