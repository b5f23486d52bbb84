package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay"
)

// Console is the handler of the page and its data. It is safe for concurrent use.
type Console struct {
	eng  *forebay.Engine
	opts Options
	// drawn is the token that New has drawn, empty if the options have some.
	drawn string
	// keys sign sessions, one for each of Options.Tokens. pageKey signs the requests of a page without a session of ours.
	keys    []tokenKey
	pageKey []byte
	tries   limiter
	slowly  time.Duration // slowAnswer
	ended   endedSessions
	// rightsEvery is rightsAgain.
	rightsEvery time.Duration
	origins     *http.CrossOriginProtection

	pages     []page
	endpoints map[string]endpoint
	assets    map[string]asset
	began     time.Time
	sampler   sampler
	tasks     tasks
	try       playground
	health    health
	// tailing has a place for each table of tailSlots that is being read. tailWithin is tailTime.
	tailing    chan struct{}
	tailWithin time.Duration
	// tracing has a place for each search of traceSlots that runs. traceWithin is traceTime.
	tracing     chan struct{}
	traceWithin time.Duration

	// ctx ends with Close. background counts the sampler and the tasks.
	ctx        context.Context
	end        context.CancelFunc
	background sync.WaitGroup
	closing    atomic.Bool
}

// New returns a console about an engine. It starts nothing before the first request, unless Options.History asks for it. Close it before the server that it is mounted in is
// shut down, with [http.Server.RegisterOnShutdown] for example. Open streams would hold up the shutdown.
func New(eng *forebay.Engine, opts Options) (*Console, error) {
	if eng == nil {
		return nil, errors.New("console: no engine")
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &Console{eng: eng, opts: opts.withDefaults(), began: time.Now(), origins: http.NewCrossOriginProtection()}
	if len(opts.Tokens) == 0 && opts.Authorize == nil {
		c.drawn = rand.Text()
		c.opts.Tokens = []Token{{Secret: c.drawn, Rights: AllRights}}
	}
	c.opts.Tokens = slices.Clone(c.opts.Tokens)
	for _, origin := range opts.TrustedOrigins {
		if err := c.origins.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	random := sha256.Sum256([]byte(rand.Text()))
	c.pageKey = random[:]
	for i, t := range c.opts.Tokens {
		if t.Name == "" {
			c.opts.Tokens[i].Name = "token"
		}
		c.keys = append(c.keys, newTokenKey(t))
	}
	c.assets = loadAssets()
	c.try.init()
	c.slowly, c.rightsEvery = slowAnswer, rightsAgain
	c.tailing, c.tailWithin = make(chan struct{}, tailSlots), tailTime
	c.tracing, c.traceWithin = make(chan struct{}, traceSlots), traceTime
	c.endpoints = make(map[string]endpoint)
	for _, p := range c.allPages() {
		c.pages = append(c.pages, p)
		for _, e := range p.endpoints {
			c.endpoints[e.name] = e
		}
	}
	for _, e := range c.frameEndpoints() {
		c.endpoints[e.name] = e
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.sampler.init(c)
	if c.opts.HistoryFile != "" {
		if err := c.sampler.loadHistory(time.Now()); err != nil {
			c.opts.Logger.Warn("history of the console not read", "file", c.opts.HistoryFile, "cause", err, "next", "none; the plots start empty")
		}
	}
	if c.opts.History {
		c.background.Go(c.sampler.keepHistory)
	}
	return c, nil
}

// Token returns the token that New has drawn because the options have neither Tokens nor Authorize, or "".
func (c *Console) Token() string { return c.drawn }

// Close ends open streams and waits for tasks that it cancels. The engine stays open. Later requests get status 503.
func (c *Console) Close() error {
	c.closing.Store(true)
	c.end()
	c.sampler.close()
	c.tasks.close()
	c.background.Wait()
	return nil
}

// ServeHTTP routes by the last element of the path, so that it needs no knowledge of the prefix.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	frame(w.Header())
	if !KnownHost(r.Host, c.opts.Hosts...) {
		http.Error(w, "The console does not know this host name. The program that embeds it lists names in console.Options.Hosts.", http.StatusMisdirectedRequest)
		return
	}
	if c.closing.Load() {
		w.Header().Set("Retry-After", "2")
		fail(w, http.StatusServiceUnavailable, "The console is closed.")
		return
	}
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if a, ok := c.assets[name]; ok {
		a.serve(w, r)
		return
	}
	if e, ok := c.endpoints[name]; ok {
		c.serveEndpoint(w, r, e)
		return
	}
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if asked == "" {
		asked = r.URL.Path
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		fail(w, http.StatusNotFound, "There is nothing to change here.")
	case name == "" && strings.HasSuffix(asked, "/"):
		c.serveDocument(w, r)
	case strings.Contains(name, "."):
		fail(w, http.StatusNotFound, "There is no such file.")
	default:
		// The address without its last slash. Relative URLs of the page would lead elsewhere. The redirect is relative too, because only the
		// browser knows the whole path.
		w.Header().Set("Location", "./"+path.Base(asked)+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
	}
}
