package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// documentedErrors returns the statuses of the errors that the comment of Ingest lists, by name. writeFailed stands
// for every status.
func documentedErrors(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("handler.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "# Errors")
	list, _, _ = strings.Cut(list, "# Telemetry")
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
	for _, name := range []string{"handler.go", "result.go", "internal/wire/body.go", "internal/wire/failure.go"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	for name := range documentedErrors(t) {
		if !strings.Contains(code.String(), name+`"`) {
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
	h := newHandler(eng, Options{MaxBodyBytes: 1000, MaxHeaderBytes: 2000})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := serve(h, tt.r)
			checkError(t, w, tt.status, "stream.in."+tt.error)
			if allow := w.Header().Get("Allow"); (allow == "OPTIONS, POST") != (tt.status == 405) {
				t.Errorf("Allow is %q", allow)
			}
			if n := h.bodies.Taken(); n != 0 {
				t.Errorf("%d bytes are still reserved, want 0", n)
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
		{"fenced", &buffer.FencedError{Instance: "inner text", Err: buffer.ErrFenced}, "", 503, "noPipelineReady", "2", "Another node", false},
		{"closed", forebay.ErrClosed, "", 503, "shutdown", "1", "stopping", false},
		{"deadline", context.DeadlineExceeded, "", 503, "overloaded", "1", "was not stored", false},
		{"deadline during the wait", &buffer.UnknownError{Err: context.DeadlineExceeded}, "", 503, "noPipelineReady", "1", "unknown", false},
		{"end during the wait", &buffer.UnknownError{Err: context.Canceled}, "", 503, "noPipelineReady", "1", "unknown", false},
		{"full after a portion", &buffer.UnknownError{Err: &buffer.OverloadError{}}, "", 503, "noPipelineReady", "1", "unknown", false},
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
			w := serve(newHandler(eng, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), newRequest())
			if m := checkError(t, w, tt.status, "stream.in."+tt.error); !strings.Contains(m, tt.message) {
				t.Errorf("message is %q, want %q in it", m, tt.message)
			}
			check(t, w, log.String())
		})
		t.Run(tt.name+"/one of two sinks", func(t *testing.T) {
			eng := newFake(stored("b"), refused("a", forebay.Failed, tt.err))
			var log bytes.Buffer
			w := serve(newHandler(eng, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), newRequest())
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
			if b := sinks[1]; b != (sinkResult{"b", partResult{StatusCode: 200, Message: "processed"}}) {
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
		checkError(t, serve(newHandler(eng, Options{}), post("/stream/1/web/"+secret, "x")), 404, name)
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
				w := serve(newHandler(newFake(tt.sinks...), Options{}), post("/stream/1/"+source+"/"+secret+"?verbose=1", "x"))
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
			h := newHandler(newFake(tt.sinks...), Options{ProjectID: 7, BranchID: 9})
			w := serve(h, post("/stream/7/web/"+secret+"?verbose=true", "x"))
			checkAnswer(t, w)
			if w.Code != tt.code || w.Body.String() != tt.want || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("answer is %d %v\n%s\nwant %d\n%s", w.Code, w.Header(), w.Body, tt.code, tt.want)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	// A preflight request gets the same response for every source because it must not tell which ones exist.
	for _, path := range []string{"/stream/1/web/" + secret, "/stream/1/nobody/x"} {
		w := serve(newHandler(newFake(), Options{}), httptest.NewRequest(http.MethodOptions, path, nil))
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
	newHandler(newFake(), bad)
}
