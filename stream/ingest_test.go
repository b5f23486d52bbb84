package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// fakeEngine gives every outcome that an engine can have. The real one is tested in package stream_test.
type fakeEngine struct {
	sources map[string]forebay.Source
	ingest  func(ctx context.Context, source string, rec *mapping.Record) (forebay.Result, error)
}

func (f *fakeEngine) Source(id string) (forebay.Source, bool) {
	s, ok := f.sources[id]
	return s, ok
}

func (f *fakeEngine) Ingest(ctx context.Context, source string, rec *mapping.Record, _ *memory) (forebay.Result, error) {
	res, err := f.ingest(ctx, source, rec)
	if err == nil {
		err = res.Err(source)
	}
	return res, err
}

func (f *fakeEngine) IngestBatch(ctx context.Context, source string, recs []*mapping.Record) ([]forebay.Result, error) {
	return f.IngestMissing(ctx, source, recs, func(int, string) bool { return false })
}

func (f *fakeEngine) IngestMissing(
	ctx context.Context, source string, recs []*mapping.Record, has func(int, string) bool,
) ([]forebay.Result, error) {
	var results []forebay.Result
	for i, rec := range recs {
		res, err := f.ingest(ctx, source, rec)
		if err != nil {
			return nil, err
		}
		for k, s := range res.Sinks {
			if has(i, s.Sink) {
				res.Sinks[k] = forebay.SinkResult{Sink: s.Sink, Status: forebay.Stored}
			}
		}
		results = append(results, res)
	}
	return results, nil
}

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

// checkAnswer checks what holds for every answer.
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

// documentedErrors returns the statuses of the errors that the package documentation lists, by name. writeFailed stands
// for every status.
func documentedErrors(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "# Errors")
	list, _, _ = strings.Cut(list, "# Differences")
	errs := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(\w+) +(\d{3})  `).FindAllStringSubmatch(list, -1) {
		errs[m[1]] = append(errs[m[1]], m[2])
		errs["writeFailed"] = append(errs["writeFailed"], m[2])
	}
	if len(errs) < 10 {
		t.Fatalf("the list of errors was not found: %v", errs)
	}
	return errs
}

func TestDocumentedErrorsExist(t *testing.T) {
	var code strings.Builder
	for _, name := range []string{"ingest.go", "outcome.go", "respond.go"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	for name := range documentedErrors(t) {
		if !strings.Contains(code.String(), `"stream.in.`+name+`"`) {
			t.Errorf("%s is documented and never sent", name)
		}
	}
}

// Every refusal before the engine, one row each.
func TestTransportErrors(t *testing.T) {
	const path = "/stream/1/web/" + secret
	big := strings.Repeat("x", 1001)
	tests := []struct {
		name   string
		r      *http.Request
		status int
		error  string
	}{
		{"root", post("/", ""), 404, "routeNotFound"},
		{"missing secret", post("/stream/1/web", ""), 404, "routeNotFound"},
		{"one part too many", post(path+"/x", ""), 404, "routeNotFound"},
		{"GET of an unknown path", httptest.NewRequest("GET", "/stream", nil), 404, "routeNotFound"},
		{"GET", httptest.NewRequest("GET", path, nil), 405, "methodNotAllowed"},
		{"HEAD", httptest.NewRequest("HEAD", path, nil), 405, "methodNotAllowed"},
		{"PUT", httptest.NewRequest("PUT", path, strings.NewReader("{}")), 405, "methodNotAllowed"},
		{"DELETE with a wrong secret", httptest.NewRequest("DELETE", "/stream/1/web/x", nil), 405, "methodNotAllowed"},
		{"project is a word", post("/stream/one/web/"+secret, ""), 400, "badRequest"},
		{"project is zero", post("/stream/0/web/"+secret, ""), 400, "badRequest"},
		{"another project", post("/stream/2/web/"+secret, ""), 404, "noSourceFound"},
		{"unknown source", post("/stream/1/nobody/"+secret, ""), 404, "noSourceFound"},
		{"wrong secret", post("/stream/1/web/"+secret[1:]+"M", ""), 404, "noSourceFound"},
		{"prefix of the secret", post("/stream/1/web/"+secret[:20], ""), 404, "noSourceFound"},
		{"another type", post("/stream/1/telemetry/"+secret, ""), 404, "noSourceFound"},
		{"source without a secret", post("/stream/1/open/x", ""), 404, "noSourceFound"},
		{"disabled", post("/stream/1/off/"+secret, ""), 404, "disabledSource"},
		{"disabled, wrong secret", post("/stream/1/off/x", ""), 404, "noSourceFound"},
		{"body too large", post(path, big), 413, "bodyTooLarge"},
		{"chunked body too large", func() *http.Request {
			r := post(path, big)
			r.ContentLength = -1
			return r
		}(), 413, "bodyTooLarge"},
		{"limit around the handler", func() *http.Request {
			r := post(path, big[:1000])
			r.Body = http.MaxBytesReader(nil, r.Body, 500)
			return r
		}(), 413, "bodyTooLarge"},
		{"one large header", func() *http.Request {
			r := post(path, "")
			r.Header.Set("X-Big", strings.Repeat("x", 2000))
			return r
		}(), 413, "headerTooLarge"},
		{"many headers", func() *http.Request {
			r := post(path, "")
			for i := range 200 {
				r.Header.Add("X-Many", fmt.Sprint(i))
			}
			return r
		}(), 413, "headerTooLarge"},
		{"client closes", func() *http.Request {
			r := post(path, "{}")
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
			return r
		}(), 499, "eof"},
		{"client is slow", func() *http.Request {
			r := post(path, "")
			r.Body = io.NopCloser(iotest.ErrReader(fmt.Errorf("read: %w", os.ErrDeadlineExceeded)))
			return r
		}(), 408, "timeout"},
		{"broken chunk", func() *http.Request {
			r := post(path, "")
			r.Body = io.NopCloser(iotest.ErrReader(errors.New("invalid byte in chunk length")))
			return r
		}(), 400, "badRequest"},
	}
	eng := newFake(stored("a"))
	eng.ingest = func(context.Context, string, *mapping.Record) (forebay.Result, error) {
		t.Error("the event reached the engine")
		return forebay.Result{}, nil
	}
	h := newIngestHandler(eng, Options{MaxBodyBytes: 1000, MaxHeaderBytes: 2000})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := serve(h, tt.r)
			checkError(t, w, tt.status, "stream.in."+tt.error)
			if allow := w.Header().Get("Allow"); (allow == "OPTIONS, POST") != (tt.status == 405) {
				t.Errorf("Allow is %q", allow)
			}
			if n := h.bodies.taken.Load(); n != 0 {
				t.Errorf("%d bytes are still reserved", n)
			}
		})
	}
}

// Every outcome of the engine, one row each.
func TestEngineErrors(t *testing.T) {
	const form = "application/x-www-form-urlencoded; charset=utf-8"
	mapped := func(reason mapping.Reason) error {
		return fmt.Errorf("wrapped: %w", &mapping.Error{Column: "user", Reason: reason, Err: errors.New("no such field")})
	}
	tests := []struct {
		name        string
		err         error
		contentType string
		status      int
		error       string
		retryAfter  string
		message     string // a part of it
		logged      bool
	}{
		{"missing value", mapped(mapping.MissingValue), "", 422, "unprocessableContent", "", `column "user": no such field`, false},
		{"malformed JSON", mapped(mapping.InvalidBody), "application/json", 422, "unprocessableContent", "", "user", false},
		{"malformed form", mapped(mapping.InvalidBody), form, 400, "badRequest", "", "user", false},
		{"neither JSON nor form", mapped(mapping.UnsupportedBody), "text/plain", 415, "unsupportedMediaType", "", "user", false},
		{"template", mapped(mapping.TemplateFailed), "", 422, "unprocessableContent", "", "user", false},
		{"budget", mapped(mapping.BudgetExceeded), "", 422, "unprocessableContent", "", "user", false},
		{"row too large", &forebay.RowTooLargeError{Size: 9, Limit: 8}, "", 413, "payloadTooLarge", "", "9 bytes", false},
		{"rows of all sinks too large", &buffer.TooLargeError{Size: 9, Limit: 8}, "", 413, "payloadTooLarge", "", "9 bytes", false},
		{"memory", &buffer.OverloadError{Resource: "memory", RetryAfter: 10 * time.Millisecond}, "", 503, "overloaded", "1", "memory", false},
		{"disk", &buffer.OverloadError{Resource: "disk", RetryAfter: 2500 * time.Millisecond}, "", 503, "overloaded", "3", "disk", false},
		{"failed", &buffer.FailedError{Err: errors.New("inner text")}, "", 503, "noPipelineReady", "2", "unknown", false},
		{"closed", forebay.ErrClosed, "", 503, "shutdown", "1", "stopping", false},
		{"deadline", context.DeadlineExceeded, "", 503, "noPipelineReady", "1", "unknown", false},
		{"cancelled", context.Canceled, "", 499, "eof", "", "client", false},
		{"anything else", errors.New("inner text"), "", 500, "genericError", "", "exception id", true},
	}
	for _, tt := range tests {
		newRequest := func() *http.Request {
			r := post("/stream/1/web/"+secret, `{"a":1}`)
			r.Header.Set("Content-Type", tt.contentType)
			return r
		}
		check := func(t *testing.T, w *httptest.ResponseRecorder, log string) {
			if got := w.Header().Get("Retry-After"); got != tt.retryAfter {
				t.Errorf("Retry-After is %q, want %q", got, tt.retryAfter)
			}
			if strings.Contains(w.Body.String(), "inner text") {
				t.Errorf("internals in the answer: %s", w.Body)
			}
			if strings.Contains(log, "inner text") != tt.logged || strings.Contains(log, secret) {
				t.Errorf("log is %q", log)
			}
			if tt.logged && !strings.Contains(log, w.Header().Get("X-Request-Id")) {
				t.Errorf("log without the request id: %q", log)
			}
		}
		t.Run(tt.name+"/whole record", func(t *testing.T) {
			eng := newFake()
			eng.ingest = func(context.Context, string, *mapping.Record) (forebay.Result, error) {
				return forebay.Result{}, tt.err
			}
			var log bytes.Buffer
			w := serve(newIngestHandler(eng, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), newRequest())
			if m := checkError(t, w, tt.status, "stream.in."+tt.error); !strings.Contains(m, tt.message) {
				t.Errorf("message is %q, want %q in it", m, tt.message)
			}
			check(t, w, log.String())
		})
		t.Run(tt.name+"/one of two sinks", func(t *testing.T) {
			eng := newFake(stored("b"), refused("a", forebay.Failed, tt.err))
			var log bytes.Buffer
			w := serve(newIngestHandler(eng, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), newRequest())
			if m := checkError(t, w, tt.status, "stream.in.writeFailed"); m != "1/2 sinks written" {
				t.Errorf("message is %q", m)
			}
			check(t, w, log.String())
			var body resultBody
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			sinks := body.Sources[0].Sinks
			if a := sinks[0]; a.SinkID != "a" || a.StatusCode != tt.status || a.Error != "stream.in."+tt.error {
				t.Errorf("failed sink is %+v", a)
			}
			if b := sinks[1]; b != (sinkResult{SinkID: "b", StatusCode: 200, Message: "processed"}) {
				t.Errorf("good sink is %+v", b)
			}
		})
	}
}

// A source can vanish between the check of the secret and the call of the engine.
func TestSourceRemovedMeanwhile(t *testing.T) {
	for name, err := range map[string]error{
		"stream.in.noSourceFound": forebay.ErrUnknownSource, "stream.in.disabledSource": forebay.ErrDisabledSource,
	} {
		eng := newFake()
		eng.ingest = func(context.Context, string, *mapping.Record) (forebay.Result, error) {
			return forebay.Result{}, fmt.Errorf("source %q: %w", "web", err)
		}
		checkError(t, serve(newIngestHandler(eng, Options{}), post("/stream/1/web/"+secret, "x")), 404, name)
	}
}

func TestSuccess(t *testing.T) {
	tests := []struct {
		name   string
		sinks  []forebay.SinkResult
		status int
	}{
		{"stored", []forebay.SinkResult{stored("a"), stored("b")}, 200},
		{"one in memory", []forebay.SinkResult{stored("a"), queued("b")}, 202},
		{"no sink", nil, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, source := range []string{"web", "untyped"} {
				w := serve(newIngestHandler(newFake(tt.sinks...), Options{}), post("/stream/1/"+source+"/"+secret+"?verbose=1", "x"))
				checkAnswer(t, w)
				if w.Code != tt.status || w.Body.String() != "OK" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
					t.Errorf("answer is %d %q %v", w.Code, w.Body, w.Header())
				}
			}
		})
	}
}

func TestVerbose(t *testing.T) {
	tests := []struct {
		name  string
		sinks []forebay.SinkResult
		code  int
		want  string
	}{
		{"both", []forebay.SinkResult{queued("b"), stored("a")}, 202, `{
  "statusCode": 202,
  "message": "2/2 sinks written",
  "sources": [
    {
      "projectId": 7,
      "sourceId": "web",
      "branchId": 9,
      "statusCode": 202,
      "message": "2/2 sinks written",
      "sinks": [
        {
          "sinkId": "a",
          "statusCode": 200,
          "message": "processed"
        },
        {
          "sinkId": "b",
          "statusCode": 202,
          "message": "accepted"
        }
      ]
    }
  ]
}
`},
		{"none", nil, 200, `{
  "statusCode": 200,
  "message": "no enabled sink, the event was dropped",
  "sources": [
    {
      "projectId": 7,
      "sourceId": "web",
      "branchId": 9,
      "statusCode": 200,
      "message": "no enabled sink, the event was dropped"
    }
  ]
}
`},
		{"rejected", []forebay.SinkResult{refused("a", forebay.Rejected, &mapping.Error{
			Column: "user", Reason: mapping.MissingValue, Err: errors.New("the body has no field"),
		})}, 422, `{
  "statusCode": 422,
  "error": "stream.in.writeFailed",
  "message": "0/1 sinks written",
  "sources": [
    {
      "projectId": 7,
      "sourceId": "web",
      "branchId": 9,
      "statusCode": 422,
      "error": "stream.in.writeFailed",
      "message": "0/1 sinks written",
      "sinks": [
        {
          "sinkId": "a",
          "statusCode": 422,
          "error": "stream.in.unprocessableContent",
          "message": "column \"user\": the body has no field"
        }
      ]
    }
  ]
}
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newIngestHandler(newFake(tt.sinks...), Options{ProjectID: 7, BranchID: 9})
			w := serve(h, post("/stream/7/web/"+secret+"?verbose=true", "x"))
			checkAnswer(t, w)
			if w.Code != tt.code || w.Body.String() != tt.want || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("answer is %d %v\n%s\nwant %d\n%s", w.Code, w.Header(), w.Body, tt.code, tt.want)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	// A preflight request is answered alike for every source: it must not tell which ones exist.
	for _, path := range []string{"/stream/1/web/" + secret, "/stream/1/nobody/x"} {
		w := serve(newIngestHandler(newFake(), Options{}), httptest.NewRequest(http.MethodOptions, path, nil))
		checkAnswer(t, w)
		for name, want := range map[string]string{
			"Allow": "OPTIONS, POST", "Access-Control-Allow-Methods": "OPTIONS, POST", "Access-Control-Allow-Headers": "*",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("answer is %d %q", w.Code, w.Body)
		}
	}
}

func TestRecord(t *testing.T) {
	eng := newFake()
	var got struct {
		source, body string
		host         string
		header       http.Header
		ip           netip.Addr
		received     time.Time
		format       mapping.Format
	}
	eng.ingest = func(_ context.Context, source string, rec *mapping.Record) (forebay.Result, error) {
		got.source, got.body, got.header = source, string(rec.Body), maps.Clone(rec.Header)
		got.host = rec.Host
		got.ip, got.received, got.format = rec.ClientIP, rec.Received, rec.Format
		return forebay.Result{Sinks: []forebay.SinkResult{stored("a")}}, nil
	}
	h := newIngestHandler(eng, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	before := time.Now()
	body := "\x1f\x8b not really gzip \x00\xff"
	r := post("/stream/1/web/"+secret, body)
	r.Host = "in.example.com"
	r.Header = http.Header{
		"Content-Language": {"en"}, "Authorization": {"Bearer x"}, "X-Twice": {"1", "2"}, "X-Forwarded-For": {"203.0.113.9"},
	}
	want := r.Header.Clone()
	if w := serve(h, r); w.Code != 200 {
		t.Fatalf("answer is %d %s", w.Code, w.Body)
	}
	if got.host != "in.example.com" || got.source != "web" || got.body != body || got.ip != netip.MustParseAddr("203.0.113.9") || got.format != mapping.FormatFromHeader {
		t.Errorf("record is %+v", got)
	}
	if !maps.EqualFunc(got.header, want, func(a, b []string) bool { return strings.Join(a, "|") == strings.Join(b, "|") }) {
		t.Errorf("headers are %v, want %v", got.header, want)
	}
	if _, ok := r.Header["Host"]; ok {
		t.Error("the request was changed")
	}
	if got.received.Before(before) || got.received.After(time.Now()) {
		t.Errorf("received at %v", got.received)
	}
	// Nothing of a request may be seen in the next one.
	if w := serve(h, post("/stream/1/web/"+secret, "")); w.Code != 200 {
		t.Fatalf("answer is %d %s", w.Code, w.Body)
	}
	if got.body != "" || len(got.header) != 0 || got.host != "example.com" {
		t.Errorf("second record is %+v", got)
	}
}

// The headers that mappings see are those of the request with its Host, also where they cannot be shared with it.
func TestRecordHost(t *testing.T) {
	for name, tt := range map[string]struct {
		host   string
		sent   http.Header
		hidden []string
		want   string
	}{
		"shared":      {"in.example.com", http.Header{"A": {"1"}, "X": {"2"}}, nil, `{"A":"1","Host":"in.example.com","X":"2"}`},
		"in both":     {"in.example.com", http.Header{"Host": {"other"}}, nil, `{"Host":"in.example.com"}`},
		"empty":       {"", http.Header{"A": {"1"}}, nil, `{"A":"1","Host":""}`},
		"one hidden":  {"in.example.com", http.Header{"A": {"1"}, "X": {"2"}}, []string{"x"}, `{"A":"1","Host":"in.example.com"}`},
		"host hidden": {"in.example.com", http.Header{"A": {"1"}}, []string{"host"}, `{"A":"1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			mapper, err := mapping.Compile(mapping.Columns{mapping.Headers("h")}, mapping.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var row []byte
			eng := newFake()
			eng.ingest = func(_ context.Context, _ string, rec *mapping.Record) (forebay.Result, error) {
				row, err = mapper.AppendRow(nil, rec)
				return forebay.Result{Sinks: []forebay.SinkResult{stored("a")}}, err
			}
			r := post("/stream/1/web/"+secret, "{}")
			r.Host, r.Header = tt.host, tt.sent
			before := r.Header.Clone()
			if w := serve(newIngestHandler(eng, Options{HiddenHeaders: tt.hidden}), r); w.Code != 200 {
				t.Fatalf("answer is %d %s", w.Code, w.Body)
			}
			if got := strings.ReplaceAll(strings.Trim(string(row), "\"\n"), `""`, `"`); got != tt.want {
				t.Errorf("mappings see %s, want %s", got, tt.want)
			}
			if !maps.EqualFunc(r.Header, before, slices.Equal) {
				t.Errorf("the request was changed to %v", r.Header)
			}
		})
	}
}

// The memory of a request is free while its row waits for the disk, and is given back once.
func TestMemoryIsFreeDuringTheWait(t *testing.T) {
	eng := newFake(stored("a"))
	h := newIngestHandler(&releasingEngine{eng, func(h *ingestHandler) {
		if n := h.bodies.taken.Load(); n != 0 {
			t.Errorf("%d bytes are taken during the wait", n)
		}
	}}, Options{})
	for range 3 {
		if w := serve(h, post("/stream/1/web/"+secret, "{}")); w.Code != 200 {
			t.Fatalf("answer is %d %s", w.Code, w.Body)
		}
		if n := h.bodies.taken.Load(); n != 0 {
			t.Fatalf("%d bytes are taken after the request", n)
		}
	}
}

// releasingEngine releases the memory as the real one does, and then waits.
type releasingEngine struct {
	*fakeEngine
	wait func(*ingestHandler)
}

func (e *releasingEngine) Ingest(ctx context.Context, source string, rec *mapping.Record, mem *memory) (forebay.Result, error) {
	res, err := e.fakeEngine.Ingest(ctx, source, rec, mem)
	h := mem.h
	mem.release()
	e.wait(h)
	return res, err
}

// Bodies of every size around the steps of the reader, announced or not, in whole or in single bytes.
func TestBodySizes(t *testing.T) {
	eng := newFake()
	var got []byte
	eng.ingest = func(_ context.Context, _ string, rec *mapping.Record) (forebay.Result, error) {
		got = append(got[:0], rec.Body...)
		return forebay.Result{}, nil
	}
	const limit = 100_000
	h := newIngestHandler(eng, Options{MaxBodyBytes: limit, MaxBufferedBytes: limit + 1})
	full := bytes.Repeat([]byte("0123456789abcdef-"), limit/17+1)
	for _, size := range []int{0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 32768, 65536, 65537, limit - 1, limit, limit + 1} {
		for _, announced := range []bool{true, false} {
			for _, wrap := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
			} {
				r := httptest.NewRequest(http.MethodPost, "/stream/1/web/"+secret, wrap(bytes.NewReader(full[:size])))
				r.ContentLength = -1
				if announced {
					r.ContentLength = int64(size)
				}
				w := serve(h, r)
				if size > limit {
					checkError(t, w, 413, "stream.in.bodyTooLarge")
				} else if w.Code != 200 || !bytes.Equal(got, full[:size]) {
					t.Errorf("size %d, announced %v: answer %d, %d bytes ingested", size, announced, w.Code, len(got))
				}
				if n := h.bodies.taken.Load(); n != 0 {
					t.Fatalf("size %d: %d bytes are still reserved", size, n)
				}
			}
		}
	}
}

// A client that has announced a large body and sends nothing takes one step of the bound, not the announced size.
func TestBufferedBytesBound(t *testing.T) {
	eng := newFake(stored("a"))
	h := newIngestHandler(eng, Options{MaxBodyBytes: 100_000, MaxBufferedBytes: 100_000})

	const path = "/stream/1/web/" + secret
	type slowBody struct {
		reader *io.PipeReader
		writer *io.PipeWriter
		done   chan *httptest.ResponseRecorder
	}
	var slow []slowBody
	for range 6 { // 6 steps of 16 KB leave less than one step
		s := slowBody{done: make(chan *httptest.ResponseRecorder, 1)}
		s.reader, s.writer = io.Pipe()
		r := httptest.NewRequest(http.MethodPost, path, s.reader)
		r.ContentLength = 90_000
		go func() { s.done <- serve(h, r) }()
		if _, err := s.writer.Write([]byte("x")); err != nil { // returns when the handler has read it
			t.Fatal(err)
		}
		slow = append(slow, s)
	}
	w := serve(h, post(path, strings.Repeat("x", 2000)))
	checkError(t, w, 503, "stream.in.overloaded")
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
	}
	if w := serve(h, post(path, "small")); w.Code != 200 {
		t.Errorf("a small event beside the slow ones: %d %s", w.Code, w.Body)
	}
	for _, s := range slow {
		s.writer.CloseWithError(io.ErrUnexpectedEOF)
		checkError(t, <-s.done, 499, "stream.in.eof")
	}
	if n := h.bodies.taken.Load(); n != 0 {
		t.Errorf("%d bytes are still reserved", n)
	}
	if w := serve(h, post(path, strings.Repeat("x", 2000))); w.Code != 200 {
		t.Errorf("after the slow requests: %d %s", w.Code, w.Body)
	}
}

func TestOptionsValidate(t *testing.T) {
	bad := Options{
		ProjectID: -1, BranchID: -1, MaxBodyBytes: 5 << 20, MaxHeaderBytes: 10, MaxBufferedBytes: 1,
		TrustedProxies: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104")},
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{
		"ProjectID", "BranchID", "MaxBodyBytes", "MaxHeaderBytes", "MaxBufferedBytes", "TrustedProxies[0]", "TrustedProxies[1]",
	} {
		if !strings.Contains(err.Error(), "Options."+field+" is") {
			t.Errorf("%s is not in the error:\n%v", field, err)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("zero options: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a handler was made of bad options")
		}
	}()
	newIngestHandler(newFake(), bad)
}

func TestRequestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		id := newRequestID()
		if len(id) != 15 || strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyz") != "" || seen[id] {
			t.Fatalf("bad or repeated id %q", id)
		}
		seen[id] = true
	}
}

// discard is a ResponseWriter that allocates nothing itself.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header               { return d.header }
func (d *discard) Write(b []byte) (int, error)       { return len(b), nil }
func (d *discard) WriteString(s string) (int, error) { return len(s), nil }
func (d *discard) WriteHeader(int)                   {}

// The handler itself allocates the request id, the list that holds it in the header, and the loan of its memory: nothing
// that grows with the request, and no context.
func TestIngestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	result := []forebay.SinkResult{stored("a")}
	eng := &fakeEngine{
		sources: map[string]forebay.Source{"web": {ID: "web", Secret: secret}},
		ingest: func(context.Context, string, *mapping.Record) (forebay.Result, error) {
			return forebay.Result{Sinks: result}, nil
		},
	}
	h := newIngestHandler(eng, Options{})
	body := bytes.NewReader(bytes.Repeat([]byte("x"), 50_000))
	r := httptest.NewRequest(http.MethodPost, "/stream/1/web/"+secret, body)
	r.Header.Set("Content-Type", "application/json")
	w := &discard{header: make(http.Header)}
	n := testing.AllocsPerRun(200, func() {
		body.Seek(0, io.SeekStart)
		clear(w.header)
		h.ServeHTTP(w, r)
	})
	if n > 3 {
		t.Errorf("%v allocations per request, want at most 3", n)
	}
}

// Run: go test ./stream -run ^$ -bench Ingest
func BenchmarkIngest(b *testing.B) {
	result := []forebay.SinkResult{stored("a")}
	eng := newFake()
	eng.ingest = func(context.Context, string, *mapping.Record) (forebay.Result, error) {
		return forebay.Result{Sinks: result}, nil
	}
	for _, size := range []int{150, 1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			h := newIngestHandler(eng, Options{})
			body := bytes.NewReader(bytes.Repeat([]byte("x"), size))
			r := httptest.NewRequest(http.MethodPost, "/stream/1/web/"+secret, body)
			r.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"x"}, "Accept-Encoding": {"gzip"}}
			w := &discard{header: make(http.Header)}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				body.Seek(0, io.SeekStart)
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}
