package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// The page gets its numbers as server-sent events: hello, then full, then a delta for each sample, state when the verdict changes, bye
// when the server ends the stream. Where streams do not pass, the page asks for snapshots, which are hello and full together.

const (
	// comments keep a quiet stream open in proxies that close idle connections.
	keepAliveEvery = 15 * time.Second
	// writeWithin is the time that one event may take to a slow viewer.
	writeWithin = 10 * time.Second
	// rightsAgain is when a stream checks its viewer's rights again: Options.Authorize may return other rights meanwhile, and sessions end.
	rightsAgain = 5 * time.Second
	// schemaVersion is raised when an open page of an earlier release would not understand the messages. It then loads itself again.
	schemaVersion = 2
)

// hello says who looks at what.
type hello struct {
	Schema  int    `json:"schema"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// At is the server's time in milliseconds, Since when the console was made.
	At    int64    `json:"at"`
	Since int64    `json:"since"`
	User  string   `json:"user"`
	May   []string `json:"may"`
	// SignedIn is set if there is a session that can be ended.
	SignedIn bool   `json:"signedIn"`
	Proof    string `json:"proof"`
	Pages    []link `json:"pages"`
}

// link is a page that the caller may open.
type link struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Key    string `json:"key,omitempty"`
	Hidden bool   `json:"hidden,omitempty"`
}

func (c *Console) hello(who caller, now time.Time) hello {
	h := hello{
		Schema: schemaVersion, Name: c.opts.Name, Version: c.opts.Version, At: now.UnixMilli(), Since: c.began.UnixMilli(),
		User: who.user, SignedIn: who.session, Proof: who.proof,
	}
	for right, name := range map[Rights]string{Numbers: "numbers", Records: "records", Changes: "changes"} {
		if who.rights&right != 0 {
			h.May = append(h.May, name)
		}
	}
	slices.Sort(h.May)
	for _, p := range c.pages {
		if who.rights&p.right == p.right {
			h.Pages = append(h.Pages, link{p.name, p.title, p.key, p.hidden})
		}
	}
	return h
}

// message is a full or a delta. A delta has only changes.
type message struct {
	At    int64             `json:"at"`
	Top   json.RawMessage   `json:"top,omitempty"`
	Tasks json.RawMessage   `json:"tasks,omitempty"`
	Head  json.RawMessage   `json:"head,omitempty"`
	Rows  []json.RawMessage `json:"rows,omitempty"` // [key, cells…]
	Order []string          `json:"order,omitempty"`
}

// viewer remembers the last content that a stream has sent.
type viewer struct {
	c     *Console
	who   caller
	page  page
	query url.Values
	// key names page and query.
	key string

	top, tasks []byte
	last       *shownView
}

// viewer returns the viewer that a request asks for, its page, or only the verdict if the page has no live part.
func (c *Console) viewer(r *http.Request, who caller) *viewer {
	v := &viewer{c: c, who: who, query: r.URL.Query()}
	v.page, _ = c.page(v.query.Get("page"), who.rights)
	v.key = v.page.name + "?" + v.query.Encode()
	return v
}

// next returns the changes since the last call. The first call returns everything. verdict is set if the verdict is among them.
func (v *viewer) next(s *sample) (m message, verdict bool) {
	s = s.forRights(v.who.rights)
	m.At = s.at.UnixMilli()
	if top := s.top(); !bytes.Equal(top, v.top) {
		v.top, m.Top, verdict = top, top, true
	}
	if v.who.rights&Changes != 0 {
		now := v.c.tasks.current(s.at)
		for i := range now {
			if now[i].Error != "" && !s.words {
				now[i].Error = "failed." + needsRecords
			}
		}
		if list := encode(now); !bytes.Equal(list, v.tasks) {
			v.tasks, m.Tasks = list, list
		}
	}
	if v.page.live == nil {
		return m, verdict
	}
	shown, last := s.view(v.page, v.query, v.key), v.last
	if v.last = shown; last == nil {
		last = &shownView{}
	}
	if !bytes.Equal(shown.head, last.head) {
		m.Head = shown.head
	}
	for i, line := range shown.lines {
		if !bytes.Equal(line, last.byKey[shown.order[i]]) {
			m.Rows = append(m.Rows, line)
		}
	}
	if last.order == nil || !slices.Equal(shown.order, last.order) {
		m.Order = shown.order
	}
	return m, verdict
}

// encode is for values that this package makes, which are all JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}

// serveSnapshot is hello and full as one response, for pages that poll.
func (c *Console) serveSnapshot(w http.ResponseWriter, r *http.Request, who caller) {
	s := c.sampler.current()
	if s == nil {
		fail(w, http.StatusServiceUnavailable, "The console is closed.")
		return
	}
	v := c.viewer(r, who)
	m, _ := v.next(s)
	at := m.At
	m.At = 0
	h := c.hello(who, time.UnixMilli(0))
	sum := sha256.Sum256(encode([]any{h, m}))
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	m.At, h.At = at, at
	writeJSON(w, http.StatusOK, map[string]any{"hello": h, "full": m})
}

// serveStream sends events until the viewer leaves, the session ends, or the console or the engine is closed.
func (c *Console) serveStream(w http.ResponseWriter, r *http.Request, who caller) {
	to := http.NewResponseController(w)
	deadline := func() error { return to.SetWriteDeadline(time.Now().Add(writeWithin)) }
	if err := deadline(); errors.Is(err, http.ErrNotSupported) {
		w.WriteHeader(http.StatusNoContent) // a time limit of the server would cut the stream again and again, so the page polls instead
		return
	}
	woken, leave, err := c.sampler.join()
	if err != nil {
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, strconv.Itoa(c.opts.MaxViewers)+" viewers are connected already, which is the limit.")
		return
	}
	defer leave()
	defer func() { _ = to.SetWriteDeadline(time.Time{}) }()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	var out bytes.Buffer
	event := func(name string, v any) {
		out.WriteString("event: " + name + "\ndata: ")
		out.Write(encode(v))
		out.WriteString("\n\n")
	}
	send := func() bool {
		err := deadline()
		if err == nil {
			_, err = w.Write(out.Bytes())
		}
		if err == nil {
			err = to.Flush()
		}
		out.Reset()
		return err == nil
	}
	bye := func(why string) {
		event("bye", map[string]string{"why": why})
		send()
	}

	v := c.viewer(r, who)
	out.WriteString("retry: 2000\n\n")
	event("hello", c.hello(who, time.Now()))
	s := c.sampler.newest.Load()
	m, _ := v.next(s)
	event("full", m)
	keepAlive := time.NewTicker(keepAliveEvery)
	defer keepAlive.Stop()
	asked, signedOut := time.Now(), c.ended.count.Load()
	for send() {
		if s.closed {
			bye("closed")
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-keepAlive.C:
			out.WriteString(":\n\n")
			continue
		case <-woken:
		}
		if c.closing.Load() {
			bye("closing")
			return
		}
		if n := c.ended.count.Load(); n != signedOut || time.Since(asked) >= c.rightsEvery {
			asked, signedOut = time.Now(), n
			if is := c.caller(r); is.rights != who.rights || is.user != who.user || is.session != who.session {
				bye("session") // the next request shows the remaining parts
				return
			}
		}
		s = c.sampler.newest.Load()
		m, verdict := v.next(s)
		if verdict {
			event("state", json.RawMessage(m.Top))
			m.Top = nil
		}
		event("delta", m)
	}
}

// frameEndpoints returns the endpoints that belong to no page.
func (c *Console) frameEndpoints() []endpoint {
	return []endpoint{
		{name: "stream", method: http.MethodGet, right: Numbers, raw: c.serveStream},
		{name: "snapshot", method: http.MethodGet, right: Numbers, raw: c.serveSnapshot},
		{name: "signin", method: http.MethodGet, raw: func(w http.ResponseWriter, r *http.Request, _ caller) { c.serveSignIn(w, r, http.StatusOK, "") }},
		{name: "session", method: http.MethodPost, raw: func(w http.ResponseWriter, r *http.Request, _ caller) { c.signIn(w, r) }},
		{name: "session.end", method: http.MethodPost, raw: func(w http.ResponseWriter, r *http.Request, _ caller) {
			c.forget(w, r)
			w.Header().Set("Location", "./")
			w.WriteHeader(http.StatusSeeOther)
		}},
		{name: "task.cancel", method: http.MethodPost, right: Changes, change: true, run: (*request).cancelTask},
	}
}
