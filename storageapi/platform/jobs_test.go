package platform_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-j.t", nil, "a")
	file := w.upload("f", "a\n1\n")
	job := must(w.WithRunID("77.1").StartImport(ctx, "in.c-j.t", storageapi.Import{FileID: file}))(t)
	if job.OperationName != "tableImport" || job.RunID == nil || *job.RunID != "77.1" || job.TableID == nil || !strings.HasSuffix(job.URL, "/v2/storage/jobs/"+job.ID.String()) {
		t.Errorf("job %+v", job)
	}
	if !strings.Contains(string(job.OperationParams), fmt.Sprintf(`"fileId":%d`, file)) {
		t.Errorf("params %s", job.OperationParams)
	}
	job = must(w.WaitForJob(ctx, job.ID))(t)
	if !job.Finished() || job.EndTime.IsZero() || job.StartTime.IsZero() || job.Metrics.InBytes == 0 {
		t.Errorf("finished job %+v", job)
	}
	_, err := w.Job(ctx, 1)
	expectError(t, err, 404, "storage.jobs.notFound")
	list := must(storageapi.Collect(w.Jobs(ctx, storageapi.JobQuery{Status: []string{"success"}})))(t)
	if len(list) != 2 || list[0].ID != job.ID {
		t.Errorf("jobs %+v", list)
	}
	if list = must(storageapi.Collect(w.Jobs(ctx, storageapi.JobQuery{ExcludedStatus: []string{"success"}})))(t); len(list) != 0 {
		t.Errorf("jobs %+v", list)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	first := must(w.CreateEvent(ctx, storageapi.EventCreate{Component: "c", Message: "one", RunID: "5", Params: raw(`{"a":1}`)}))(t)
	must(w.CreateEvent(ctx, storageapi.EventCreate{Component: "c", Message: "two", Type: "warn"}))(t)
	list := must(storageapi.Collect(w.Events(ctx, storageapi.EventQuery{})))(t)
	if len(list) != 2 || list[0].Message != "two" || list[1].ID != first {
		t.Errorf("events %+v", list)
	}
	if list = must(storageapi.Collect(w.Events(ctx, storageapi.EventQuery{RunID: "5"})))(t); len(list) != 1 || string(list[0].Params) != `{"a":1}` {
		t.Errorf("events of the run %+v", list)
	}
	_, err := w.CreateEvent(ctx, storageapi.EventCreate{Component: "c", Message: "x", Type: "loud"})
	expectError(t, err, 400, "storage.events.validation")
	one, two := must(w.Ticket(ctx))(t), must(w.Ticket(ctx))(t)
	if two <= one {
		t.Errorf("tickets %d, %d", one, two)
	}
}

// Lists in a query are written with or without numbers, and times alone or as bounds.
func TestFiltersOfLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-j.t", nil, "a")
	must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: "n", Tags: []string{"x", "y"}}))(t)
	job := must(storageapi.Collect(w.Jobs(ctx, storageapi.JobQuery{})))(t)[0]
	at := url.QueryEscape(job.CreatedTime.Format(storageapi.TimeFormat))
	for path, n := range map[string]int{
		"/jobs?storage_job_status[]=success":                                   1,
		"/jobs?storage_job_status[0]=error":                                    0,
		"/jobs?storage_job_status[0]=error&storage_job_status[1]=success":      1,
		"/jobs?excluded_storage_job_status[0]=success":                         0,
		"/jobs?created_time=" + at:                                             1,
		"/jobs?created_time=2020-01-01":                                        0,
		"/jobs?created_time_from=2020-01-01&created_time_to=2020-01-02":        0,
		"/jobs?created_time_from=2020-01-01&end_time_from=1577836800":          1,
		"/files?tags[0]=none":                                                  0,
		"/files?tags[3]=y&tags[1]=none":                                        1,
		"/files?tags%5B%5D=x&limit=0":                                          1,
		"/branch/default/search/component-configurations?metadataKeys[0]=none": 0,
	} {
		a := w.raw("GET", "/v2/storage"+path, "", "")
		var list []any
		if err := json.Unmarshal(a.body, &list); err != nil || len(list) != n {
			t.Errorf("%s: got %d %s, want %d", path, a.status, a.body, n)
		}
	}
}

// An id that is no number is the id of nothing, and the error quotes it unchanged.
func TestIDsThatAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, code := range map[string]string{
		"GET /files/abc":           "storage.files.notFound",
		"GET /files/-1/content":    "storage.files.notFound",
		"PUT /files/abc/refresh":   "storage.files.notFound",
		"DELETE /files/abc":        "storage.files.notFound",
		"DELETE /files/abc/tags/x": "storage.files.notFound",
		"GET /jobs/abc":            "storage.jobs.notFound",
		"GET /events/abc":          "storage.events.notFound",
		"GET /tokens/abc":          "storage.tokens.notFound",
		"DELETE /tokens/abc":       "storage.tokens.notFound",
		"POST /tokens/abc/refresh": "storage.tokens.notFound",
		"GET /dev-branches/abc":    "storage.devBranch.notFound",
		"DELETE /dev-branches/abc": "storage.devBranch.notFound",
		"GET /branch/abc/buckets":  "storage.devBranch.notFound",
		"GET /tables/abc":          "storage.tables.notFound",
		"GET /tables/a.b":          "storage.tables.notFound",
		"GET /buckets/abc":         "storage.buckets.notFound",
	} {
		method, rest, _ := strings.Cut(path, " ")
		a := w.raw(method, "/v2/storage"+rest, "", "")
		var body struct{ Error, Code string }
		check(t, json.Unmarshal(a.body, &body))
		id := strings.Split(rest, "/")[2]
		if a.status != 404 || body.Code != code || !strings.Contains(body.Error, `"`+id+`"`) || strings.Contains(body.Error, `bucket "`+id+`"`) && code != "storage.buckets.notFound" {
			t.Errorf("%s: got %d %s, want 404 %s with the id", path, a.status, a.body, code)
		}
	}
}

// An event keeps all that it is made of, and a run id that cannot be searched for is refused.
func TestFieldsOfEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.raw("POST", "/v2/storage/events", formType, "component=c&message=m&duration=1.5&configurationId=7&runId=5.1&params=%7B%22a%22%3A1%7D&results=%7B%7D")
	if a.status != 201 {
		t.Fatalf("got %d %s, want 201", a.status, a.body)
	}
	e := w.raw("GET", "/v2/storage/events/"+a.decode(t)["id"].(string), "", "").decode(t)
	if e["duration"] != 1.5 || e["runId"] != "5.1" || e["configurationId"] != "7" || e["params"].(map[string]any)["a"] != 1.0 {
		t.Errorf("event %v", e)
	}
	for _, body := range []string{
		`{"component":"c","message":"m","runId":"a\u0000b"}`, `{"component":"c","message":"m","duration":"long"}`, `{"component":"c","message":"m","duration":-1}`,
		`{"component":"c","message":"m","duration":"NaN"}`,
	} {
		if a := w.raw("POST", "/v2/storage/events", jsonType, body); a.status != 400 || !strings.Contains(string(a.body), "storage.events.validation") {
			t.Errorf("%s: got %d %s, want a.status == 400 and strings.Contains(string(a.body), \"storage.events.validation\")", body, a.status, a.body)
		}
	}
	if a := w.raw("POST", "/v2/storage/events", jsonType, `{"component":"c","message":"`+strings.Repeat("x", 201<<10)+`"}`); a.status != 400 {
		t.Errorf("a large event: %d", a.status)
	}
}

// Lists that are longer than a page are read to their end, each item once, the newest first.
func TestPagesOfLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	const n = 205
	for i := range n {
		must(w.CreateEvent(ctx, storageapi.EventCreate{Component: "c", Message: fmt.Sprint(i), RunID: "5"}))(t)
		must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: fmt.Sprint(i), Tags: []string{"x", "y"}}))(t)
	}
	newestFirst := func(what string, names []string) {
		t.Helper()
		if len(names) != n {
			t.Errorf("%s: got %d items, want %d", what, len(names), n)
			return
		}
		for i, name := range names {
			if name != fmt.Sprint(n-1-i) {
				t.Errorf("%s: item %d is %s, want %d", what, i, name, n-1-i)
				return
			}
		}
	}
	for what, q := range map[string]storageapi.EventQuery{"events": {}, "events of a run": {RunID: "5"}} {
		var names []string
		for e, err := range w.Events(ctx, q) {
			check(t, err)
			names = append(names, e.Message)
		}
		newestFirst(what, names)
	}
	for what, q := range map[string]storageapi.FileQuery{"files": {}, "files of tags": {Tags: []string{"y", "x"}}} {
		var names []string
		for f, err := range w.Files(ctx, q) {
			check(t, err)
			names = append(names, f.Name)
		}
		newestFirst(what, names)
	}
	for _, query := range []string{"limit=-1", "limit=x", "limit=100000", "offset=-1", "offset=99999999999"} {
		for _, path := range []string{"/events", "/files", "/jobs"} {
			if a := w.raw("GET", "/v2/storage"+path+"?"+query, "", ""); a.status != 400 || !strings.Contains(string(a.body), `"storage.validation"`) {
				t.Errorf("%s?%s: got %d %s, want 400 storage.validation", path, query, a.status, a.body)
			}
		}
	}
}
