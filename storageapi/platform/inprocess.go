package platform

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/forebay/forebay/storageapi"
)

// rightsKey marks the context of a call that a component makes inside of the server: its value are the rights of the
// job. A call from outside cannot have it.
type rightsKey struct{}

// clientFor returns a client of the server itself, with the rights of a job.
func (s *Server) clientFor(r queueRecord) (*storageapi.Client, error) {
	c, err := storageapi.New(storageapi.Options{
		URL: r.Base, QueueURL: r.Base, UserAgent: "component " + r.Component, RunID: r.runID(), Logger: s.log,
		HTTP: &http.Client{Transport: &selfTransport{handler: s, rights: r.Rights}},
	})
	if err != nil {
		return nil, err
	}
	if r.Branch != s.defaultBranch.key() {
		c = c.Branch(r.Branch)
	}
	return c, nil
}

// selfTransport answers requests by the handler, without a network.
type selfTransport struct {
	handler http.Handler
	rights  token
}

// RoundTrip implements [http.RoundTripper]. The handler goes on writing while the body is read, as on a network.
func (t *selfTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := context.WithValue(req.Context(), rightsKey{}, t.rights)
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.Host = req.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	pr, pw := io.Pipe()
	w := &pipeWriter{header: make(http.Header), body: pw, begun: make(chan struct{})}
	go func() {
		t.handler.ServeHTTP(w, in)
		w.begin(http.StatusOK)
		pw.Close()
		in.Body.Close()
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		pr.CloseWithError(ctx.Err())
		<-w.begun
		return nil, ctx.Err()
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: pr, ContentLength: -1, Request: req,
	}, nil
}

// pipeWriter is the http.ResponseWriter of a selfTransport.
type pipeWriter struct {
	header http.Header
	sent   http.Header
	status int
	body   *io.PipeWriter
	once   sync.Once
	begun  chan struct{}
}

// Header implements [http.ResponseWriter].
func (w *pipeWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *pipeWriter) WriteHeader(status int) { w.begin(status) }

func (w *pipeWriter) begin(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.body.Write(p)
}

// jobLog writes what a component logs as events of its job. They are on disk when the call returns.
type jobLog struct {
	s      *Server
	record queueRecord
	row    string
	attrs  []slog.Attr
	group  string
}

// Enabled implements [slog.Handler].
func (l *jobLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements [slog.Handler].
func (l *jobLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *l
	out.attrs = append([]slog.Attr(nil), l.attrs...)
	for _, a := range attrs {
		a.Key = l.group + a.Key
		out.attrs = append(out.attrs, a)
	}
	return &out
}

// WithGroup implements [slog.Handler].
func (l *jobLog) WithGroup(name string) slog.Handler {
	out := *l
	out.group += name + "."
	return &out
}

// Handle implements [slog.Handler].
func (l *jobLog) Handle(_ context.Context, rec slog.Record) error {
	params := make(map[string]any)
	for _, a := range l.attrs {
		params[a.Key] = a.Value.Resolve().Any()
	}
	rec.Attrs(func(a slog.Attr) bool {
		params[l.group+a.Key] = a.Value.Resolve().Any()
		return true
	})
	for name, value := range params {
		if err, ok := value.(error); ok {
			params[name] = err.Error()
		}
	}
	data, err := json.Marshal(params)
	if err != nil {
		data = emptyObject() // an attribute that has no JSON form
	}
	kind := "info"
	switch {
	case rec.Level >= slog.LevelError:
		kind = "error"
	case rec.Level >= slog.LevelWarn:
		kind = "warn"
	}
	return l.s.addEvent(&storageapi.Event{
		Created: now(), Component: l.record.Component, Message: cut(rec.Message, maxEvent/2), Type: kind, ConfigurationID: l.record.Config, RunID: l.record.runID(), Params: data,
		Token: storageapi.TokenRef{ID: storageapi.IntID(l.record.Rights.ID), Description: l.record.Rights.Description},
	})
}
