// Package platformauth verifies the tokens of the Stream API against the platform.
//
//	client, err := storageapi.New(storageapi.Options{URL: "https://storage.example.com"})
//	auth, err := platformauth.New(client, platformauth.Options{})
//	api, err := streamapi.New(cat, streamapi.Options{Auth: auth, Ingest: opts, IngestURL: "https://in.example.com"})
//
// The platform is asked once for a token, and its response is cached for a short time. A token that is revoked there works here for
// at most [Options.TTL] longer. Only hashes of tokens are kept.
//
// A programmatic token (kbc_at_, kbc_pat_) goes to the platform as "Authorization: Bearer", with the project in
// X-KBC-ProjectId. streamapi.Options.NoProgrammaticTokens switches them off.
package platformauth

import (
	"cmp"
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/stream/streamapi"
)

// Options configure [New]. The zero value works.
type Options struct {
	// TTL is how long a response is cached. Refusals are cached for at most 5 s. Default: 1 minute.
	TTL time.Duration
	// Tokens bounds the cached responses. The oldest are dropped first. Default: 10,000.
	Tokens int
	// Calls bounds the concurrent calls to the platform. Other requests wait. Default: 16.
	Calls int
}

// Validate reports every breach at once.
func (o Options) Validate() error {
	var errs []error
	check := func(name string, negative bool) {
		if negative {
			errs = append(errs, fmt.Errorf("platformauth: Options.%s is negative, must be positive, or 0 for the default", name))
		}
	}
	check("TTL", o.TTL < 0)
	check("Tokens", o.Tokens < 0)
	check("Calls", o.Calls < 0)
	return errors.Join(errs...)
}

const (
	// refusedTTL is short, because a token that was refused may be enabled again.
	refusedTTL = 5 * time.Second
	// callTimeout leaves the waiting request time for its response.
	callTimeout = 20 * time.Second
	// maxToken is far above the length of all tokens of the platform.
	maxToken = 1024
	// adminRole is the role that may change something.
	adminRole = "admin"
)

// New returns an authenticator that asks the platform of client. The client's own token is not used.
func New(client *storageapi.Client, opts Options) (streamapi.ProgrammaticAuthenticator, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return &verifier{
		client: client, ttl: cmp.Or(opts.TTL, time.Minute), most: cmp.Or(opts.Tokens, 10_000),
		slots: make(chan struct{}, cmp.Or(opts.Calls, 16)), answers: map[hash]*result{},
	}, nil
}

type hash [sha256.Size]byte

type verifier struct {
	client *storageapi.Client
	ttl    time.Duration
	most   int
	slots  chan struct{} // one for each call in progress

	mu      sync.Mutex
	answers map[hash]*result
	order   list.List // of hash, oldest first
}

// result is the cached result for a token. All fields except at are written before done is closed, and not after.
type result struct {
	done    chan struct{}
	who     streamapi.Identity
	err     error
	expires time.Time
	at      *list.Element // nil while the platform is asked
}

// Verify implements [streamapi.Authenticator]. Requests with the same token share one call.
func (v *verifier) Verify(ctx context.Context, token string) (streamapi.Identity, error) {
	if len(token) > maxToken {
		return streamapi.Identity{}, invalidToken()
	}
	return v.verify(ctx, sha256.Sum256([]byte(token)), v.client.WithToken(storageapi.Secret(token)))
}

// VerifyProgrammatic implements [streamapi.ProgrammaticAuthenticator]. The platform verifies the token for the project. Its
// response describes the token of the project that the programmatic one stands for. That token itself is neither needed nor kept.
func (v *verifier) VerifyProgrammatic(ctx context.Context, token string, projectID int) (streamapi.Identity, error) {
	if len(token) > maxToken {
		return streamapi.Identity{}, invalidToken()
	}
	// No token has a line break, so no call of Verify has this key.
	key := sha256.Sum256(fmt.Appendf(nil, "%d\n%s", projectID, token))
	who, err := v.verify(ctx, key, v.client.WithToken(storageapi.Secret("Bearer "+token)).WithProject(int64(projectID)))
	if err == nil && who.ProjectID != projectID {
		return streamapi.Identity{}, invalidToken()
	}
	return who, err
}

func invalidToken() error {
	return &streamapi.AuthError{Status: http.StatusUnauthorized, Name: codes[http.StatusUnauthorized], Message: "Invalid Token"}
}

// verify returns the cached identity of a key, or asks the platform with the client.
func (v *verifier) verify(ctx context.Context, key hash, client *storageapi.Client) (streamapi.Identity, error) {
	v.mu.Lock()
	a := v.answers[key]
	if a != nil && a.at != nil && !time.Now().Before(a.expires) {
		v.forget(key, a)
		a = nil
	}
	if a == nil {
		a = &result{done: make(chan struct{})}
		v.answers[key] = a
		// The call outlives the request that started it because others may wait for it.
		go v.ask(context.WithoutCancel(ctx), key, client, a)
	}
	v.mu.Unlock()
	select {
	case <-a.done:
		return a.who, a.err
	case <-ctx.Done():
		return streamapi.Identity{}, context.Cause(ctx)
	}
}

// forget removes a from the cache. v.mu is held.
func (v *verifier) forget(key hash, a *result) {
	delete(v.answers, key)
	v.order.Remove(a.at)
}

func (v *verifier) ask(ctx context.Context, key hash, client *storageapi.Client, a *result) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var keep time.Duration
	select {
	case v.slots <- struct{}{}:
		a.who, keep, a.err = v.call(ctx, client)
		<-v.slots
	case <-ctx.Done():
		a.err = &streamapi.UnavailableError{Err: fmt.Errorf("too many are verified at once: %w", ctx.Err())}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	defer close(a.done)
	if keep <= 0 {
		delete(v.answers, key)
		return
	}
	a.expires = time.Now().Add(keep)
	a.at = v.order.PushBack(key)
	for v.order.Len() > v.most {
		oldest := v.order.Front().Value.(hash)
		v.forget(oldest, v.answers[oldest])
	}
}

// codes are the names for responses without a name, such as responses of a proxy in front of the platform.
var codes = map[int]string{
	http.StatusUnauthorized: "storage.tokenInvalid",
	http.StatusForbidden:    "storage.accessDenied",
}

// call asks the platform. keep is how long its response is valid.
func (v *verifier) call(ctx context.Context, client *storageapi.Client) (who streamapi.Identity, keep time.Duration, err error) {
	t, err := client.VerifyToken(ctx)
	if err != nil {
		refused, ok := errors.AsType[*storageapi.Error](err)
		switch {
		case !ok:
			return who, 0, &streamapi.UnavailableError{Err: err}
		case refused.Status == http.StatusTooManyRequests || refused.Status >= http.StatusInternalServerError:
			return who, 0, &streamapi.UnavailableError{
				Name: cmp.Or(refused.Code, "storage.unavailable"), Message: refused.Message, ExceptionID: refused.ExceptionID,
				RetryAfter: refused.RetryAfter, Err: err,
			}
		}
		if refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden {
			keep = min(v.ttl, refusedTTL)
		}
		return who, keep, &streamapi.AuthError{
			Status: refused.Status, Name: cmp.Or(refused.Code, codes[refused.Status], "storage.error"), Message: refused.Message, ExceptionID: refused.ExceptionID,
		}
	}
	keep = v.ttl
	if !t.Expires.IsZero() {
		keep = min(keep, time.Until(t.Expires.Time))
	}
	who = streamapi.Identity{
		ProjectID: int(t.Owner.ID), Master: t.IsMasterToken, Admin: t.IsMasterToken && t.Admin != nil && t.Admin.Role == adminRole,
		By: catalog.By{Type: "user", TokenID: string(t.ID), TokenDesc: t.Description},
	}
	if t.Admin != nil {
		who.By.UserID, who.By.UserName = t.Admin.ID.String(), t.Admin.Name
	}
	return who, keep, nil
}
