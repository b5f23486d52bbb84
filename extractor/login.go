package extractor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/extractor/internal/datetext"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// loginConfig is an authentication of type login or oauth20.login.
type loginConfig struct {
	endpoint, method string
	params, headers  expressionMap
	text             bool // the response is text, not JSON
	granted          granted
	// What every API request gets.
	apiHeaders, apiQuery expressionMap

	// never unless one of these: before every request, after a time, at a time in the response.
	always   bool
	lifetime time.Duration
	expires  string // path in the response
	relative bool
}

// granted are the credentials of an OAuth 2 login, by family and dotted path. They are the values that a user granted, and the id and
// secret of the program. A login of type login has none.
type granted map[string]map[string]tree.Node

const (
	clientID     = "client_id"
	clientSecret = "client_secret"
)

// parseGranted reads the credentials that a configuration has next to its parameters.
func parseGranted(p *problems, authorization tree.Node) granted {
	const path = "authorization.oauth_api.credentials"
	api, _ := authorization.Get("oauth_api")
	n, ok := api.Get("credentials")
	if !ok {
		p.add(path, "is required by authentication oauth20.login")
		return nil
	}
	text := func(key string) tree.Node {
		v, _ := n.Get(key)
		if v.Kind() != tree.String || v.Str() == "" {
			p.add(join(path, key), "is required by authentication oauth20.login, as text")
		}
		return v
	}
	id, secret, data := text("appKey"), text("#appSecret"), text("#data")
	user, err := tree.Parse([]byte(data.Text()))
	if data.Kind() == tree.String && data.Str() != "" && (err != nil || user.Kind() != tree.Object) {
		p.add(join(path, "#data"), "must be the text of a JSON object") // its text is secret
	}
	return granted{familyUser: leaves(user), familyConsumer: {clientID: id, clientSecret: secret}}
}

func parseLogin(auth *section, attrOnly place, with granted) *loginConfig {
	lc := &loginConfig{method: methodGet, granted: with}
	request := attrOnly
	if with != nil {
		request.families, request.granted = append(slices.Clone(request.families), familyUser, familyConsumer), with
	}
	if req := auth.section("loginRequest"); req == nil || req.node.Len() == 0 {
		auth.wrong("loginRequest", "is required")
	} else {
		lc.endpoint = req.required("endpoint")
		lc.method = parseMethod(req, methodGet)
		lc.params = request.compileMap(req, "params")
		lc.headers = request.compileHeaders(req, "headers")
		req.done()
	}
	switch format := auth.text("format", "json"); format {
	case "json":
	case "text":
		lc.text = true
	default:
		auth.wrong("format", "must be json or text, not %q", format)
	}
	if api := auth.section("apiRequest"); api != nil {
		both := attrOnly
		both.families = []string{familyResponse, familyAttr}
		lc.apiHeaders = both.compileHeaders(api, "headers")
		lc.apiQuery = both.compileMap(api, "query")
		api.done()
	}
	lc.parseExpires(auth)
	return lc
}

func (lc *loginConfig) parseExpires(auth *section) {
	n, ok := auth.get("expires")
	if !ok {
		return
	}
	if seconds, ok := n.Digits(); ok {
		lc.always = seconds <= 0
		lc.lifetime = time.Duration(min(seconds, aeon)) * time.Second
		return
	}
	if n.Kind() != tree.Object {
		auth.wrong("expires", "must be a number of seconds, or an object with a path in response")
		return
	}
	e := auth.section("expires")
	lc.expires = e.required("response")
	lc.relative = e.boolean("relative", false)
	e.done()
}

// credentials are the additions of a login to API requests.
type credentials struct {
	headers []header
	query   []pair
	expiry  time.Time // zero for never
	// replaces is true if the credentials take the place of query parameters of the same name. The parameters of a login do not, so both are sent.
	replaces bool
}

// sign adds the credentials to the URL and headers of a request.
func (c *credentials) sign(r *request) {
	u := *r.url
	if c.replaces {
		u.RawQuery = withoutParams(u.RawQuery, c.query)
	}
	u.RawQuery = signQuery(u.RawQuery, c.query)
	r.url = &u
	for _, h := range c.headers {
		r.headers = setHeader(r.headers, h, strings.EqualFold)
	}
}

// An authenticator logs in when a request needs it. It is safe for concurrent use. Requests that find the login missing or
// expired at the same time share one login and its error.
type authenticator struct {
	login func(context.Context) (*credentials, error)
	// always logs in before every request.
	always bool

	mu sync.Mutex
	// current is the last login that succeeded, nil before it.
	current *credentials
	// flight is the running login, or nil. No lock is held while it runs.
	flight *flight
}

func (a *authenticator) sign(ctx context.Context, r *request) error {
	creds, err := a.credentials(ctx)
	if err != nil {
		return err
	}
	r.creds = creds
	creds.sign(r)
	return nil
}

// forget drops a login that the API has refused, unless another request has replaced it already.
func (a *authenticator) forget(r *request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == r.creds {
		a.current = nil
	}
	return true
}

type flight struct {
	done  chan struct{}
	creds *credentials
	err   error
}

// credentials returns a login that is valid now.
func (a *authenticator) credentials(ctx context.Context) (*credentials, error) {
	if a.always {
		return a.login(ctx)
	}
	for {
		a.mu.Lock()
		if c := a.current; c != nil && (c.expiry.IsZero() || !time.Now().After(c.expiry)) {
			a.mu.Unlock()
			return c, nil
		}
		f := a.flight
		if f == nil {
			f = &flight{done: make(chan struct{})}
			a.flight = f
			a.mu.Unlock()
			return a.fly(ctx, f)
		}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-f.done:
		}
		if f.err == nil {
			return f.creds, nil
		}
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return nil, f.err
		}
		// The request that logged in was cancelled, but this one was not.
	}
}

func (a *authenticator) fly(ctx context.Context, f *flight) (*credentials, error) {
	f.creds, f.err = a.login(ctx)
	a.mu.Lock()
	if f.err == nil {
		a.current = f.creds
	}
	a.flight = nil
	a.mu.Unlock()
	close(f.done)
	return f.creds, f.err
}

// A formLogin is the login of an authenticator with a configured request.
type formLogin struct {
	config *loginConfig
	plan   *plan
	send   func(context.Context, *request) (*response, error)
}

// login sends the login request and evaluates its results for API requests.
func (a *formLogin) login(ctx context.Context) (*credentials, error) {
	lc, pl := a.config, a.plan
	s := pl.attrScope()
	maps.Copy(s.values, lc.granted)
	params, err := lc.params.eval(s)
	if err != nil {
		return nil, err
	}
	headers, err := lc.headers.headers(s)
	if err != nil {
		return nil, err
	}
	call := apiCall{endpoint: lc.endpoint, method: lc.method, params: params, headers: headers, home: pl.home(lc.endpoint)}
	u, err := pl.resolve(call)
	if err != nil {
		return nil, err
	}
	r := pl.build(call, u)
	r.login = true
	resp, err := a.send(ctx, r)
	if err != nil {
		return nil, err
	}
	failed := func(err error) error {
		// The body is left out because it may be the credential.
		return &RequestError{
			Login: true, Method: r.method, URL: pl.shown(r.url), Status: resp.status,
			Attempts: resp.attempts, Err: err,
		}
	}
	if resp.textErr != nil {
		return nil, failed(resp.textErr)
	}
	answer, err := lc.read(resp.body)
	if err != nil {
		return nil, failed(err)
	}
	s.now = time.Now()
	s.values[familyResponse] = leaves(answer)
	creds := new(credentials)
	if creds.headers, err = lc.legacy(lc.apiHeaders, s).headers(s); err != nil {
		return nil, err
	}
	query, err := lc.legacy(lc.apiQuery, s).eval(s)
	if err != nil {
		return nil, err
	}
	creds.query = pairsOf(query)
	if creds.expiry, err = lc.expiry(s); err != nil {
		return nil, failed(err)
	}
	return creds, nil
}

// read returns the object that references to the response read.
func (lc *loginConfig) read(body string) (tree.Node, error) {
	if lc.text {
		return tree.OfObject(tree.Member{Key: "data", Value: tree.OfString(body)}), nil
	}
	n, err := tree.Parse([]byte(body))
	switch {
	case err != nil:
		return n, fmt.Errorf("the response is not JSON: %w", err)
	case n.Kind() == tree.Object:
		return n, nil
	case n.IsScalar():
		return tree.OfObject(tree.Member{Key: "data", Value: n}), nil
	}
	return n, fmt.Errorf("the response is %s, not an object or a value", n.Kind().Phrase())
}

// legacy reads an older notation, in which a plain text that is the path of a value in the response refers to that value.
func (lc *loginConfig) legacy(em expressionMap, s *scope) expressionMap {
	out := slices.Clone(em)
	for i, m := range out {
		e := m.value
		if e.form != literalForm || e.literal.Kind() != tree.String {
			continue
		}
		if n, ok := s.values[familyResponse][e.literal.Str()]; ok && n.Kind() != tree.Null {
			out[i].value = &expression{path: e.path, form: referenceForm, family: familyResponse, name: e.literal.Str()}
		}
	}
	return out
}

// aeon bounds the seconds that an API may name, about 30 years, so that they fit in a [time.Duration].
const aeon = 1e9

// expiry returns when the login ends, zero for never.
func (lc *loginConfig) expiry(s *scope) (time.Time, error) {
	if lc.expires == "" {
		if lc.lifetime > 0 {
			return s.now.Add(lc.lifetime), nil
		}
		return time.Time{}, nil
	}
	n, ok := s.values[familyResponse][lc.expires]
	if !ok || n.Kind() == tree.Null {
		return time.Time{}, nil
	}
	var at time.Time
	number, isNumber := n.Number()
	switch {
	case isNumber && lc.relative:
		at = s.now.Add(time.Duration(max(min(number.Real(), aeon), -aeon) * float64(time.Second)))
	case isNumber:
		at = time.Unix(int64(max(min(number.Real(), 100*aeon), -aeon)), 0)
	case n.Kind() == tree.String && !lc.relative:
		if at, ok = datetext.Parse(n.Str(), s.now); !ok {
			return at, fmt.Errorf("the time of expiry at %q in the response is not understood as a date", lc.expires)
		}
	default:
		return at, fmt.Errorf("the time of expiry at %q in the response is not a number", lc.expires)
	}
	if at.Unix() < s.now.Unix() {
		return at, fmt.Errorf("the time of expiry at %q in the response has already passed", lc.expires)
	}
	return at, nil
}
