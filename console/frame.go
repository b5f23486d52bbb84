package console

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// frame sets the headers of every response. Assets replace Cache-Control.
func frame(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-store")
}

// policy is the content security policy of the document. Scripts and styles need the nonce, because 'self' is the whole origin of the
// embedding program, which may serve files that its users have uploaded.
func policy(nonce string) string {
	return "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce + "'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// nonce sets the policy of a response and returns its nonce.
func (c *Console) nonce(w http.ResponseWriter, r *http.Request) string {
	if c.opts.Nonce != nil {
		return c.opts.Nonce(r)
	}
	nonce := rand.Text()
	w.Header().Set("Content-Security-Policy", policy(nonce))
	return nonce
}

// foreignRead reports whether a page of another origin asks for data. Clients that are no browsers do not state their origin.
func (c *Console) foreignRead(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return !c.trusted(r.Header.Get("Origin"))
}

// foreignWrite reports whether a request with an effect may come from a page of another origin. [http.CrossOriginProtection] decides
// first. The second check also covers requests that it lets pass, with an Origin that has a user name or another port.
func (c *Console) foreignWrite(r *http.Request) bool {
	if c.origins.Check(r) != nil {
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" || c.trusted(origin) {
		return false
	}
	u, err := url.Parse(origin)
	if err != nil || u.User != nil {
		return true
	}
	// A proxy may rewrite Host. Then only the browser's own word counts, which CrossOriginProtection has checked.
	return !strings.EqualFold(u.Host, r.Host) && r.Header.Get("Sec-Fetch-Site") != "same-origin"
}

func (c *Console) trusted(origin string) bool { return slices.Contains(c.opts.TrustedOrigins, origin) }
