package extractor

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// An origin is the scheme, host and port of a URL in one spelling, such as "https://api.example.com:443".
//
// Credentials stay with the origins that the configuration names: api.baseUrl, http.trustedOrigins and, for the requests
// of one job, the origin that its endpoint spells out before any placeholder. A request to any other origin, which an
// API named in a redirect, a link or a placeholder, carries no login, no configured header but harmlessHeaders, no
// default parameter, and no parameter that holds a secret.
type origin struct {
	scheme, host, port string
}

func originOf(u *url.URL) origin {
	o := origin{strings.ToLower(u.Scheme), strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()}
	o.port = cmp.Or(o.port, defaultPorts[o.scheme])
	return o
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

func (o origin) String() string {
	host := o.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if o.port != defaultPorts[o.scheme] {
		host += ":" + o.port
	}
	return o.scheme + "://" + host
}

// covers reports whether credentials of o may go to other, which must be the same origin, or the same host with TLS, each at its
// default port. A host "*.example.com" covers all names below example.com.
func (o origin) covers(other origin) bool {
	sameHost := o.host == other.host
	if below, ok := strings.CutPrefix(o.host, "*"); ok {
		sameHost = strings.HasSuffix(other.host, below) && len(other.host) > len(below)
	}
	upgraded := o == origin{"http", o.host, "80"} && other == origin{"https", other.host, "443"}
	return sameHost && (o.scheme == other.scheme && o.port == other.port || upgraded)
}

// trusts reports whether the credentials of a request may go to a URL. home is the origin of its configured endpoint.
func (pl *plan) trusts(u *url.URL, home origin) bool {
	o := originOf(u)
	return home.covers(o) || originOf(pl.baseURL).covers(o) ||
		slices.ContainsFunc(pl.trusted, func(t origin) bool { return t.covers(o) })
}

// spelledOut matches an endpoint whose scheme and host are written in the configuration, before any placeholder.
var spelledOut = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#{}\\]+([/?#]|$)`)

// home returns the origin that an endpoint of the configuration names. The default is the base URL's.
func (pl *plan) home(endpoint string) origin {
	if spelledOut.MatchString(endpoint) {
		// Placeholders may make a URL invalid, so they are left out.
		before, _, _ := strings.Cut(endpoint, "{")
		if u, err := resolve(pl.baseURL, before); err == nil {
			return originOf(u)
		}
	}
	return originOf(pl.baseURL)
}

// harmlessHeaders do not identify the client. They go to every origin, unless their value holds a secret.
var harmlessHeaders = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Content-Type", "User-Agent",
}

// publicHeaders returns the headers that may go to any origin.
func (pl *plan) publicHeaders(headers []header) []header {
	return slices.DeleteFunc(slices.Clone(headers), func(h header) bool {
		return !slices.Contains(harmlessHeaders, http.CanonicalHeaderKey(h.name)) || pl.secrets.holds(h.value)
	})
}

// publicParams returns the parameters that may go to any origin.
func (pl *plan) publicParams(params tree.Node) tree.Node {
	out := tree.OfObject()
	for _, m := range params.Named().Members() {
		secret := pl.secrets.holds(m.Key)
		m.Value.Leaves(func(_ string, leaf tree.Node) { secret = secret || pl.secrets.holds(leaf.Text()) })
		if !secret {
			out = out.With(m.Key, m.Value)
		}
	}
	return out
}

// parseTrusted reads http.trustedOrigins.
func parseTrusted(h *section) []origin {
	var out []origin
	for i, n := range h.list("trustedOrigins") {
		u, err := url.Parse(n.Str())
		host := ""
		if err == nil {
			host = strings.TrimPrefix(u.Hostname(), "*.")
		}
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || host == "" || strings.Contains(host, "*") ||
			u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			h.p.add(index(h.at("trustedOrigins"), i), `must be an origin such as "https://files.example.com" or "https://*.example.com"`)
			continue
		}
		out = append(out, originOf(u))
	}
	return out
}
