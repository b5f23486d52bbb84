package streamapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/stream"
)

// service is an engine with its catalog, API and ingestion, each on a real server.
type service struct {
	t      *testing.T
	dir    string
	eng    *forebay.Engine
	cat    *catalog.Catalog
	api    *api
	server *httptest.Server
	ingest *httptest.Server
	opts   serviceOptions
}

type serviceOptions struct {
	engine  forebay.Options
	catalog catalog.Options
	ingest  stream.Options
	auth    Authenticator
}

const testToken = "1234-master"

// tokens of testAuth.
const (
	readerToken  = "1234-reader"
	limitedToken = "1234-limited"
	foreignToken = "99-foreign"
)

const (
	b       = "/v1/branches/default"
	webSink = `{"type":"table","name":"Events","table":{"type":"` + DefaultTableType + `","tableId":"in.c-web.events","mapping":{"columns":[
		{"type":"uuid","name":"id"},{"type":"path","name":"user","path":"user.id","defaultValue":"none","rawString":true},{"type":"body","name":"body"}]}}}`
	webSource = `{"type":"http","name":"Web","sinks":[` + webSink + `]}`
)

// testAuth knows a token of every kind.
type testAuth struct{}

func (testAuth) Verify(_ context.Context, token string) (Identity, error) {
	by := catalog.By{Type: "user", TokenID: strings.Split(token, "-")[0], TokenDesc: "test"}
	switch token {
	case testToken:
		return Identity{ProjectID: 7, Master: true, Admin: true, By: by}, nil
	case readerToken:
		return Identity{ProjectID: 7, Master: true, By: by}, nil
	case limitedToken:
		return Identity{ProjectID: 7, By: by}, nil
	case foreignToken:
		return Identity{ProjectID: 8, Master: true, Admin: true, By: by}, nil
	case "broken":
		return Identity{}, errors.New("a fault of the service")
	case "away":
		return Identity{}, &UnavailableError{RetryAfter: 1500 * time.Millisecond, Err: errors.New("the platform cannot be reached")}
	}
	return Identity{}, invalidToken
}

func newService(t *testing.T, opts serviceOptions) *service {
	t.Helper()
	s := &service{t: t, dir: t.TempDir(), opts: opts}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *service) start() {
	s.t.Helper()
	var err error
	if s.eng, err = forebay.Open(s.dir, s.opts.engine); err != nil {
		s.t.Fatal(err)
	}
	if s.cat, err = catalog.Open(filepath.Join(s.dir, "catalog"), s.eng, s.opts.catalog); err != nil {
		s.t.Fatal(err)
	}
	s.opts.ingest.ProjectID, s.opts.ingest.BranchID = 7, 3
	s.ingest = httptest.NewServer(stream.Ingest(s.eng, s.opts.ingest))
	auth := s.opts.auth
	if auth == nil {
		auth = testAuth{}
	}
	h, err := New(s.cat, Options{Auth: auth, Ingest: s.opts.ingest, IngestURL: s.ingest.URL})
	if err != nil {
		s.t.Fatal(err)
	}
	s.api = h.(*api)
	s.server = httptest.NewServer(h)
}

func (s *service) stop() {
	s.server.Close()
	s.ingest.Close()
	if err := errors.Join(s.cat.Close(), s.eng.Close()); err != nil {
		s.t.Error(err)
	}
}

// response is the response to a request.
type response struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// at returns a value of the body by its path, or nil when there is none.
func (a response) at(path string) any {
	var v any = a.body
	for part := range strings.SplitSeq(path, ".") {
		switch c := v.(type) {
		case map[string]any:
			v = c[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(c) {
				return nil
			}
			v = c[i]
		default:
			return nil
		}
	}
	return v
}

// do sends a request with a token and checks the response against the description of the API.
func (s *service) do(token, method, path, body string) response {
	s.t.Helper()
	req, err := http.NewRequest(method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set(tokenHeader, token)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := response{status: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &a.body)
	s.described(req, a)
	return a
}

// described fails the test if a response does not match the description of the API.
func (s *service) described(req *http.Request, a response) {
	s.t.Helper()
	if !isClean(req.URL.Path) {
		return // the mux would report a different one
	}
	_, pattern := s.api.mux.Handler(req)
	ops := s.api.operations()
	for i := range ops {
		op := &ops[i]
		if pattern != op.method+" "+op.path {
			continue
		}
		item := s.api.docs.spec.Paths[placeholder.ReplaceAllString(op.path, "{$1}")]
		described := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete}[op.method]
		response := described.Responses[strconv.Itoa(a.status)]
		if response == nil {
			if a.status != http.StatusInternalServerError {
				s.t.Errorf("%s %s: the description has no status %d", op.method, op.path, a.status)
			}
			return
		}
		media := response.Content["application/json"]
		if media == nil {
			if a.text != "" {
				s.t.Errorf("%s %s: the description has no body, the answer has %q", op.method, op.path, a.text)
			}
			return
		}
		var res huma.ValidateResult
		huma.Validate(s.api.docs.registry, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, a.body, &res)
		for _, err := range res.Errors {
			s.t.Errorf("%s %s, status %d: not as described: %v\n%s", op.method, op.path, a.status, err, a.text)
		}
		s.noOthers(op.method+" "+op.path, media.Schema, a.body)
		if name, ok := a.body["error"].(string); ok && a.status >= 400 && !strings.Contains(response.Description, name) {
			s.t.Errorf("%s %s, status %d: the error %s is not described", op.method, op.path, a.status, name)
		}
	}
}

// noOthers fails the test when a response has a member that the description does not have.
func (s *service) noOthers(where string, schema *huma.Schema, v any) {
	s.t.Helper()
	properties := map[string]*huma.Schema{}
	var items *huma.Schema
	open := false
	var collect func(schema *huma.Schema)
	collect = func(schema *huma.Schema) {
		if schema.Ref != "" {
			schema = s.api.docs.registry.SchemaFromRef(schema.Ref)
		}
		maps.Copy(properties, schema.Properties)
		if schema.Items != nil {
			items = schema.Items
		}
		_, ofAny := schema.AdditionalProperties.(*huma.Schema)
		open = open || ofAny || schema.Type == "" && len(schema.AllOf) == 0
		for _, part := range schema.AllOf {
			collect(part)
		}
	}
	collect(schema)
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch property := properties[name]; {
			case property != nil:
				s.noOthers(where+"."+name, property, value)
			case !open:
				s.t.Errorf("%s.%s is not described", where, name)
			}
		}
	case []any:
		for _, value := range v {
			if items != nil {
				s.noOthers(where+"[]", items, value)
			}
		}
	}
}

// want does a request and compares the status and, for errors, the name.
func (s *service) want(status int, name, token, method, path, body string) response {
	s.t.Helper()
	a := s.do(token, method, path, body)
	if a.status != status || name != "" && a.body["error"] != name {
		s.t.Fatalf("%s %s: got %d %v, want %d %s\n%s", method, path, a.status, a.body["error"], status, name, a.text)
	}
	return a
}

// get reads something.
func (s *service) get(path string) response {
	s.t.Helper()
	return s.want(200, "", testToken, "GET", path, "")
}

// ended returns a task when it has ended, even if it failed.
func (s *service) ended(id string) (catalog.Task, error) {
	task, err := s.cat.Task(id)
	if err != nil {
		return task, err
	}
	if task, err = task.Wait(s.t.Context()); task.Status == catalog.Failed {
		err = nil
	}
	return task, err
}

// task starts a task and waits for it.
func (s *service) task(method, path, body string) response {
	s.t.Helper()
	a := s.want(202, "", testToken, method, path, body)
	id, _ := a.body["taskId"].(string)
	if _, err := s.ended(id); err != nil {
		s.t.Fatal(err)
	}
	return s.get("/v1/tasks/" + id)
}

// done is task with success.
func (s *service) done(method, path, body string) response {
	s.t.Helper()
	a := s.task(method, path, body)
	if a.body["status"] != "success" {
		s.t.Fatalf("%s %s: got %s, want success", method, path, a.text)
	}
	return a
}

// send posts an event to a source and returns the status.
func (s *service) send(url, body string) int {
	s.t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}
