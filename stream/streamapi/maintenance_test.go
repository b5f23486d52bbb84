package streamapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// maintained is an engine whose sources are defined in code, with the part of the API that it gets.
type maintained struct {
	t   *testing.T
	eng *forebay.Engine
	mem *buffertest.Memory
	on  *catalog.Maintenance
	api string
}

func newMaintained(t *testing.T) *maintained {
	t.Helper()
	return newMaintainedIn(t, t.TempDir(), buffertest.NewMemory())
}

func newMaintainedIn(t *testing.T, dir string, mem *buffertest.Memory) *maintained {
	t.Helper()
	s := &maintained{t: t, mem: mem}
	var err error
	if s.eng, err = forebay.Open(dir, forebay.Options{Target: s.mem}); err != nil {
		t.Fatal(err)
	}
	s.on = catalog.NewMaintenance(s.eng, catalog.MaintenanceOptions{BranchID: 3})
	h, err := NewMaintenance(s.on, Options{Auth: testAuth{}, IngestURL: "http://127.0.0.1:1", Ingest: stream.Options{ProjectID: 7, BranchID: 3}})
	must(t, err)
	srv := httptest.NewServer(h)
	s.api = srv.URL
	t.Cleanup(func() {
		srv.Close()
		s.on.Close()
		if err := s.eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// define gives the source a sink with a column of a type.
func (s *maintained) define(typ datatype.Type, disabled bool) {
	s.t.Helper()
	err := s.eng.Define(s.t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders", OnReject: forebay.Quarantine, Disabled: disabled,
		Table: forebay.Table{ID: "in.c-shop." + string(typ), Columns: mapping.Columns{mapping.Path("price", "price", mapping.DataType(typ), mapping.Required())}},
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// want sends a request with a token and returns the response, which must have the status and the words.
func (s *maintained) want(status int, words, token, method, path, body string) map[string]any {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.api+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set(tokenHeader, token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	var plain bytes.Buffer
	if json.Compact(&plain, text) == nil {
		text = plain.Bytes()
	}
	if resp.StatusCode != status || !strings.Contains(string(text), words) {
		s.t.Errorf("%s %s: %d %s, want %d with %q", method, path, resp.StatusCode, text, status, words)
	}
	answer := map[string]any{}
	_ = json.Unmarshal(text, &answer) // some responses have no body
	return answer
}

// done starts a task and returns it when it has ended.
func (s *maintained) done(path, body string) map[string]any {
	s.t.Helper()
	task := s.want(202, "", testToken, "POST", path, body)
	for range 10_000 {
		if task["isFinished"] == true {
			return task
		}
		task = s.want(200, "", testToken, "GET", fmt.Sprint("/v1/tasks/", task["taskId"]), "")
	}
	s.t.Fatalf("the task does not end: %v", task)
	return nil
}

// A replay without a catalog is cancelled at any moment, and started again until it completes. Each record becomes one row.
func TestCancelledReplayWithoutACatalog(t *testing.T) {
	s := newMaintained(t)
	s.define(datatype.Int64, false)
	const records = 1500
	recs := make([]*mapping.Record, records)
	for i := range recs {
		recs[i] = mapping.JSON([]byte(`{"price":"x"}`))
	}
	if _, err := s.eng.IngestBatch(t.Context(), "shop", recs); err != nil {
		t.Fatal(err)
	}
	s.define(datatype.String, false)
	cancelled, replayed := 0, 0
	for replayed < records {
		task := s.want(202, "", testToken, "POST", rejects+"/replay", `{"all":true}`)
		if cancelled < 3 {
			s.want(200, "", testToken, "DELETE", rejects+"/replay", "")
		}
		for task["isFinished"] != true {
			task = s.want(200, "", testToken, "GET", fmt.Sprint("/v1/tasks/", task["taskId"]), "")
		}
		if task["status"] == "error" {
			if cancelled++; !strings.Contains(fmt.Sprint(task["error"]), "was cancelled") {
				t.Fatalf("the task is %v", task)
			}
		}
		replayed += int(task["rejects"].(map[string]any)["replayed"].(float64))
		if q := s.eng.Stats().Sinks[0].Quarantine; q.Records != int64(records-replayed) || q.Replayed != int64(replayed) {
			t.Fatalf("%d records were replayed, and the quarantine counts %+v", replayed, q)
		}
	}
	t.Logf("%d replays were cancelled before their end", cancelled)
}

// The records of a sink that no catalog defines are listed, read, tested, edited, replayed and discarded, with the rights of the API.
func TestMaintenanceOfQuarantines(t *testing.T) {
	s := newMaintained(t)
	s.define(datatype.Int64, false)
	for i := range 5 {
		if _, err := s.eng.Ingest(t.Context(), "shop", mapping.JSON(fmt.Appendf(nil, `{"price":"x%d"}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for after := ""; ; {
		page := s.want(200, "malformed", readerToken, "GET", rejects+"?limit=2&afterId="+after, "")
		for _, r := range page["records"].([]any) {
			ids = append(ids, r.(map[string]any)["recordId"].(string))
		}
		of := page["page"].(map[string]any)
		if of["totalCount"] != 5.0 {
			t.Errorf("the page is %v", of)
		}
		if after = of["nextId"].(string); after == "" {
			break
		}
	}
	if len(ids) != 5 {
		t.Fatalf("the list has %v", ids)
	}
	one := rejects + "/" + ids[0]
	s.want(200, `"price\":\"x0`, testToken, "GET", one, "")
	s.want(200, `"passes":false`, testToken, "POST", one+"/test", "")
	s.want(200, `"rejected":1`, testToken, "POST", one+"/replay", "")
	s.want(409, "recordChanged", testToken, "PUT", one+"/body?revision=0", `{"price":1}`)
	s.want(200, `"editedBy":"test"`, testToken, "PUT", one+"/body?revision=1", `{"price":100}`)
	s.want(200, `"passes":true`, testToken, "POST", one+"/test", "")
	s.want(200, `"replayed":1`, testToken, "POST", one+"/replay", "")
	for _, request := range []string{"GET ", "POST /test", "POST /replay", "DELETE ", "PUT /body?revision=2"} {
		method, path, _ := strings.Cut(request, " ")
		s.want(404, "recordNotFound", testToken, method, one+path, "{}")
	}
	s.want(200, "", testToken, "DELETE", rejects+"/"+ids[1]+"?reason=old", "")

	s.want(404, "taskNotFound", testToken, "DELETE", rejects+"/replay", "")
	s.want(403, "forbidden", readerToken, "DELETE", rejects+"/replay", "")
	task := s.done(rejects+"/replay", fmt.Sprintf(`{"recordIds":[%q,%q]}`, ids[1], ids[2]))
	if got := fmt.Sprint(task["status"], task["rejects"]); got != "successmap[discarded:0 gone:1 rejected:1 replayed:0]" {
		t.Errorf("the replay of two is %v", task)
	}
	s.want(200, `"isFinished":true`, testToken, "DELETE", rejects+"/replay", "")
	task = s.done(rejects+"/discard", `{"filter":{"text":"x3"}}`)
	if got := fmt.Sprint(task["status"], task["rejects"]); got != "successmap[discarded:1 gone:0 rejected:0 replayed:0]" {
		t.Errorf("the discard is %v", task)
	}
	s.define(datatype.String, false)
	task = s.done(rejects+"/replay", `{"all":true}`)
	if got := fmt.Sprint(task["status"], task["rejects"]); got != "successmap[discarded:0 gone:0 rejected:0 replayed:2]" {
		t.Errorf("the replay of all is %v", task)
	}
	must(t, s.eng.Flush(t.Context(), "shop"))
	if n, m := len(s.mem.Rows("in.c-shop.int64")), len(s.mem.Rows("in.c-shop.string")); n != 1 || m != 2 {
		t.Errorf("the tables have %d and %d rows", n, m)
	}

	// A wrong request gets the same response as from the whole API.
	s.want(400, "missingField", "", "GET", rejects, "")
	s.want(401, "tokenInvalid", "other", "GET", rejects, "")
	s.want(403, "forbidden", readerToken, "GET", one, "")
	s.want(403, "forbidden", readerToken, "POST", rejects+"/replay", `{"all":true}`)
	s.want(400, "The list has no place", testToken, "GET", rejects+"?afterId=x", "")
	s.want(404, "sinkNotFound", testToken, "GET", b+"/sources/shop/sinks/none/quarantine", "")
	s.want(404, "taskNotFound", testToken, "GET", "/v1/tasks/none", "")
}

// What waits in a quarantine can be seen while the sink is disabled, or no definition has it, and is not mapped then.
func TestMaintenanceOfASinkThatMapsNothing(t *testing.T) {
	s := newMaintained(t)
	s.define(datatype.Int64, false)
	if _, err := s.eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"price":"x"}`))); err != nil {
		t.Fatal(err)
	}
	id := ""
	for r := range s.eng.Sink("shop", "orders").Quarantine().List(t.Context(), forebay.RejectedFilter{}) {
		id = r.ID
	}
	for _, end := range []func() error{
		func() error { s.define(datatype.Int64, true); return nil },
		func() error { return s.eng.Remove(t.Context(), "shop") },
	} {
		must(t, end())
		s.want(200, id, testToken, "GET", rejects, "")
		s.want(200, id, testToken, "GET", rejects+"/"+id, "")
		s.want(409, "sinkDisabled", testToken, "POST", rejects+"/"+id+"/test", "")
		s.want(409, "sinkDisabled", testToken, "POST", rejects+"/"+id+"/replay", "")
		s.want(409, "sinkDisabled", testToken, "POST", rejects+"/replay", `{"all":true}`)
	}
	s.done(rejects+"/discard", `{"all":true}`)
	s.on.Close()
	s.want(503, "shutdown", testToken, "POST", rejects+"/discard", `{"all":true}`)
}

// Nothing that needs or changes a definition is served, nor described.
func TestMaintenanceChangesNoDefinition(t *testing.T) {
	s := newMaintained(t)
	s.define(datatype.Int64, false)
	described := s.want(200, "", "", "GET", documentationPath+"/openapi3.json", "")["paths"].(map[string]any)
	full := newService(t, serviceOptions{})
	served := 0
	for _, op := range full.api.operations() {
		plain := placeholder.ReplaceAllString(op.path, "{$1}")
		if op.maintains() {
			if described[plain] == nil {
				t.Errorf("%s is not described", plain)
			}
			served++
			continue
		}
		if described[plain] != nil {
			t.Errorf("%s is described", plain)
		}
		path := strings.NewReplacer("{branchId}", "default", "{sourceId}", "shop", "{sinkId}", "orders", "{versionNumber}", "1").Replace(plain)
		want := "as in its configuration file"
		if strings.HasSuffix(path, "/rotate-secret") {
			want = "A secret rotates with the keys secret, oldSecret and oldSecretUntil of the source."
		}
		s.want(404, want, testToken, op.method, path, "{}")
	}
	if served != 26 {
		t.Errorf("%d operations are served, want 26", served)
	}
	s.want(200, `"ready":true`, "", "GET", "/readiness-check", "")
}

// A shadow runs, is read and ends without a catalog.
func TestMaintenanceOfShadows(t *testing.T) {
	s := newMaintained(t)
	s.define(datatype.Int64, false)
	const path = b + "/sources/shop/sinks/orders/shadow"
	const columns = `{"mapping":{"columns":[{"type":"path","name":"price","path":"price","dataType":"string","required":true}]}}`
	s.want(404, "shadowNotFound", testToken, "GET", path, "")
	s.want(403, "forbidden", readerToken, "POST", path, columns)
	s.want(400, "", testToken, "POST", path, `{"mapping":{"columns":[{"type":"path","name":"price","path":"a..","dataType":"string"}]}}`)
	s.want(404, "sinkNotFound", testToken, "POST", b+"/sources/shop/sinks/none/shadow", columns)
	s.want(200, `"seen":0`, testToken, "POST", path, columns)
	s.want(409, "shadowIsRunning", testToken, "POST", path, columns)
	if _, err := s.eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"price":"x"}`))); err != nil {
		t.Fatal(err)
	}
	s.want(200, `"onlyChanged":1`, testToken, "DELETE", path, "")
	s.want(200, `"end":"closed"`, testToken, "GET", path, "")
	s.define(datatype.Int64, true)
	s.want(409, "sinkDisabled", testToken, "POST", path, columns)
}
