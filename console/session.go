package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A session is a cookie with a random id and its end, signed with a key that is derived from the token. So sessions outlive a restart, end with the
// token, need no memory, and hold on every node that has the token. Only signed-out sessions are remembered, until they would have ended anyway, and
// by this console alone, so a copy of such a cookie still holds on other nodes and after a restart. The name of the cookie depends on the token,
// because browsers share cookies between the ports of a host.

const sessionAge = 12 * time.Hour

// tokenKey is the stored part of a token.
type tokenKey struct {
	name   string // of the cookie, without prefix
	digest [sha256.Size]byte
	key    []byte
	token  Token
}

func newTokenKey(t Token) tokenKey {
	key := sign([]byte(t.Secret), "forebay console session 1")
	return tokenKey{"forebay-" + hex.EncodeToString(sign(key, "name")[:4]), sha256.Sum256([]byte(t.Secret)), key, t}
}

// endedSessions are sessions that were signed out. Only valid ones get in, so a client without a token cannot fill it.
type endedSessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]time.Time // to when the session would have ended
	// count grows with each of them, and streams look at it.
	count atomic.Int64
}

func (e *endedSessions) add(session string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = make(map[[sha256.Size]byte]time.Time)
	}
	maps.DeleteFunc(e.all, func(_ [sha256.Size]byte, until time.Time) bool { return now.After(until) })
	e.all[sha256.Sum256([]byte(session))] = now.Add(sessionAge)
	e.count.Add(1)
}

func (e *endedSessions) has(session string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ended := e.all[sha256.Sum256([]byte(session))]
	return ended
}

func sign(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// newSession returns the value of a cookie.
func (k *tokenKey) newSession(now time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(now.Add(sessionAge).Unix()))
	b = append(b, rand.Text()...)
	b = append(b, sign(k.key, string(b))...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (k *tokenKey) valid(session string, now time.Time) bool {
	b, err := base64.RawURLEncoding.DecodeString(session)
	if err != nil || len(b) < 8+sha256.Size {
		return false
	}
	signed, mac := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	return hmac.Equal(mac, sign(k.key, string(signed))) && now.Unix() < int64(binary.BigEndian.Uint64(signed))
}

// find returns the token with this secret. It compares all, in constant time.
func (c *Console) find(secret string) *tokenKey {
	digest := sha256.Sum256([]byte(secret))
	var found *tokenKey
	for i := range c.keys {
		if subtle.ConstantTimeCompare(digest[:], c.keys[i].digest[:]) == 1 {
			found = &c.keys[i]
		}
	}
	return found
}

// securePrefix stands before the name of a cookie received over TLS because no other host and no page without TLS can set such a cookie.
const securePrefix = "__Host-"

// caller is who makes a request.
type caller struct {
	rights Rights
	user   string
	// proof is the text that the page must send with requests that have an effect. It is empty for clients that send the token with each request,
	// which no other page can make a browser do.
	proof string
	// session is set if a cookie gave the rights.
	session bool
}

func (c *Console) caller(r *http.Request) caller {
	who := caller{rights: c.opts.Public, user: "public"}
	if c.opts.Authorize != nil {
		if rights, user := c.opts.Authorize(r); rights&AllRights != 0 {
			who.rights |= rights & AllRights
			who.user = user
		}
	}
	who.proof = hex.EncodeToString(sign(c.pageKey, "page of "+who.user))
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if k := c.find(bearer); k != nil {
			who.rights |= k.token.Rights
			who.user, who.proof = k.token.Name, ""
		}
	}
	now := time.Now()
	for i := range c.keys {
		k := &c.keys[i]
		for _, name := range []string{securePrefix + k.name, k.name} {
			if cookie, err := r.Cookie(name); err == nil && k.valid(cookie.Value, now) && !c.ended.has(cookie.Value) && who.proof != "" {
				who.rights |= k.token.Rights
				who.user, who.session, who.proof = k.token.Name, true, hex.EncodeToString(sign(k.key, "page of "+cookie.Value))
				break
			}
		}
	}
	if who.rights != 0 {
		who.rights |= Numbers
	}
	return who
}

// proves reports whether a request carries the proof that only the page knows.
func (who caller) proves(r *http.Request) bool {
	return who.proof == "" || hmac.Equal([]byte(r.Header.Get(proofHeader)), []byte(who.proof))
}

// proofHeader carries caller.proof.
const proofHeader = "Forebay-Page"

// signIn takes the form with the token. It works without script.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
	k := c.find(strings.TrimSpace(r.PostFormValue("token")))
	if k == nil && !c.tries.take(time.Now()) {
		c.tries.slow(r.Context(), c.slowly)
		w.Header().Set("Retry-After", "10")
		c.serveSignIn(w, r, http.StatusTooManyRequests, "Too many wrong tokens were tried. Try again in 10 seconds.")
		return
	}
	if k == nil {
		c.opts.Logger.Warn("wrong token for the console", "remote", r.RemoteAddr, "next", "check the token; many lines mean that a client is guessing it")
		c.serveSignIn(w, r, http.StatusForbidden, "The server does not know this token.")
		return
	}
	c.forget(w, r)
	// Behind a proxy that ends TLS only the browser knows that the connection is secure.
	secure := r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
	cookie := &http.Cookie{
		Name: k.name, Value: k.newSession(time.Now()), Path: "/", MaxAge: int(sessionAge / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure,
	}
	if secure {
		cookie.Name = securePrefix + k.name
	}
	http.SetCookie(w, cookie)
	c.opts.Logger.Info("signed in to the console", "user", k.token.Name, "remote", r.RemoteAddr)
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// forget ends the sessions of the request, of all tokens, and deletes their cookies.
func (c *Console) forget(w http.ResponseWriter, r *http.Request) {
	for i := range c.keys {
		for _, prefix := range []string{securePrefix, ""} {
			name := prefix + c.keys[i].name
			if cookie, err := r.Cookie(name); err == nil {
				if now := time.Now(); c.keys[i].valid(cookie.Value, now) {
					c.ended.add(cookie.Value, now)
				}
				http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: prefix != ""})
			}
		}
	}
}

// limiter refuses maxTries wrong tokens at once, and one more every triesEvery, and the others late. It never looks at a right token, so no client
// can lock others out. The length of secrets keeps them from being guessed. It counts for all callers together because behind a proxy they all
// have its address. Its zero value is ready.
type limiter struct {
	mu sync.Mutex
	// empty is when all failures will be forgotten.
	empty time.Time
	// waiting responses are held back.
	waiting int
}

const (
	maxTries   = 20
	triesEvery = 3 * time.Second
	// slowAnswer is how long the response to a wrong token is held back beyond that, and maxSlow how many at a time, which bounds their memory.
	slowAnswer = time.Second
	maxSlow    = 100
)

// take counts a wrong token, and reports whether the response may be sent at once.
func (l *limiter) take(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.empty.Sub(now) > (maxTries-1)*triesEvery {
		return false
	}
	if l.empty.Before(now) {
		l.empty = now
	}
	l.empty = l.empty.Add(triesEvery)
	return true
}

// slow returns after a while.
func (l *limiter) slow(ctx context.Context, d time.Duration) {
	l.mu.Lock()
	full := l.waiting >= maxSlow
	if !full {
		l.waiting++
	}
	l.mu.Unlock()
	if full {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
}
