package streamapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
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

// answer is what a request has got.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// at returns a value of the body by its path; nil when there is none.
func (a answer) at(path string) any {
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

// do sends a request with a token and checks the answer against the description of the API.
func (s *service) do(token, method, path, body string) answer {
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
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &a.body)
	s.described(req, a)
	return a
}

// described fails the test when an answer is not what the description of the API says.
func (s *service) described(req *http.Request, a answer) {
	s.t.Helper()
	if !isClean(req.URL.Path) {
		return // the mux would tell another one
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

// noOthers fails the test when an answer has a member that the description does not have.
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
func (s *service) want(status int, name, token, method, path, body string) answer {
	s.t.Helper()
	a := s.do(token, method, path, body)
	if a.status != status || name != "" && a.body["error"] != name {
		s.t.Fatalf("%s %s: got %d %v, want %d %s\n%s", method, path, a.status, a.body["error"], status, name, a.text)
	}
	return a
}

// get reads something.
func (s *service) get(path string) answer {
	s.t.Helper()
	return s.want(200, "", testToken, "GET", path, "")
}

// task starts a task and waits for it.
func (s *service) task(method, path, body string) answer {
	s.t.Helper()
	a := s.want(202, "", testToken, method, path, body)
	id, _ := a.body["taskId"].(string)
	if _, err := s.cat.Wait(s.t.Context(), id); err != nil {
		s.t.Fatal(err)
	}
	return s.get("/v1/tasks/" + id)
}

// done is task with success.
func (s *service) done(method, path, body string) answer {
	s.t.Helper()
	a := s.task(method, path, body)
	if a.body["status"] != "success" {
		s.t.Fatalf("%s %s: %s", method, path, a.text)
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

const (
	b       = "/v1/branches/default"
	webSink = `{"type":"table","name":"Events","table":{"type":"` + DefaultTableType + `","tableId":"in.c-web.events","mapping":{"columns":[
		{"type":"uuid","name":"id"},{"type":"path","name":"user","path":"user.id","defaultValue":"none","rawString":true},{"type":"body","name":"body"}]}}}`
	webSource = `{"type":"http","name":"Web","sinks":[` + webSink + `]}`
)

func TestAPIStory(t *testing.T) {
	s := newService(t, serviceOptions{})

	created := s.done("POST", b+"/sources", webSource)
	if got := created.at("outputs.url"); got != s.server.URL+"/v1/branches/3/sources/web" {
		t.Errorf("outputs.url is %v", got)
	}
	if created.at("type") != "api.create.source" || created.at("isFinished") != true {
		t.Errorf("task is %s", created.text)
	}
	source := s.get(b + "/sources/web")
	address, _ := source.at("http.url").(string)
	if !strings.HasPrefix(address, s.ingest.URL+"/stream/7/web/") || len(address) != len(s.ingest.URL)+len("/stream/7/web/")+48 {
		t.Fatalf("http.url is %q", address)
	}
	if got := s.send(address, `{"user":{"id":"a"}}`); got != 200 {
		t.Fatalf("event: status %d", got)
	}

	t.Run("settings", func(t *testing.T) {
		setting := func(path, key string) map[string]any {
			list, _ := s.get(path).at("settings").([]any)
			for _, v := range list {
				if m := v.(map[string]any); m["key"] == key {
					return m
				}
			}
			t.Fatalf("%s has no key %s", path, key)
			return nil
		}
		const key = "storage.level.target.import.trigger.interval"
		if got := setting(b+"/sources/web/settings", key); got["value"] != "1m0s" || got["overwritten"] != false {
			t.Errorf("default is %v", got)
		}
		s.done("PATCH", b+"/sources/web/settings", `{"settings":[{"key":"`+key+`","value":"90s"}]}`)
		if got := setting(b+"/sources/web/sinks/events/settings", key); got["value"] != "1m30s" || got["origin"] != "source" || got["overwritten"] != false {
			t.Errorf("inherited is %v", got)
		}
		s.done("PATCH", b+"/sources/web/sinks/events/settings", `{"settings":[{"key":"`+key+`","value":"2m"}]}`)
		if got := setting(b+"/sources/web/sinks/events/settings", key); got["value"] != "2m0s" || got["origin"] != "sink" || got["overwritten"] != true {
			t.Errorf("own is %v", got)
		}
		s.done("PATCH", b+"/sources/web/sinks/events/settings", `{"settings":[{"key":"`+key+`","value":null}]}`)
		if got := setting(b+"/sources/web/sinks/events/settings", key); got["value"] != "1m30s" {
			t.Errorf("after a reset it is %v", got)
		}
	})
	t.Run("versions", func(t *testing.T) {
		s.done("PATCH", b+"/sources/web/sinks/events", `{"description":"second","changeDescription":"Described."}`)
		list := s.get(b + "/sources/web/sinks/events/versions")
		n, _ := list.at("page.totalCount").(float64)
		if list.at("versions.0.number") != 1.0 || list.at(fmt.Sprintf("versions.%d.description", int(n)-1)) != "Described." {
			t.Errorf("versions are %s", list.text)
		}
		if v := s.get(b + "/sources/web/sinks/events/versions/1"); v.at("content.description") != "" || v.at("description") != "New sink." {
			t.Errorf("version 1 is %s", v.text)
		}
		s.done("PUT", b+"/sources/web/sinks/events/versions/1/rollback", "")
		sink := s.get(b + "/sources/web/sinks/events")
		if sink.at("description") != "" || sink.at("version.number") != n+1 || sink.at("version.description") != `Rollback to version "1".` {
			t.Errorf("after the rollback the sink is %s", sink.text)
		}
	})
	t.Run("disable", func(t *testing.T) {
		s.done("PUT", b+"/sources/web/disable", "")
		if got := s.send(address, "{}"); got != 404 {
			t.Errorf("event for a disabled source: status %d", got)
		}
		if sink := s.get(b + "/sources/web/sinks/events"); sink.at("disabled.reason") != "The source is disabled." {
			t.Errorf("sink of a disabled source is %s", sink.text)
		}
		s.done("PUT", b+"/sources/web/sinks/events/disable", "")
		s.done("PUT", b+"/sources/web/enable", "")
		if sink := s.get(b + "/sources/web/sinks/events"); sink.at("disabled.reason") != "API" {
			t.Errorf("sink that is disabled for itself is %s", sink.text)
		}
		s.done("PUT", b+"/sources/web/sinks/events/enable", "")
		if got := s.send(address, `{"user":{"id":"b"}}`); got != 200 {
			t.Errorf("event: status %d", got)
		}
	})
	t.Run("statistics", func(t *testing.T) {
		if total := s.get(b + "/sources/web/sinks/events/statistics/total"); total.at("total.recordsCount") != 2.0 {
			t.Errorf("total is %s", total.text)
		}
		if err := s.eng.Flush(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		if total := s.get(b + "/sources/web/sinks/events/statistics/total"); total.at("levels.target.recordsCount") != 2.0 {
			t.Errorf("total is %s", total.text)
		}
		if a := s.get(b + "/aggregation/sources"); a.at("sources.0.sinks.0.statistics.total.recordsCount") != 2.0 {
			t.Errorf("aggregation is %s", a.text)
		}
		if files := s.get(b + "/sources/web/sinks/events/statistics/files"); files.at("files.0.state") != "imported" {
			t.Errorf("files are %s", files.text)
		}
		s.want(200, "", testToken, "DELETE", b+"/sources/web/sinks/events/statistics/clear", "")
		if total := s.get(b + "/sources/web/sinks/events/statistics/total"); total.at("total.recordsCount") != 0.0 {
			t.Errorf("cleared total is %s", total.text)
		}
	})
	t.Run("payload test", func(t *testing.T) {
		a := s.want(200, "", testToken, "POST", b+"/sources/web/test", `{"user":{"id":"x"}}`)
		if a.at("tables.0.tableId") != "in.c-web.events" || a.at("tables.0.rows.0.columns.1.value") != "none" {
			t.Errorf("without a content type: %s", a.text)
		}
	})
	t.Run("secret", func(t *testing.T) {
		rotated := s.want(200, "", testToken, "POST", b+"/sources/web/rotate-secret", "")
		if got := s.send(address, "{}"); got != 404 {
			t.Errorf("event with the old secret: status %d", got)
		}
		address, _ = rotated.at("http.url").(string)
		if got := s.send(address, "{}"); got != 200 {
			t.Errorf("event with the new secret: status %d", got)
		}
		s.done("PUT", b+"/sources/web/versions/1/rollback", "")
		if got := s.send(address, "{}"); got != 200 {
			t.Errorf("event after a rollback: status %d, the secret must stay", got)
		}
	})
	t.Run("delete", func(t *testing.T) {
		s.done("DELETE", b+"/sources/web", "")
		s.want(404, "stream.api.sourceNotFound", testToken, "GET", b+"/sources/web", "")
		if got := s.send(address, "{}"); got != 404 {
			t.Errorf("event for a deleted source: status %d", got)
		}
		if list := s.get(b + "/sources/deleted"); list.at("sources.0.sourceId") != "web" || list.at("sources.0.deleted.by.tokenId") != "1234" {
			t.Errorf("deleted sources are %s", list.text)
		}
		s.done("PUT", b+"/sources/web/undelete", "")
		if got := s.send(address, "{}"); got != 200 {
			t.Errorf("event after undelete: status %d", got)
		}
		s.get(b + "/sources/web/sinks/events")
	})
	t.Run("restart", func(t *testing.T) {
		before := s.get(b + "/aggregation/sources").text
		s.stop()
		s.start()
		after := s.get(b + "/aggregation/sources")
		if v := after.at("sources.0.version.number"); v == nil {
			t.Fatalf("after a restart: %s\nbefore: %s", after.text, before)
		}
		source := s.get(b + "/sources/web")
		url, _ := source.at("http.url").(string)
		if got := s.send(url, "{}"); got != 200 {
			t.Errorf("event after a restart: status %d", got)
		}
		s.get("/v1/tasks/" + created.body["taskId"].(string))
	})
}

func TestAPIDescription(t *testing.T) {
	s := newService(t, serviceOptions{})
	for _, path := range []string{"openapi.json", "openapi.yaml", "openapi3.json", "openapi3.yaml", ""} {
		a := s.do("", "GET", "/v1/documentation/"+path, "")
		if a.status != 200 || len(a.text) < 1000 {
			t.Errorf("%q: status %d, %d bytes", path, a.status, len(a.text))
		}
	}
	if a := s.get("/v1/documentation/openapi3.json"); a.at("openapi") != "3.1.0" {
		t.Errorf("openapi is %v", a.at("openapi"))
	}
	old := s.get("/v1/documentation/openapi.json")
	if old.at("openapi") != "3.0.3" {
		t.Errorf("openapi is %v", old.at("openapi"))
	}
	// Words of schemas that 3.0 does not have: readers refuse the whole description for one of them.
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				_, list := value.([]any)
				if at[strings.LastIndexByte(at, '/')+1:] != "properties" && slices.Contains([]string{
					"contentMediaType", "contentEncoding", "const", "examples", "$defs", "patternProperties", "prefixItems",
				}, key) || key == "type" && list {
					t.Errorf("%s has %q: %v, which is no part of OpenAPI 3.0", at, key, value)
				}
				walk(at+"/"+key, value)
			}
		case []any:
			for i, value := range v {
				walk(fmt.Sprint(at, "/", i), value)
			}
		}
	}
	walk("", old.body)
	page := s.do("", "GET", "/v1/documentation", "").text
	for _, part := range []string{"src=", "//", "@import", "url("} { // it has all that it needs in itself
		for line := range strings.Lines(page) {
			if strings.Contains(line, part) && !strings.HasPrefix(strings.TrimSpace(line), "//") && !strings.Contains(line, "`   // $") {
				t.Errorf("the page loads something: %s", line)
			}
		}
	}
}
