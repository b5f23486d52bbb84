package extractor

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/forebay/forebay/driverkit/buildversion"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// A client sends the requests of one plan, signed by its login, with retries, redirects and limits. It is safe for
// concurrent use.
type client struct {
	plan      *plan
	transport http.RoundTripper
	// bare, if not nil, takes the requests to origins that are not trusted, without the certificate of the client.
	bare     http.RoundTripper
	auth     signer // nil means no authentication
	log      *slog.Logger
	maxBody  int64
	maxDelay time.Duration
	// traffic is shared by the clients of a run.
	traffic *traffic
	// pace is shared by the clients of a run with equal bounds. Nil means no bound.
	pace *pace
	// retrying, if not nil, is called before every pause.
	retrying func()
	// foreign are the origins that were logged.
	foreign sync.Map
}

// traffic counts the traffic over the network.
type traffic struct {
	requests, bytes, retries atomic.Int64
}

// A response is the last response to a request.
type response struct {
	status   int
	header   http.Header
	body     string
	attempts int
	// textErr says why the body is not the text that it should be. The body has its bytes then.
	textErr error
	// node is the body when rules had to look at it.
	node     tree.Node
	parseErr error
	parsed   bool
}

func newClient(pl *plan, o Options, t *traffic, keep tokenKeeper) (c *client, closeIdle func(), err error) {
	c = &client{
		plan: pl, transport: o.Transport, log: o.Logger, maxBody: o.MaxResponseBytes, maxDelay: o.MaxRetryDelay, traffic: t,
	}
	closeIdle = func() {}
	switch {
	case o.Transport != nil && pl.certificates != nil:
		return nil, nil, errTransportAndCertificates
	case o.Transport == nil:
		trusted := newTransport(pl, o, true)
		c.transport, closeIdle = trusted, trusted.CloseIdleConnections
		if pl.certificates != nil {
			bare := newTransport(pl, o, false)
			c.bare = bare
			closeIdle = func() { trusted.CloseIdleConnections(); bare.CloseIdleConnections() }
		}
	}
	if c.auth, err = c.signer(keep); err != nil {
		closeIdle()
		return nil, nil, err
	}
	return c, closeIdle, nil
}

// newTransport returns a transport for trusted origins, or for others.
func newTransport(pl *plan, o Options, trusted bool) *http.Transport {
	dialer := &net.Dialer{Timeout: pl.connectTimeout}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: pl.connectTimeout, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: max(4, mostChildren(pl.jobs)*pl.parallel), IdleConnTimeout: 90 * time.Second, TLSClientConfig: pl.certificates.tls(trusted),
	}
	if o.PublicOnly {
		dialer.Control = guardDial
		t.Proxy = nil // a proxy would connect where we cannot look
	}
	t.DialContext = dialer.DialContext
	return t
}

// mostChildren returns how many requests of one job, or of runs of its children, can be at work at the same time.
func mostChildren(jobs []*jobConfig) int {
	most := 1
	for _, j := range jobs {
		most = max(most, min(j.parallel*mostChildren(j.children), 1000))
	}
	return most
}

// do sends a request until it succeeds or is not worth another attempt. A status of 400 and above is an error unless
// it is to be ignored, which holds for API requests only.
func (c *client) do(ctx context.Context, r *request) (*response, error) {
	return c.doJudged(ctx, r, nil)
}

// doJudged is do for responses that judge examines. A response that ends the job is returned.
func (c *client) doJudged(ctx context.Context, r *request, judge func(*response) *answerError) (*response, error) {
	shown := c.plan.shown(r.url)
	renewed, retries := false, 0
	pauses := backoff.ExponentialBackOff{
		InitialInterval: min(time.Second, c.maxDelay), Multiplier: 2, MaxInterval: c.maxDelay, RandomizationFactor: c.plan.retry.jitter,
	}
	pauses.Reset()
	for n := 1; ; n++ {
		c.traffic.requests.Add(1)
		resp, err := c.attempt(ctx, r, n)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failure := &RequestError{Login: r.login, Method: r.method, URL: shown, Attempts: n, Err: c.plan.secrets.cleanError(err)}
		var h http.Header
		if resp != nil {
			resp.attempts = n
			failure.Status, h = resp.status, resp.header
		}
		if err == nil && !renewed && c.renews(r, resp.status) {
			renewed = true
			c.log.DebugContext(ctx, "new login", "method", r.method, "url", shown, "status", resp.status)
			continue
		}
		var verdict *answerError
		if err == nil && judge != nil {
			if verdict = judge(resp); ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
		again := c.plan.retry.again(failure.Status, err) || err == nil && c.limited(resp)
		if verdict != nil {
			if verdict.rule.action == actionEnd {
				return resp, nil
			}
			again, failure.Err = verdict.rule.action == actionRetry, verdict
		}
		if again && retries < c.plan.retry.max {
			retries++
			delay, asked := c.plan.retry.delay(pauses.NextBackOff(), h, time.Now())
			if asked > c.maxDelay {
				failure.Err = fmt.Errorf("the server asks for a pause of %s, more than %s", asked.Round(time.Second), c.maxDelay)
				return nil, failure
			}
			delay = min(delay, c.maxDelay) // jitter goes no further
			c.traffic.retries.Add(1)
			c.log.DebugContext(ctx, "retry", "method", r.method, "url", shown, "status", failure.Status, "error", failure.Err, "delay", delay)
			if c.retrying != nil {
				c.retrying()
			}
			if err := ctxio.Sleep(ctx, delay); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			if user, ok := errors.AsType[userError](err); ok {
				return nil, user // the login of this request
			}
			return nil, failure
		}
		if verdict != nil {
			failure.Body = c.plan.secrets.excerpt(resp.body)
			return nil, failure
		}
		if resp.status >= 400 && (r.login || !slices.Contains(c.plan.ignoreErrors, resp.status)) {
			failure.Body = c.plan.secrets.excerpt(resp.body)
			return nil, failure
		}
		return resp, nil
	}
}

// renews reports whether the credentials of a request are to be replaced because of the status of its response.
func (c *client) renews(r *request, status int) bool {
	return !r.login && !r.foreign && c.auth != nil && slices.Contains(c.plan.auth.again, status) && c.auth.forget(r)
}

const maxRedirects = 5

// attempt sends a request once and follows redirects. Each hop gets valid credentials and its own signature.
func (c *client) attempt(ctx context.Context, r *request, n int) (*response, error) {
	hop := *r
	for range maxRedirects + 1 {
		signed := hop
		if hop.foreign {
			c.tellForeign(ctx, hop.url)
		} else if c.auth != nil && !r.login {
			if err := c.auth.sign(ctx, &signed); err != nil {
				return nil, err
			}
			r.creds = signed.creds
		}
		c.log.DebugContext(ctx, "request", "method", hop.method, "url", c.plan.shown(hop.url), "attempt", n, "login", r.login)
		resp, err := c.roundTrip(ctx, &signed)
		if err != nil {
			return nil, err
		}
		location := resp.header.Get("Location")
		if resp.status < 301 || resp.status > 308 || resp.status > 303 && resp.status < 307 || location == "" {
			return resp, nil
		}
		u, err := resolve(hop.url, location)
		if err != nil {
			return nil, fmt.Errorf("redirect: %w", err)
		}
		if !hop.foreign && !c.plan.trusts(u, hop.home) {
			if resp.status > 303 && len(hop.body) > 0 {
				return nil, fmt.Errorf("the response redirects the body of the request to %s, which http.trustedOrigins does not list", originOf(u))
			}
			// Permanently. That origin must not redirect a signed request back to the API.
			hop.foreign, hop.headers = true, c.plan.publicHeaders(hop.headers)
		} else if originOf(u) != originOf(hop.url) {
			hop.headers = withoutHeader(hop.headers, "Host")
		}
		if resp.status <= 303 {
			hop.method, hop.body = http.MethodGet, nil
			hop.headers = withoutHeader(hop.headers, "Content-Type")
		}
		hop.url = u
	}
	return nil, &networkError{codeTooManyHops, fmt.Errorf("more than %d redirects", maxRedirects)}
}

func withoutHeader(headers []header, name string) []header {
	return slices.DeleteFunc(slices.Clone(headers), func(h header) bool { return strings.EqualFold(h.name, name) })
}

// tellForeign logs once for each origin that requests to it are sent without credentials.
func (c *client) tellForeign(ctx context.Context, u *url.URL) {
	o := originOf(u)
	if _, told := c.foreign.LoadOrStore(o, true); !told {
		c.log.WarnContext(ctx, "requests to another origin are sent without credentials; http.trustedOrigins can list it", "origin", o.String())
	}
}

var errTooLarge = errors.New("the response is larger than allowed")

// roundTrip sends one HTTP request and reads the response.
func (c *client) roundTrip(ctx context.Context, r *request) (*response, error) {
	if !r.foreign {
		if err := c.pace.wait(ctx, c.maxDelay); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.plan.requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, errors.New("the request cannot be built from its URL")
	}
	if r.method == http.MethodGet {
		req.Body, req.GetBody = http.NoBody, nil
	}
	if u := r.url.User; u != nil {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	given := make(map[string]bool)
	for _, h := range r.headers {
		if strings.EqualFold(h.name, "Host") {
			req.Host = h.value
			continue
		}
		key := http.CanonicalHeaderKey(h.name)
		if !given[key] {
			req.Header.Del(key)
		}
		given[key] = true
		req.Header.Add(key, h.value)
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "forebay-extractor/"+buildversion.String())
	}
	transport := c.transport
	if r.foreign && c.bare != nil {
		transport = c.bare
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if private, ok := errors.AsType[*privateAddressError](err); ok {
			return nil, private
		}
		return nil, networkFailure(err)
	}
	defer resp.Body.Close()
	if !r.foreign {
		c.pace.learn(resp.Header, time.Now())
	}
	decoded, length, err := decodedBody(resp)
	if err != nil {
		return nil, err
	}
	counted := &countingReader{decoded, c.traffic}
	body, err := readBody(counted, length, c.maxBody)
	switch {
	case int64(len(body)) > c.maxBody:
		return nil, fmt.Errorf("%w (%d bytes)", errTooLarge, c.maxBody)
	case errors.Is(err, io.EOF):
		return nil, networkFailure(io.ErrUnexpectedEOF)
	case err != nil:
		return nil, networkFailure(err)
	}
	text, textErr := r.charset.decode(body, resp.Header.Get("Content-Type"), c.maxBody)
	if int64(len(text)) > c.maxBody {
		return nil, fmt.Errorf("%w (%d bytes)", errTooLarge, c.maxBody)
	}
	if coding := resp.Header.Get("Content-Encoding"); textErr != nil && coding != "" {
		textErr = fmt.Errorf("%w (Content-Encoding: %s)", textErr, coding)
	}
	return &response{status: resp.StatusCode, header: resp.Header, body: text, textErr: textErr}, nil
}

// readBody reads up to one byte more than most into memory of the size of the text. length is the length of the text, -1 when
// it is not known. Then there are two copies of it for a moment, and never more.
func readBody(r io.Reader, length, most int64) (string, error) {
	r = io.LimitReader(r, most+1)
	var text strings.Builder
	if length >= 0 {
		text.Grow(int(min(length, most+1)))
		_, err := io.Copy(&text, r)
		return text.String(), err
	}
	var parts [][]byte
	for total, size := 0, 1<<12; ; size = min(2*size, 1<<20) {
		part, n := make([]byte, size), 0
		var err error
		for n < size && err == nil {
			var read int
			read, err = r.Read(part[n:])
			n += read
		}
		parts = append(parts, part[:n])
		total += n
		if err == nil {
			continue
		}
		if err == io.EOF {
			err = nil
		}
		text.Grow(total)
		for i, part := range parts {
			text.Write(part)
			parts[i] = nil
		}
		return text.String(), err
	}
}

// decodedBody undoes the compression that a configured Accept-Encoding asks for, and gzip that the response does not declare. The transport
// undoes its own. The length counts the bytes of the text, -1 if it is not known.
func decodedBody(resp *http.Response) (r io.Reader, length int64, err error) {
	switch strings.ToLower(resp.Header.Get("Content-Encoding")) {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(resp.Body)
	case "deflate":
		r, err = zlib.NewReader(resp.Body)
	default:
		plain := bufio.NewReader(resp.Body)
		if start, _ := plain.Peek(3); string(start) != "\x1f\x8b\x08" { // no text begins like this
			return plain, resp.ContentLength, nil
		}
		r, err = gzip.NewReader(plain)
	}
	switch {
	case errors.Is(err, io.EOF): // nothing at all
		return http.NoBody, -1, nil
	case err != nil:
		return nil, -1, fmt.Errorf("the response cannot be decompressed: %w", err)
	}
	return r, -1, nil
}

type countingReader struct {
	io.Reader
	traffic *traffic
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.traffic.bytes.Add(int64(n))
	return n, err
}

// mostMembers bounds the members of objects that a page is read into. They may take twice the memory of the largest
// text, and some megabytes. A member of a large object takes 128 bytes, with its place in the index of names.
func (c *client) mostMembers() int { return int(2*c.maxBody/128) + 1<<17 }
