package stream

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// fakeEngine gives every outcome that an engine can have. The real one is tested in package stream_test.
type fakeEngine struct {
	engine  // nil: it accepts no telemetry
	sources map[string]forebay.Source
	ingest  func(ctx context.Context, source string, rec *mapping.Record) (forebay.Result, error)
}

func (f *fakeEngine) SourceWithSecret(id, secret string) (forebay.Source, bool) {
	s := f.sources[id]
	return s, s.Secret != "" && s.Secret == secret
}

func (f *fakeEngine) Ingest(ctx context.Context, source string, rec *mapping.Record, _ *memory) (forebay.Result, error) {
	res, err := f.ingest(ctx, source, rec)
	if err == nil {
		err = res.Err(source)
	}
	return res, err
}

func (f *fakeEngine) IngestBatch(ctx context.Context, source string, recs []*mapping.Record) ([]forebay.Result, error) {
	var results []forebay.Result
	for _, rec := range recs {
		res, err := f.ingest(ctx, source, rec)
		if err != nil {
			return nil, err
		}
		results = append(results, res)
	}
	return results, nil
}

// IngestOnce knows no key. What keys do is tested with the real engine.
func (f *fakeEngine) IngestOnce(
	ctx context.Context, source string, _ forebay.Once, recs []*mapping.Record,
) ([]forebay.Result, error) {
	return f.IngestBatch(ctx, source, recs)
}

// Tracing does nothing. Spans are tested with the real engine.
func (f *fakeEngine) Options() forebay.Options { return forebay.Options{} }

const secret = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"

func newFake(sinks ...forebay.SinkResult) *fakeEngine {
	return &fakeEngine{
		sources: map[string]forebay.Source{
			"web":       {ID: "web", Type: forebay.HTTP, Secret: secret},
			"untyped":   {ID: "untyped", Secret: secret},
			"telemetry": {ID: "telemetry", Type: forebay.OTLP, Secret: secret},
			"off":       {ID: "off", Secret: secret, Disabled: true},
			"open":      {ID: "open"},
		},
		ingest: func(context.Context, string, *mapping.Record) (forebay.Result, error) {
			return forebay.Result{Sinks: sinks}, nil
		},
	}
}

func stored(id string) forebay.SinkResult {
	return forebay.SinkResult{Sink: id, Status: forebay.Stored}
}

func queued(id string) forebay.SinkResult {
	return forebay.SinkResult{Sink: id, Status: forebay.Queued}
}

func refused(id string, status forebay.Status, err error) forebay.SinkResult {
	return forebay.SinkResult{Sink: id, Status: status, Err: err}
}

func post(path, body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// checkAnswer checks the properties of every response.
func checkAnswer(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if id := w.Header().Get("X-Request-Id"); len(id) != 15 {
		t.Errorf("X-Request-Id is %q, want 15 characters", id)
	}
	for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"} {
		if got := w.Header().Get(name); got != "*" {
			t.Errorf("%s is %q, want *", name, got)
		}
	}
	if strings.Contains(w.Body.String(), secret) {
		t.Errorf("the answer contains the secret: %s", w.Body)
	}
}

// checkError checks an error body and returns its message.
func checkError(t *testing.T, w *httptest.ResponseRecorder, status int, name string) string {
	t.Helper()
	checkAnswer(t, w)
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q", got)
	}
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("the body of status %d is not JSON: %v\n%s", w.Code, err, w.Body)
	}
	if w.Code != status || body["statusCode"] != float64(status) || body["error"] != name {
		t.Errorf("answer is %d with body %s, want %d %s", w.Code, w.Body, status, name)
	}
	if id, ok := body["exceptionId"]; ok != (status >= 500) || ok && id != "stream-"+w.Header().Get("X-Request-Id") {
		t.Errorf("exceptionId is %v for status %d", id, status)
	}
	if short, ok := strings.CutPrefix(name, "stream.in."); !ok || !slices.Contains(documentedErrors(t)[short], strconv.Itoa(status)) {
		t.Errorf("%s with status %d is not in the package documentation", name, status)
	}
	message, _ := body["message"].(string)
	if message == "" {
		t.Errorf("body without a message: %s", w.Body)
	}
	return message
}
