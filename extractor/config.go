package extractor

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/extractor/internal/flatten"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// Config is a configuration that was read and checked. It is immutable and safe for concurrent use.
//
// # Requests
//
// The URL of a job is its endpoint resolved against the base URL (RFC 3986). GET sends parameters in the query, POST,
// PUT and PATCH as a JSON body, FORM as a form. A parameter comes from, in rising priority, the query of the endpoint, the defaults
// of the API, the job, and the pagination. Headers of a login replace headers of the same name. A query parameter that
// request and login both have is sent twice, where name[0] is the request's value, name[1] the login's.
//
// A failed request is repeated after 1, 2, 4 and so on seconds, or after the server's Retry-After. See retryConfig. There
// is no jitter unless it is asked for, because configurations rely on these delays. At most 5 redirects are followed.
//
// Credentials stay with the origins that the configuration names. A redirect, a link or a child's endpoint that leads
// to another origin is followed without login, configured headers, default parameters and secrets. The setting http.trustedOrigins
// lists origins that get them too.
//
// # Login
//
// One login serves all requests until it expires. A login expires never, after a number of seconds, or at a time
// that its response names. With expires 0 there is one before every request. A login that fails ends the run with a
// [*RequestError], and no other request is sent.
//
// Instead of a login there may be basic or bearer credentials, an API key, an OAuth 2 grant or an HMAC signature.
//
// # Values
//
// Where parameters and headers are computed, an object is an expression: {"attr": "#token"} is an attribute of config,
// {"response": "auth.token"} a value of the login's response, {"time": "previousStart"} the start of the last run that
// succeeded, and {"function": "md5", "args": [...]} the result of a function, whose arguments may be expressions.
//
// # Pages
//
// The methods are response.url (a link in the response), response.link (a link in a header), response.param (a value of the
// response), response.header (the value of a header), offset, pagenum, cursor (the greatest id so far), and multiple (by
// job). A job ends when its method finds no next page, when limitStop, forceStop or nextPageFlag says so, or when a page
// equals the previous one, which is then not emitted.
type Config struct {
	plans    []*plan
	warnings []Problem
	// identity distinguishes configurations whose checkpoints do not fit each other.
	identity string
}

// Parse reads a configuration, a JSON object with the sections api and config, at the root or below "parameters". What
// is wrong with it is a *ConfigError with everything at once. Functions, attributes and settings are checked here, so
// that nothing is requested by a configuration that cannot work.
func Parse(data []byte) (*Config, error) { return ParseAt(data, "") }

// ParseAt is Parse with baseURL instead of api.baseUrl, for tests and proxies. An empty baseURL changes nothing.
func ParseAt(data []byte, baseURL string) (*Config, error) {
	root, err := tree.Parse(data)
	if err != nil {
		return nil, &ConfigError{Problems: []Problem{{"(root)", "not JSON: " + err.Error()}}}
	}
	p := new(problems)
	cfg := &Config{identity: fingerprint(identifying(root))}
	if s := asSection(p, root, ""); s == nil {
		p.wrong[0].Path = "(root)"
	} else {
		if _, ok := root.Get("parameters"); ok {
			s = s.section("parameters")
		}
		if s != nil {
			granted, _ := root.Get("authorization")
			cfg.plans = parsePlans(p, s, granted, baseURL)
		}
	}
	cfg.warnings = unique(p.unused)
	if len(p.wrong) > 0 {
		return nil, &ConfigError{Problems: unique(p.wrong), Warnings: cfg.warnings}
	}
	return cfg, nil
}

// Warnings returns the keys of the configuration that are not known, and therefore ignored.
func (c *Config) Warnings() []Problem { return slices.Clone(c.warnings) }

// UsesRefreshToken reports whether the login uses a refresh token. The server may replace the token, so the state of each run must be saved.
func (c *Config) UsesRefreshToken() bool {
	return slices.ContainsFunc(c.plans, func(pl *plan) bool {
		return pl.auth != nil && pl.auth.oauth != nil && pl.auth.oauth.grant == grantRefresh
	})
}

// Buckets returns the output buckets of all iterations, each once. The bucket of a configuration without one is "".
func (c *Config) Buckets() []string {
	var names []string
	for _, pl := range c.plans {
		if !slices.Contains(names, pl.output.bucket) {
			names = append(names, pl.output.bucket)
		}
	}
	return names
}

// Jobs returns the ids of the top-level jobs of all iterations in the order in which they run.
func (c *Config) Jobs() []string {
	var ids []string
	for _, pl := range c.plans {
		for _, j := range pl.jobs {
			ids = append(ids, j.id)
		}
	}
	return ids
}

// Debug reports whether the configuration asks for a log of level debug.
func (c *Config) Debug() bool {
	return slices.ContainsFunc(c.plans, func(pl *plan) bool { return pl.debug })
}

// unique drops repeated problems, because every iteration finds the same ones.
func unique(list []Problem) []Problem {
	seen := make(map[Problem]bool)
	return slices.DeleteFunc(list, func(p Problem) bool {
		again := seen[p]
		seen[p] = true
		return again
	})
}

// A plan is one run over the jobs. There is one for each iteration.
type plan struct {
	baseURL *url.URL
	// clientHeaders are headers for every request that does not set them, in levels. Later ones override earlier ones. headers
	// are their values in a run.
	clientHeaders []expressionMap
	headers       []header
	defaults      defaults

	connectTimeout, requestTimeout time.Duration
	ignoreErrors                   []int
	answerRules                    []answerRule
	certificates                   *certificates // nil means the system's
	format                         answerFormat  // of jobs without one
	trusted                        []origin      // in addition to baseURL's
	retry                          retryConfig
	pace                           paceConfig
	parallel                       int         // jobs that run at the same time
	auth                           *authConfig // nil means no authentication
	pagination                     *paginationConfig
	jobs                           []*jobConfig

	output   *output
	userData expressionMap
	attrs    map[string]tree.Node
	secrets  *redactor
	// authorization has the credentials that a user granted. The configuration has it next to the parameters.
	authorization tree.Node
	debug         bool
}

// defaults are the options that every API request of a job starts from.
type defaults struct {
	method  string
	params  tree.Node
	headers []header
}

// output says where the rows of a plan go.
type output struct {
	bucket      string
	incremental bool
	mappings    map[string]*flatten.Layout // by data type
}

// parsePlans reads the section with api and config. The values of granted are the credentials that a user granted to a program.
func parsePlans(p *problems, s *section, granted tree.Node, baseURL string) []*plan {
	api, config := s.section("api"), s.section("config")
	for _, key := range []string{"api", "config"} {
		if n, ok := s.node.Get(key); !ok || n.Kind() == tree.Null {
			s.wrong(key, "is required")
		}
	}
	iterations := s.list("iterations")
	s.skip("authorization")
	s.unsupported("sshProxy", "aws")
	if s.path != "" {
		s.done()
	}
	if api == nil || config == nil {
		return nil
	}
	if len(iterations) == 0 {
		return []*plan{parsePlan(p, api, config, granted, baseURL)}
	}
	var plans []*plan
	for i, changes := range iterations {
		over := asSection(p, changes, index(s.at("iterations"), i))
		if over == nil {
			continue
		}
		merged := config.node.Named()
		for _, m := range over.node.Named().Members() {
			merged = merged.With(m.Key, m.Value)
		}
		a, c := *api, *config
		a.used, c.used, c.node = nil, nil, merged
		plans = append(plans, parsePlan(p, &a, &c, granted, baseURL))
	}
	return plans
}

func parsePlan(p *problems, api, config *section, granted tree.Node, baseURL string) *plan {
	pl := &plan{secrets: new(redactor), authorization: granted, attrs: leaves(config.node.Named().Without("jobs"))}
	for path, n := range pl.attrs {
		if secretPath(path) {
			pl.secrets.addNode(n)
		}
	}
	attrOnly := place{p: p, families: []string{familyAttr}, attrs: pl.attrs}

	pl.parseBaseURL(api, attrOnly, baseURL)
	pl.parseHTTP(api, config, attrOnly)
	if auth := api.section("authentication"); auth != nil && auth.node.Len() > 0 {
		pl.auth = parseAuthentication(auth, attrOnly, pl)
	}
	if pages := api.section("pagination"); pages != nil && pages.node.Len() > 0 {
		pl.pagination = parsePagination(pages, false)
	}
	api.unsupported("sshProxy", "aws")
	pl.certificates = parseCertificates(api, attrOnly, pl)
	name := api.text("name", "generic")
	api.done()

	pl.output = parseOutput(config, name)
	pl.debug = config.boolean("debug", false)
	timed := place{p: p, families: []string{familyAttr, familyTime}, attrs: pl.attrs}
	pl.userData = timed.userData(config)
	jobs := config.list("jobs")
	if n, ok := config.node.Get("jobs"); len(jobs) == 0 && (!ok || n.Len() == 0 && n.Kind() != tree.String) {
		text := "must be a list of at least one job"
		for _, m := range config.node.Named().Members() { // any other key is a parameter of the user
			if m.Value.Kind() == tree.List && m.Value.Len() > 0 && m.Value.Item(0).Kind() == tree.Object && !ok {
				text += fmt.Sprintf("; rename the key %q if it has the jobs", m.Key)
				break
			}
		}
		config.wrong("jobs", "%s", text)
	}
	timed.format = pl.format
	pl.jobs = parseJobs(jobs, config.at("jobs"), timed)
	pl.parallel = parseParallel(config, "parallelJobs")
	checkPositions(p, pl.jobs)
	pl.pagination.check(p, pl.jobs)
	return pl
}

// parseParallel reads how many jobs or children run at the same time.
func parseParallel(s *section, key string) int {
	n := s.natural(key, 1)
	if n < 1 || n > 1000 {
		s.wrong(key, "must be from 1 to 1000")
		return 1
	}
	return int(n)
}

// checkPositions reports jobs that would share a position in the state, and children that cannot have one.
func checkPositions(p *problems, jobs []*jobConfig) {
	known := make(map[string]bool)
	for _, j := range jobs {
		if name := j.position(); name != "" {
			if known[name] {
				p.add(j.path, "another job keeps its position under the name %q too; give them different ids, or names", name)
			}
			known[name] = true
		}
		if j.incremental != nil && j.windows != nil {
			p.add(j.path, "must have one of incremental and windows")
		}
	}
	var below func(jobs []*jobConfig)
	below = func(jobs []*jobConfig) {
		for _, j := range jobs {
			if j.position() != "" {
				p.add(j.path, "a child cannot have incremental or windows")
			}
			below(j.children)
		}
	}
	for _, j := range jobs {
		below(j.children)
	}
}

func (pl *plan) parseBaseURL(api *section, at place, instead string) {
	n, ok := api.get("baseUrl")
	if instead != "" {
		n, ok = tree.OfString(instead), true
	}
	if !ok {
		api.wrong("baseUrl", "is required")
		return
	}
	before := len(at.p.wrong)
	e := at.compile(n, api.at("baseUrl"))
	if len(at.p.wrong) > before {
		return
	}
	v, err := e.eval(pl.attrScope())
	if ve, ok := errors.AsType[*ValueError](err); ok {
		at.p.add(ve.Path, "%v", ve.Err)
		return
	}
	u, err := url.Parse(normalizeURL(strings.TrimSpace(v.Text())))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		api.wrong("baseUrl", "must be an absolute http or https URL")
		return
	}
	pl.baseURL = u
}

func (pl *plan) parseHTTP(api, config *section, at place) {
	pl.connectTimeout, pl.requestTimeout = 30*time.Second, 300*time.Second
	pl.retry = parseRetry(api)
	pl.pace = parsePace(api)
	pl.defaults.params = tree.OfObject()
	var levels []expressionMap
	var required []string
	if h := api.section("http"); h != nil {
		levels = append(levels, at.compileHeaders(h, "headers"))
		for i, n := range h.list("requiredHeaders") {
			if n.Kind() != tree.String {
				at.p.add(index(h.at("requiredHeaders"), i), "must be the name of a header")
			}
			required = append(required, n.Text())
		}
		pl.ignoreErrors = h.integers("ignoreErrors", nil)
		pl.answerRules = parseAnswerRules(h)
		pl.format = parseFormat(h, answerFormat{})
		pl.trusted = parseTrusted(h)
		seconds := func(key string, byDefault time.Duration) time.Duration {
			n, ok := h.get(key)
			f, isNumber := n.Number()
			switch {
			case !ok || n.Empty():
				return byDefault
			case !isNumber || f.Real() <= 0 || f.Real() > 1e9:
				h.wrong(key, "must be a number of seconds")
				return byDefault
			}
			return time.Duration(f.Real() * float64(time.Second))
		}
		pl.connectTimeout = seconds("connectTimeout", pl.connectTimeout)
		pl.requestTimeout = seconds("requestTimeout", pl.requestTimeout)
		if d := h.section("defaultOptions"); d != nil {
			pl.defaults.params = d.object("params")
			pl.defaults.headers = parseHeaders(d)
			pl.defaults.method = parseMethod(d, "")
			d.done()
		}
		h.done()
	}
	own := config.section("http")
	if own != nil {
		levels = append(levels, at.compileHeaders(own, "headers"))
		own.done()
	}
	for _, name := range required {
		var n tree.Node
		if own != nil {
			headers, _ := own.node.Get("headers")
			n, _ = headers.Get(name)
		}
		if n.Empty() && n.Kind() != tree.Object {
			config.wrong("http", "the header %q must have a value in headers (api.http.requiredHeaders)", name)
		}
	}
	if len(at.p.wrong) > 0 {
		return // expressions that cannot be evaluated
	}
	pl.clientHeaders = levels
	if ve, ok := errors.AsType[*ValueError](pl.evalHeaders()); ok {
		at.p.add(ve.Path, "%v", ve.Err)
	}
}

// attrScope is the scope of expressions that may refer only to attributes.
func (pl *plan) attrScope() *scope {
	return &scope{now: time.Now(), values: map[string]map[string]tree.Node{familyAttr: pl.attrs}, found: pl.secrets}
}

// evalHeaders computes the headers of the client, when the configuration is read, to find errors, and for every run.
func (pl *plan) evalHeaders() error {
	s := pl.attrScope()
	pl.headers = nil
	for _, level := range pl.clientHeaders {
		headers, err := level.headers(s)
		if err != nil {
			return err
		}
		for _, h := range headers {
			pl.headers = setHeader(pl.headers, h, strings.EqualFold)
		}
	}
	return nil
}

func parseOutput(config *section, apiName string) *output {
	out := &output{
		bucket: config.text("outputBucket", ""), incremental: config.boolean("incrementalOutput", false),
		mappings: make(map[string]*flatten.Layout),
	}
	if id := config.text("id", ""); out.bucket == "" && id != "" {
		out.bucket = fmt.Sprintf("ex-api-%s-%s", apiName, id)
	}
	if strings.ContainsAny(out.bucket, `/\\`+"\x00") || strings.HasPrefix(out.bucket, ".") {
		config.wrong("outputBucket", "must not begin with a dot or contain slashes")
	}
	for _, m := range config.object("mappings").Members() {
		path := join(config.at("mappings"), m.Key)
		if s := asSection(config.p, m.Value, path); s != nil {
			out.mappings[m.Key] = parseMapping(s)
		}
	}
	return out
}

// mappedTypes returns the data types with a manual layout in order.
func (o *output) mappedTypes() []string { return slices.Sorted(maps.Keys(o.mappings)) }

// parseMethod reads GET, POST, FORM, PUT or PATCH in any case.
func parseMethod(s *section, byDefault string) string {
	if _, ok := s.get("method"); !ok {
		return byDefault
	}
	text := s.text("method", methodGet)
	switch m := strings.ToUpper(text); m {
	case methodGet, methodPost, methodForm, methodPut, methodPatch:
		return m
	}
	s.wrong("method", "must be GET, POST, FORM, PUT or PATCH, not %q", text)
	return methodGet
}

// parseHeaders reads literal headers. A list sends a header several times.
func parseHeaders(s *section) []header {
	var out []header
	for _, m := range s.object("headers").Members() {
		path := join(s.at("headers"), m.Key)
		values := []tree.Node{m.Value}
		if m.Value.Kind() == tree.List {
			values = list(m.Value)
		}
		for _, v := range values {
			if v.IsCollection() || strings.ContainsAny(v.Text(), "\r\n\x00") {
				s.p.add(path, "must be text of one line; expressions are not evaluated here")
				continue
			}
			out = append(out, header{m.Key, v.Text()})
		}
	}
	return out
}
