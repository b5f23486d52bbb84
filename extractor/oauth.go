package extractor

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// oauthConfig is an authentication of type oauth2 (RFC 6749), with the grants client_credentials and refresh_token.
type oauthConfig struct {
	path     string
	grant    string
	tokenURL string
	// inBody sends id and secret of the client in the form, instead of in a header.
	inBody                             bool
	clientID, clientSecret, freshToken *expression
	// params are more parameters of the token request, such as scope.
	params expressionMap
}

const (
	grantClient  = "client_credentials"
	grantRefresh = "refresh_token"
)

func parseOAuth(auth *section, at place) *oauthConfig {
	oc := &oauthConfig{path: auth.path, grant: auth.text("grant", grantClient), tokenURL: auth.required("tokenUrl")}
	oc.clientID = at.compile(auth.value("clientId"), auth.at("clientId"))
	if n, ok := auth.get("clientSecret"); ok || oc.grant == grantClient { // a public client has none
		if !ok {
			auth.wrong("clientSecret", "is required")
		}
		oc.clientSecret = at.compile(n, auth.at("clientSecret"))
	}
	switch oc.grant {
	case grantRefresh:
		oc.freshToken = at.compile(auth.value("refreshToken"), auth.at("refreshToken"))
	case grantClient:
	default:
		auth.wrong("grant", "must be %s or %s, not %q", grantClient, grantRefresh, oc.grant)
	}
	switch where := auth.text("clientAuth", "basic"); where {
	case "basic":
	case "body":
		oc.inBody = true
	default:
		auth.wrong("clientAuth", "must be basic or body, not %q", where)
	}
	oc.params = at.compileMap(auth, "params")
	return oc
}

// A tokenKeeper stores refresh tokens that a server gave in exchange for others.
type tokenKeeper interface {
	// token returns the newest token that took the place of the configured one; "" if none has.
	token(key string) string
	// keepToken makes a token durable before it is relied on.
	keepToken(ctx context.Context, key, token string) error
}

// An oauthLogin gets access tokens. It belongs to an authenticator, which calls it once at a time.
type oauthLogin struct {
	config *oauthConfig
	plan   *plan
	send   func(context.Context, *request) (*response, error)
	keep   tokenKeeper
}

// text evaluates an expression to a text that is secret.
func (o *oauthLogin) text(e *expression, s *scope) (string, error) {
	if e == nil {
		return "", nil
	}
	n, err := e.eval(s)
	if err != nil {
		return "", err
	}
	if n.IsCollection() || n.Text() == "" {
		return "", &ValueError{e.path, errors.New("must be text that is not empty")}
	}
	return n.Text(), nil
}

// tokenID names a configured refresh token in the state without revealing it.
func tokenID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:12])
}

func (o *oauthLogin) login(ctx context.Context) (*credentials, error) {
	oc, pl := o.config, o.plan
	s := pl.attrScope()
	id, err := o.text(oc.clientID, s)
	if err != nil {
		return nil, err
	}
	secret, err := o.text(oc.clientSecret, s)
	if err != nil {
		return nil, err
	}
	pl.secrets.add(secret)
	params, err := oc.params.eval(s)
	if err != nil {
		return nil, err
	}
	params = params.With("grant_type", tree.OfString(oc.grant))
	refresh, key := "", ""
	if oc.grant == grantRefresh {
		if refresh, err = o.text(oc.freshToken, s); err != nil {
			return nil, err
		}
		pl.secrets.add(refresh)
		key = tokenID(oc.tokenURL, id, refresh)
		if newer := o.keep.token(key); newer != "" {
			refresh = newer
			pl.secrets.add(refresh)
		}
		params = params.With("refresh_token", tree.OfString(refresh))
	}
	headers := []header{{"Accept", "application/json"}}
	if oc.inBody || secret == "" {
		params = params.With("client_id", tree.OfString(id))
		if secret != "" {
			params = params.With("client_secret", tree.OfString(secret))
		}
	} else {
		// RFC 6749, section 2.3.1. Both are encoded as in a form first.
		pair := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
		pl.secrets.add(pair)
		headers = append(headers, header{"Authorization", "Basic " + pair})
	}
	call := apiCall{endpoint: oc.tokenURL, method: methodForm, params: params, headers: headers, home: pl.home(oc.tokenURL)}
	u, err := pl.resolve(call)
	if err != nil {
		return nil, err
	}
	r := pl.build(call, u)
	r.login = true
	if oc.grant == grantRefresh && ctx.Err() == nil {
		// The response may contain the only token that still works, so it is awaited even if another job has failed.
		var cancel context.CancelFunc
		ctx, cancel = outlast(ctx, refreshGrace)
		defer cancel()
	}
	resp, err := o.send(ctx, r)
	if err != nil {
		return nil, err
	}
	creds, newer, err := readToken(resp.body, time.Now())
	if err != nil {
		// The body is left out because it may have the token.
		return nil, &RequestError{Login: true, Method: r.method, URL: pl.shown(r.url), Status: resp.status, Attempts: resp.attempts, Err: err}
	}
	pl.secrets.add(strings.TrimPrefix(creds.headers[0].value, "Bearer "))
	if newer != "" && oc.grant == grantRefresh && newer != refresh {
		pl.secrets.add(newer)
		if err := o.keep.keepToken(ctx, key, newer); err != nil {
			return nil, err
		}
	}
	return creds, nil
}

// refreshGrace is how long the response to a request with a refresh token is awaited after the job, or the run, that needs it has ended.
const refreshGrace = 10 * time.Second

// outlast returns a context that ends some time after ctx, with its cause. The deadline of ctx is not seen in it.
func outlast(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel(context.Cause(ctx))
		case <-ended:
		}
	})
	return longer, func() { stop(); close(ended); cancel(nil) }
}

// readToken reads the response of a token request (RFC 6749, section 5.1). The token counts as expired a little before it is, so
// that it does not end on its way.
func readToken(body string, now time.Time) (creds *credentials, refresh string, err error) {
	n, err := tree.Parse([]byte(body))
	if err != nil {
		return nil, "", fmt.Errorf("the response is not JSON: %w", err)
	}
	text := func(key string) string {
		v, _ := n.Get(key)
		return v.Str()
	}
	token := text("access_token")
	if n.Kind() != tree.Object || token == "" || strings.ContainsAny(token, "\r\n\x00") {
		return nil, "", errors.New("the response has no access_token")
	}
	if kind := text("token_type"); kind != "" && !strings.EqualFold(kind, "bearer") {
		return nil, "", errors.New("the type of the token is not bearer")
	}
	creds = &credentials{headers: []header{{"Authorization", "Bearer " + token}}}
	if v, ok := n.Get("expires_in"); ok && v.Kind() != tree.Null {
		seconds, ok := v.Number()
		if !ok {
			return nil, "", errors.New("expires_in is not a number")
		}
		life := time.Duration(max(min(seconds.Real(), aeon), 0) * float64(time.Second))
		creds.expiry = now.Add(life - min(life/10, 30*time.Second))
	}
	return creds, text("refresh_token"), nil
}

// tokens keeps refresh tokens in the state of a run.
type tokens struct {
	mu   sync.Mutex
	byID map[string]string
	// save makes the state durable with all tokens.
	save func(ctx context.Context, all map[string]string) error
}

func (t *tokens) token(key string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[key]
}

func (t *tokens) keepToken(ctx context.Context, key, token string) error {
	t.mu.Lock()
	all := make(map[string]string, len(t.byID)+1)
	for k, v := range t.byID {
		all[k] = v
	}
	all[key] = token
	t.byID = all
	t.mu.Unlock()
	return t.save(context.WithoutCancel(ctx), all)
}
