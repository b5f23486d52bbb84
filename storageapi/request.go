package storageapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// effect says when a call may be repeated. See the package comment.
type effect uint8

const (
	// repeatable calls may be made again after any failure.
	repeatable effect = iota
	// creating calls may be made again only if the server cannot have started the first.
	creating
)

// request is one call before it is made.
type request struct {
	method string
	// base is the address up to the path; "" means the Storage API with its version.
	base string
	// path is escaped and begins with a slash.
	path   string
	query  url.Values
	body   any // encoded as a form if it is url.Values, as JSON otherwise, unless nil
	header http.Header
	effect effect
}

func get(path string) request { return request{method: http.MethodGet, path: path} }

// post is a creating call, unless the caller changes its effect.
func post(path string, body any) request {
	return request{method: http.MethodPost, path: path, body: body, effect: creating}
}

func put(path string, body any) request {
	return request{method: http.MethodPut, path: path, body: body}
}

// params makes a query of names and values. Those without a value are left out.
func params(pairs ...string) url.Values {
	query := url.Values{}
	addFields(query, "", pairs...)
	return query
}

// flag is the value of a parameter that is left out when it is false.
func flag(set bool) string {
	if set {
		return "true"
	}
	return ""
}

// path joins escaped elements.
func path(elements ...string) string {
	var b strings.Builder
	for _, e := range elements {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(e))
	}
	return b.String()
}

// scoped is path below the client's branch.
func (c *Client) scoped(elements ...string) string {
	if c.branch == "" {
		return path(elements...)
	}
	return path("branch", c.branch) + path(elements...)
}

const versionPath = "/v2/storage"

// maxErrorBody bounds the bytes read of an error response.
const maxErrorBody = 1 << 20

// do makes a call, with repetitions, and decodes the response into out unless that is nil. retried reports that an earlier
// attempt may have had its effect.
func (c *Client) do(ctx context.Context, r request, out any) (retried bool, err error) {
	resp, retried, err := c.open(ctx, r)
	if err != nil {
		return retried, err
	}
	defer drain(resp.Body)
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return retried, nil
	}
	dec := json.NewDecoder(resp.Body)
	if err := dec.Decode(out); err != nil {
		return retried, fmt.Errorf("storage api: %s %s: read response: %w", r.method, r.path, err)
	}
	return retried, nil
}

// call is do without retried.
func (c *Client) call(ctx context.Context, r request, out any) error {
	_, err := c.do(ctx, r, out)
	return err
}

// fetch makes a call and returns its decoded response.
func fetch[T any](ctx context.Context, c *Client, r request) (*T, error) {
	var out T
	if err := c.call(ctx, r, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// create is fetch for an object whose id the caller may have chosen. With an id the call can be repeated. Then read returns what
// an earlier attempt has made, or nil.
func create[T any](ctx context.Context, c *Client, r request, id string, read func() (*T, error)) (*T, error) {
	if id != "" {
		r.effect = repeatable
	}
	var out T
	retried, err := c.do(ctx, r, &out)
	if retried && IsAlreadyExists(err) {
		if there, rerr := read(); there != nil || rerr != nil {
			return there, rerr
		}
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// setNotes sets notes on an object and returns all of them.
func (c *Client) setNotes(ctx context.Context, path, provider string, notes []KeyValue) ([]Metadata, error) {
	body := map[string]any{"metadata": notes}
	if provider != "" {
		body["provider"] = provider
	}
	r := post(path, body)
	r.effect = repeatable
	out, err := fetch[[]Metadata](ctx, c, r)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// body makes a call whose response is not JSON. The caller closes it.
func (c *Client) body(ctx context.Context, r request) (io.ReadCloser, error) {
	resp, _, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// open makes a call, with repetitions, and returns the successful response, whose body the caller closes.
func (c *Client) open(ctx context.Context, r request) (resp *http.Response, retried bool, err error) {
	var body []byte
	if form, ok := r.body.(url.Values); ok {
		body = []byte(form.Encode())
	} else if r.body != nil {
		if body, err = jsontext.Marshal(r.body); err != nil {
			return nil, false, fmt.Errorf("storage api: %s %s: encode body: %w", r.method, r.path, err)
		}
	}
	err = c.retry(ctx, r.method, r.path, func() (fault, error) {
		var f fault
		resp, f, err = c.attempt(ctx, r, body)
		if err != nil && f == faultUnknown {
			retried = true // if there is another attempt
		}
		if r.effect == creating && f == faultUnknown {
			f = faultFinal
		}
		return f, err
	})
	if err != nil {
		return nil, retried, err
	}
	return resp, retried, nil
}

// fault classifies the outcome of one attempt.
type fault uint8

const (
	faultFinal   fault = iota // success, or a response that a repetition would get again
	faultRefused              // the server has not begun the call
	faultUnknown              // the server may have done the call
)

func (c *Client) attempt(ctx context.Context, r request, body []byte) (*http.Response, fault, error) {
	base := r.base
	base = cmp.Or(base, c.opts.URL+versionPath)
	address := base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, faultFinal, fmt.Errorf("storage api: %s %s: %w", r.method, r.path, err)
	}
	if _, form := r.body.(url.Values); form {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.opts.UserAgent)
	if c.opts.RunID != "" {
		req.Header.Set(RunIDHeader, c.opts.RunID)
	}
	if c.project != 0 {
		req.Header.Set(ProjectHeader, strconv.FormatInt(c.project, 10))
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	switch token := string(c.opts.Token); {
	case strings.HasPrefix(token, "Bearer "):
		req.Header.Set("Authorization", token)
	case token != "":
		req.Header.Set(TokenHeader, token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, networkFault(err), fmt.Errorf("storage api: %s %s: %w", r.method, r.path, withoutURL(err))
	}
	if resp.StatusCode < 300 {
		return resp, faultFinal, nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a cut error body is still an error
	drain(resp.Body)
	e := newError(r.method, r.path, resp, text)
	return nil, statusFault(e), e
}

// withoutURL takes the address out of an error of net/http, because its query may be a signature.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// drain reads the rest of a body, within reason, so that the connection can be used again, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	body.Close()
}
