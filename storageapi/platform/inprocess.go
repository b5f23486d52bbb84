package platform

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/storageapi"
)

// rightsKey marks the context of a call from a component inside the server. The value is the rights of its job. Calls from
// outside cannot have it.
type rightsKey struct{}

// newJobKey marks the context of such a call that makes a storage job. The value is the id of the job.
type newJobKey struct{}

// errRunEnded is the error of a component that uses its run after the end.
var errRunEnded = errors.New("the run of the component has ended")

// errAnswered ends the context of a handler that has ended by itself.
var errAnswered = errors.New("the call has its response")

// runLife bounds one run's use of the server. After end, nothing of the run is active.
type runLife struct {
	s      *Server
	ctx    context.Context // ends with the run
	cancel context.CancelFunc

	mu    sync.RWMutex // held for reading by what must end before the run does. It guards over
	over  bool
	calls sync.WaitGroup // handlers that are at work for the run, added to with mu held
}

func newRunLife(s *Server) *runLife {
	l := &runLife{s: s}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// end ends the run and waits for its calls, so that none is active when the server closes.
func (l *runLife) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.cancel()
	l.calls.Wait()
}

// begin registers a call of the run. It reports false after the end.
func (l *runLife) begin() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.over {
		return false
	}
	l.calls.Add(1)
	return true
}

// client returns a client of the server itself, with the rights of a job.
func (l *runLife) client(r queueRecord) (*storageapi.Client, error) {
	c, err := storageapi.New(storageapi.Options{
		URL: r.Base, QueueURL: r.Base, UserAgent: "component " + r.Component, RunID: r.runID(), Logger: l.s.log,
		HTTP: &http.Client{Transport: &selfTransport{life: l, handler: l.s, rights: r.Rights}},
	})
	if err != nil {
		return nil, err
	}
	if r.Branch != l.s.defaultBranch.key() {
		c = c.Branch(r.Branch)
	}
	return c, nil
}

// selfTransport sends requests to the handler without a network.
type selfTransport struct {
	life    *runLife
	handler http.Handler
	rights  token
}

// RoundTrip implements [http.RoundTripper]. The handler continues to write while the body is read, as on a network, until
// the request or the run ends.
func (t *selfTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.life.begin() {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, errRunEnded
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(req.Context(), rightsKey{}, t.rights))
	unbind := context.AfterFunc(t.life.ctx, func() { cancel(errRunEnded) })
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.Host = req.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	pr, pw := io.Pipe()
	w := &pipeWriter{header: make(http.Header), body: pw, begun: make(chan struct{})}
	// Neither a body that is not read to its end nor one that does not come keeps the handler when the context ends.
	unpipe := context.AfterFunc(ctx, func() {
		pr.CloseWithError(context.Cause(ctx))
		in.Body.Close()
	})
	go func() {
		defer t.life.calls.Done()
		t.handler.ServeHTTP(w, in)
		w.begin(http.StatusOK)
		pw.Close()
		in.Body.Close()
		unpipe() // the end is still to be read
		unbind()
		cancel(errAnswered)
	}()
	if err := w.await(ctx); err != nil {
		return nil, err
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

// await waits until the response has begun. The error is the cause of ctx if that ended first. A handler may have ended before its caller
// gets here. Then both have happened, and there is a response.
func (w *pipeWriter) await(ctx context.Context) error {
	select {
	case <-w.begun:
	case <-ctx.Done():
		<-w.begun
		if cause := context.Cause(ctx); !errors.Is(cause, errAnswered) {
			return cause
		}
	}
	return nil
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.body.Write(p)
}

// jobLog writes the log of a component as events of its job. An event is on disk when the call returns. Nothing is written
// after the run.
type jobLog struct {
	life   *runLife
	record queueRecord
	mask   mask
	attrs  []slog.Attr // with the names of their groups
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

// maxParams bounds the attributes of one record. Longer ones are not kept, their message is.
const maxParams = maxEvent / 2

// Handle implements [slog.Handler].
func (l *jobLog) Handle(_ context.Context, rec slog.Record) error {
	params := make(map[string]any)
	for _, a := range l.attrs {
		addParam(params, "", a)
	}
	rec.Attrs(func(a slog.Attr) bool {
		addParam(params, l.group, a)
		return true
	})
	data, err := jsontext.Marshal(params)
	data = []byte(l.mask.apply(string(data)))
	if err != nil || len(data) > maxParams || !json.Valid(data) {
		data = emptyObject() // an attribute that has no JSON form, too much of them, or a number that is a secret
	}
	kind := "info"
	switch {
	case rec.Level >= slog.LevelError:
		kind = "error"
	case rec.Level >= slog.LevelWarn:
		kind = "warn"
	}
	l.life.mu.RLock()
	defer l.life.mu.RUnlock()
	if l.life.over {
		return errRunEnded
	}
	return l.life.s.addEvent(&storageapi.Event{
		Created: now(), Component: l.record.Component, Message: cut(l.mask.apply(rec.Message), maxEvent/2), Type: kind, ConfigurationID: l.record.Config, RunID: l.record.runID(), Params: data,
		Token: storageapi.TokenRef{ID: storageapi.IntID(l.record.Rights.ID), Description: l.record.Rights.Description},
	})
}

// addParam adds an attribute, one of a group under the names of both.
func addParam(params map[string]any, group string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range value.Group() {
			addParam(params, group, member)
		}
		return
	}
	switch v := value.Any().(type) {
	case error:
		params[group+a.Key] = v.Error()
	case time.Duration:
		params[group+a.Key] = v.String()
	default:
		params[group+a.Key] = v
	}
}
