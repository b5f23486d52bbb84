package extractor

import (
	"context"
	"net/http"
	"slices"

	"github.com/forebay/forebay/extractor/internal/function"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// authConfig says how API requests prove who sends them. Exactly one of its pointers is set.
type authConfig struct {
	login *loginConfig
	oauth *oauthConfig
	fixed *fixedAuth
	hmac  *hmacConfig
	// again are the statuses of API requests after which a login is dropped and repeated, once for each request.
	again []int
}

// A signer adds credentials to the URL and headers of a request.
type signer interface {
	sign(ctx context.Context, r *request) error
	// forget drops the credentials that a request was signed with, and reports whether a new login can replace them.
	forget(r *request) bool
}

// supportedTypes are the values of authentication.type, for messages.
const supportedTypes = "login, basic, bearer, apiKey, query, oauth2, oauth20.login and hmac are"

func parseAuthentication(auth *section, attrOnly place, pl *plan) *authConfig {
	ac := new(authConfig)
	switch kind := auth.text("type", ""); kind {
	case "login":
		ac.login = parseLogin(auth, attrOnly, nil)
		ac.again = parseStatuses(auth, "loginOn", nil)
	case "oauth20.login":
		ac.login = parseLogin(auth, attrOnly, parseGranted(auth.p, pl.authorization))
		ac.again = parseStatuses(auth, "loginOn", nil)
	case "oauth2":
		ac.oauth = parseOAuth(auth, attrOnly)
		ac.again = parseStatuses(auth, "loginOn", []int{http.StatusUnauthorized})
	case "basic":
		ac.fixed = parseBasic(auth, attrOnly, pl)
	case "bearer":
		token := attrOnly.compile(auth.value("token"), auth.at("token"))
		ac.fixed = &fixedAuth{headers: expressionMap{{"Authorization", called(token.path, "concat", literal("Bearer "), token)}}, secrets: []*expression{token}}
	case "apiKey":
		ac.fixed = parseAPIKey(auth, attrOnly)
	case "query":
		ac.fixed = parseQueryAuth(auth, attrOnly)
	case "hmac":
		ac.hmac = parseHMAC(auth, attrOnly)
	case "":
		auth.wrong("type", "is required; "+supportedTypes+" supported")
		return nil
	case "oauth10", "oauth20":
		auth.wrong("type", "authentication %q is not supported; "+supportedTypes+" supported", kind)
		return nil
	default:
		auth.wrong("type", "unknown authentication %q; "+supportedTypes+" supported", kind)
		return nil
	}
	auth.done()
	return ac
}

// parseStatuses reads a list of HTTP statuses.
func parseStatuses(s *section, key string, byDefault []int) []int {
	list := s.integers(key, byDefault)
	if slices.ContainsFunc(list, func(status int) bool { return status < 100 || status > 599 }) {
		s.wrong(key, "must be HTTP statuses")
	}
	return list
}

// value returns a member that must be there, as it is: an expression. Null stands for one that is not.
func (s *section) value(key string) tree.Node {
	n, ok := s.get(key)
	if !ok || n.Kind() == tree.String && n.Str() == "" {
		s.wrong(key, "is required")
	}
	return n
}

// called returns the call of a function on expressions that are compiled already.
func called(path, name string, args ...*expression) *expression {
	f, _ := function.Lookup(name)
	e := &expression{path: path, form: callForm, function: f}
	for _, arg := range args {
		e.members = append(e.members, member{value: arg})
	}
	return e
}

// literal returns a text as an expression.
func literal(text string) *expression { return &expression{literal: tree.OfString(text)} }

// parseBasic reads username and password. By default they are the attributes #username and #password, or the attributes without '#'.
func parseBasic(auth *section, at place, pl *plan) *fixedAuth {
	of := func(key string) *expression {
		n, ok := auth.get(key)
		for _, name := range []string{"#" + key, key} {
			if _, there := pl.attrs[name]; there && !ok {
				n, ok = tree.OfObject(tree.Member{Key: familyAttr, Value: tree.OfString(name)}), true
			}
		}
		if !ok {
			auth.wrong(key, "is required, here or as config.#%s", key)
		}
		return at.compile(n, auth.at(key))
	}
	password := of("password")
	pair := called(auth.path, "concat", of("username"), literal(":"), password)
	value := called(auth.path, "concat", literal("Basic "), called(auth.path, "base64_encode", pair))
	return &fixedAuth{headers: expressionMap{{"Authorization", value}}, secrets: []*expression{password}}
}

func parseAPIKey(auth *section, at place) *fixedAuth {
	name := auth.required("name")
	value := expressionMap{{name, at.compile(auth.value("value"), auth.at("value"))}}
	switch in := auth.text("in", "header"); in {
	case "header":
		return &fixedAuth{headers: value}
	case "query":
		return &fixedAuth{query: value}
	default:
		auth.wrong("in", "must be header or query, not %q", in)
		return new(fixedAuth)
	}
}

// parseQueryAuth reads query parameters with credentials, as configurations of the published extractor have them.
func parseQueryAuth(auth *section, at place) *fixedAuth {
	fa := &fixedAuth{query: at.compileMap(auth, "query")}
	if len(fa.query) == 0 {
		auth.wrong("query", "is required: an object with the parameters")
	}
	for _, m := range fa.query {
		if m.value.partly() {
			auth.p.add(m.value.path, "must be a value, or an expression of attr; a value computed from the request needs the type hmac")
		}
	}
	return fa
}

// partly reports whether an expression is, or has an argument that is, an object or a list that is no reference. Such an object may be a reference to
// something that does not exist in this place.
func (e *expression) partly() bool {
	return e.form == objectForm || e.form == literalForm && e.literal.IsCollection() || slices.ContainsFunc(e.members, func(m member) bool { return m.value.partly() })
}

// fixedAuth sends the same credentials with every request, for basic, bearer and apiKey.
type fixedAuth struct {
	headers, query expressionMap
	// secrets are parts of the values that are secret by themselves.
	secrets []*expression
}

// eval computes the credentials. They are secret even where the configuration spells them out.
func (fa *fixedAuth) eval(pl *plan) (*credentials, error) {
	s := pl.attrScope()
	creds := &credentials{replaces: true}
	var err error
	if creds.headers, err = fa.headers.headers(s); err != nil {
		return nil, err
	}
	query, err := fa.query.eval(s)
	if err != nil {
		return nil, err
	}
	creds.query = pairsOf(query)
	for _, e := range fa.secrets {
		n, err := e.eval(s)
		if err != nil {
			return nil, err
		}
		pl.secrets.addNode(n)
	}
	for _, h := range creds.headers {
		pl.secrets.add(h.value)
	}
	for _, p := range creds.query {
		pl.secrets.add(p.value)
	}
	return creds, nil
}

// A fixedSigner signs with credentials that never change.
type fixedSigner struct{ creds *credentials }

func (fs fixedSigner) sign(_ context.Context, r *request) error {
	fs.creds.sign(r)
	return nil
}

func (fixedSigner) forget(*request) bool { return false }

// signer returns the signer of a client's requests.
func (c *client) signer(keep tokenKeeper) (signer, error) {
	pl := c.plan
	switch ac := pl.auth; {
	case ac == nil:
		return nil, nil
	case ac.fixed != nil:
		creds, err := ac.fixed.eval(pl)
		return fixedSigner{creds}, err
	case ac.hmac != nil:
		return &hmacSigner{ac.hmac, pl}, nil
	case ac.oauth != nil:
		o := &oauthLogin{config: ac.oauth, plan: pl, send: c.do, keep: keep}
		return &authenticator{login: o.login}, nil
	default:
		l := &formLogin{config: ac.login, plan: pl, send: c.do}
		return &authenticator{login: l.login, always: ac.login.always}, nil
	}
}
