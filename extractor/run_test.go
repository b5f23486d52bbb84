package extractor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var seen []extractor.Progress
	a := newAPI(t, `[1,2]`, "503 Wait: 0.001\n", `[3]`, `[]`)
	r := extract(t, a, config(`"retryConfig": {"http": {"retryHeader": "Wait"}}, "pagination": {"method": "pagenum"}`, `"jobs": [{"endpoint": "u", "id": "j"}]`),
		func(_ *extractor.State, o *extractor.Options) {
			o.Progress = func(p extractor.Progress) { seen = append(seen, p) }
		})
	checkError(t, r.err, "")
	var got []string
	for _, p := range seen {
		got = append(got, fmt.Sprintf("%s: %d requests, %d retries, %d pages, %d records, %d bytes", p.Job, p.Requests, p.Retries, p.Pages, p.Records, p.Bytes))
		if p.BytesPerSecond() <= 0 {
			t.Errorf("no rate after %s", p.Elapsed)
		}
	}
	same(t, "progress", got, []string{
		"j: 1 requests, 0 retries, 1 pages, 2 records, 5 bytes", "j: 2 requests, 1 retries, 1 pages, 2 records, 5 bytes", "j: 3 requests, 1 retries, 2 pages, 3 records, 8 bytes",
		"j: 4 requests, 1 retries, 3 pages, 3 records, 10 bytes", ": 4 requests, 1 retries, 3 pages, 3 records, 10 bytes",
	})
	var last extractor.Progress
	r = extract(t, newAPI(t, `[1,2]`, "401 \n"), config(`"pagination": {"method": "pagenum"}`, `"jobs": [{"endpoint": "u"}]`), func(_ *extractor.State, o *extractor.Options) {
		o.Progress = func(p extractor.Progress) { last = p }
	})
	checkError(t, r.err, "returned 401")
	if last.Requests != 2 || last.Pages != 1 {
		t.Errorf("%d requests and %d pages are told of a run that failed, want 2 and 1", last.Requests, last.Pages)
	}
	if (extractor.Progress{Bytes: 5}).BytesPerSecond() != 0 {
		t.Error("a rate without time")
	}
}

// A fake API with 3 pages for each method, as a function of the request. Pages of the same number are equal, so a run
// that is interrupted anywhere must end with the same records as one that is not.
var resumable = []struct {
	name, pagination string
	answers          map[string]string
	job              string // more members of both jobs
}{
	{name: "response.url", pagination: `"method": "response.url", "limitStop": {"count": 5}`, answers: map[string]string{
		"/a?k=1": `{"d": [{"n": 1}, {"n": 2}], "next_page": "/a?c=x"}`, "/a?c=x": `{"d": [{"n": 3}, {"n": 4}], "next_page": "?c=y"}`, "/a?c=y": `{"d": [{"n": 5}], "next_page": "?c=z"}`,
	}},
	{name: "offset", pagination: `"method": "offset", "limit": 2`, answers: map[string]string{
		"/a?k=1&limit=2&offset=0": `[{"n": 1}, {"n": 2}]`, "/a?k=1&limit=2&offset=2": `[{"n": 3}, {"n": 4}]`, "/a?k=1&limit=2&offset=4": `[{"n": 5}]`,
	}},
	{name: "pagenum", pagination: `"method": "pagenum", "forceStop": {"pages": 3}`, answers: map[string]string{
		"/a?k=1&page=1": `[{"n": 1}, {"n": 2}]`, "/a?k=1&page=2": `[{"n": 3}, {"n": 4}]`, "/a?k=1&page=3": `[{"n": 5}]`,
	}},
	{name: "response.param", pagination: `"method": "response.param", "responseParam": "t", "queryParam": "t", "forceStop": {"volume": 80}`, answers: map[string]string{
		"/a?k=1": `{"d": [{"n": 1}, {"n": 2}], "t": 5.0}`, "/a?t=5": `{"d": [{"n": 3}, {"n": 4}], "t": "y"}`, "/a?t=y": `{"d": [{"n": 5}], "t": "z"}`,
	}},
	{name: "cursor", pagination: `"method": "cursor", "idKey": "n", "param": "after"`, answers: map[string]string{
		"/a?k=1": `[{"n": 1}, {"n": 2}]`, "/a?k=1&after=2": `[{"n": 4}, {"n": 3}]`, "/a?k=1&after=4": `[{"n": 5}]`, "/a?k=1&after=5": `[]`,
	}},
	{name: "large cursor", pagination: `"method": "cursor", "idKey": "n", "param": "after", "increment": 1`, answers: map[string]string{
		"/a?k=1": `[{"n": 18446744073709551614}]`, "/a?k=1&after=18446744073709551615": `[{"n": 18446744073709551616}]`, "/a?k=1&after=18446744073709551617": `[]`,
	}},
	{name: "identical page", pagination: `"method": "pagenum"`, answers: map[string]string{
		"/a?k=1&page=1": `[{"n": 1}, {"n": 2}]`, "/a?k=1&page=2": `[{"n": 3}, {"n": 4}]`, "/a?k=1&page=3": `[{"n": 3}, {"n": 4}]`,
	}},
	{name: "response.link", pagination: `"method": "response.link"`, answers: map[string]string{
		"/a?k=1": "Link: <?c=x>; rel=next\n" + `[{"n": 1}, {"n": 2}]`, "/a?c=x": "Link: </a?c=y>; rel=\"next\"\n" + `[{"n": 3}, {"n": 4}]`, "/a?c=y": "Link: </a>; rel=prev\n" + `[{"n": 5}]`,
	}},
	{name: "response.header", pagination: `"method": "response.header", "header": "X-Next", "queryParam": "t", "includeParams": true`, answers: map[string]string{
		"/a?k=1": "X-Next: 7\n" + `[{"n": 1}, {"n": 2}]`, "/a?k=1&t=7": "X-Next: y z\n" + `[{"n": 3}, {"n": 4}]`, "/a?k=1&t=y+z": `[{"n": 5}]`,
	}},
	{name: "numbers in bodies", job: `, "method": "PUT"`, pagination: `"method": "pagenum", "pageParam": "p.n", "limit": 2, "limitParam": "p.size", "paramDelimiter": "."`, answers: map[string]string{
		`/a {"k":1,"p":{"n":1,"size":2}}`: `[{"n": 1}, {"n": 2}]`, `/a {"k":1,"p":{"n":2,"size":2}}`: `[{"n": 3}, {"n": 4}]`, `/a {"k":1,"p":{"n":3,"size":2}}`: `[]`,
		`/b {"k":1,"p":{"n":1,"size":2}}`: `[]`,
	}},
	{name: "values of answers in bodies", job: `, "method": "POST", "dataField": "d"`, pagination: `"method": "response.param", "responseParam": "p.end", "queryParam": "v.after", "includeParams": true, "paramDelimiter": "."`, answers: map[string]string{
		`/a {"k":1}`: `{"d": [{"n": 1}, {"n": 2}], "p": {"end": 7}}`, `/a {"k":1,"v":{"after":7}}`: `{"d": [{"n": 3}, {"n": 4}], "p": {"end": {"of": "x"}}}`,
		`/a {"k":1,"v":{"after":{"of":"x"}}}`: `{"d": [{"n": 5}], "p": {"end": null}}`, `/b {"k":1}`: `{"d": []}`,
	}},
	{name: "CSV", job: `, "format": "csv"`, pagination: `"method": "response.link"`, answers: map[string]string{
		"/a?k=1": "Link: <?c=x>; rel=next\n" + "n,s\n1,\"a\nb\"\n", "/a?c=x": "Link: <?c=y>; rel=next\n" + "n,s\n2,\n", "/a?c=y": "n,s\n", "/b?k=1": "n\n",
	}},
	{name: "lines of JSON", job: `, "format": "ndjson"`, pagination: `"method": "offset", "limit": 2`, answers: map[string]string{
		"/a?k=1&limit=2&offset=0": "{\"n\": 1}\n{\"n\": 2}\n", "/a?k=1&limit=2&offset=2": "{\"n\": 3}\r\n{\"n\": 4}", "/a?k=1&limit=2&offset=4": "\n", "/b?k=1&limit=2&offset=0": "",
	}},
	{name: "XML", job: `, "format": "xml", "dataField": "l.i"`, pagination: `"method": "response.url", "urlKey": "l.@next"`, answers: map[string]string{
		"/a?k=1": `<l next="?c=x"><i n="1"/><i n="2"/></l>`, "/a?c=x": `<l next="?c=y&amp;d=1"><i n="3"/></l>`, "/a?c=y&d=1": `<l/>`, "/b?k=1": `<l/>`,
	}},
}

// TestResume stops a run at every callback in turn, as a crash would, and resumes from the last state that was saved.
func TestResume(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	for _, test := range resumable {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newRoutedAPI(t, test.answers, map[string]string{"/b?k=1": `[]`, "/b?k=1&page=1": `[]`, "/b?k=1&limit=2&offset=0": `[]`})
			cfg := config(`"pagination": {`+test.pagination+`}`, `"#secret": "s", "jobs": [{"endpoint": "a", "params": {"k": 1}`+test.job+`}, {"endpoint": "b", "params": {"k": 1}`+test.job+`}]`)
			whole := extract(t, a, cfg, nil)
			checkError(t, whole.err, "")
			// Every page was asked for, each once.
			requests := a.asked()
			own := len(slices.DeleteFunc(slices.Sorted(maps.Keys(test.answers)), func(asked string) bool { return strings.HasPrefix(asked, "/b") }))
			if len(requests) != own+1 || len(slices.Compact(slices.Sorted(slices.Values(requests)))) != own+1 {
				t.Errorf("requests %q", requests)
			}
			for at := 1; ; at++ {
				calls := 0
				step := func() error {
					if calls++; calls == at {
						return crash
					}
					return nil
				}
				var saved extractor.State
				var kept []string
				first := extract(t, a, cfg, func(_ *extractor.State, o *extractor.Options) {
					emit := o.Emit
					o.Emit = func(ctx context.Context, p *extractor.Page) error {
						if err := step(); err != nil { // before anything of the page is kept
							return err
						}
						for rec := range p.Records() {
							kept = append(kept, p.DataType+": "+string(rec.JSON()))
						}
						return emit(ctx, p)
					}
					o.Checkpoint = func(_ context.Context, s extractor.State) error {
						if err := step(); err != nil { // before the position is kept
							return err
						}
						text, err := json.Marshal(s)
						if err == nil {
							saved = extractor.State{}
							err = json.Unmarshal(text, &saved)
						}
						return err
					}
				})
				if first.err == nil {
					if at < 6 {
						t.Fatalf("only %d steps", at)
					}
					break
				}
				if !errors.Is(first.err, crash) {
					t.Fatal(first.err)
				}
				// Another secret does not make it another configuration.
				before := len(a.asked())
				second := extract(t, a, strings.Replace(cfg, `"#secret": "s"`, `"#secret": "new"`, 1), func(s *extractor.State, _ *extractor.Options) { *s = saved })
				checkError(t, second.err, "")
				done := len(requests)
				if saved.Checkpoint == nil {
					done = 0
				} else if cp := saved.Checkpoint; cp.Job == 0 {
					done = int(cp.Pages)
				} else if cp.Job == 1 {
					done--
				}
				same(t, fmt.Sprintf("requests after a crash at step %d", at), a.asked()[before:], requests[done:])
				// The page whose position was lost comes again. That is all.
				got := append(kept, second.records...)
				for len(got) > len(whole.records) {
					n := len(kept)
					again := len(got) - len(whole.records)
					same(t, "repeated records", second.records[:again], kept[n-again:])
					got = append(kept[:n-again:n-again], second.records...)
					break
				}
				same(t, fmt.Sprintf("records after a crash at step %d", at), got, whole.records)
				if second.state.Checkpoint != nil || second.state.Time.PreviousStart == 0 {
					t.Errorf("state %+v", second.state)
				}
			}
		})
	}
}

// TestCheckpointOutlivesSettings changes settings that users change after a failed run, and settings that make it a different run.
func TestCheckpointOutlivesSettings(t *testing.T) {
	t.Parallel()
	const pages, jobs = `"pagination": {"method": "pagenum"}`, `"#s": "x", "jobs": [{"endpoint": "a"}]`
	first := extract(t, newAPI(t, `[1]`, `400`), config(pages, jobs), nil)
	checkError(t, first.err, "returned 400")
	for name, test := range map[string]struct {
		config string
		goesOn bool
	}{
		"debug":            {config(pages, `"debug": true, `+jobs), true},
		"secret":           {config(pages, strings.Replace(jobs, `"x"`, `"y"`, 1)), true},
		"retries":          {config(`"retryConfig": {"maxRetries": 3}, `+pages, jobs), true},
		"timeouts":         {config(`"http": {"connectTimeout": 5, "requestTimeout": 6}, `+pages, jobs), true},
		"trusted origins":  {config(`"http": {"trustedOrigins": ["http://o"]}, `+pages, jobs), true},
		"no parameters":    {strings.TrimSuffix(strings.TrimPrefix(config(pages, `"debug": 1, `+jobs), `{"parameters": `), "}"), false},
		"headers":          {config(`"http": {"headers": {"A": "1"}}, `+pages, jobs), false},
		"a parameter":      {config(pages, strings.Replace(jobs, `"a"`, `"a", "params": {"debug": true}`, 1)), false},
		"another endpoint": {config(pages, strings.Replace(jobs, `"a"`, `"b"`, 1)), false},
	} {
		a := newAPI(t, `[2]`, `[]`)
		r := extract(t, a, test.config, func(s *extractor.State, _ *extractor.Options) { *s = first.state })
		checkError(t, r.err, "")
		if goesOn := strings.Contains(a.asked()[0], "page=2"); goesOn != test.goesOn {
			t.Errorf("%s: the run goes on: %v, requests %s, want %v", name, goesOn, a.asked(), test.goesOn)
		}
	}
}

// TestCheckpointWithoutRun resumes after the checkpoint of an earlier release. The ID of the run is saved before a page has it.
func TestCheckpointWithoutRun(t *testing.T) {
	t.Parallel()
	cfg := config("", `"jobs": [{"endpoint": "a"}, {"endpoint": "b"}]`)
	first := extract(t, newAPI(t, "[1]", "400 no"), cfg, nil)
	checkError(t, first.err, "returned 400")
	cp := *first.state.Checkpoint
	cp.Run = ""
	r := extract(t, newAPI(t), cfg, func(s *extractor.State, o *extractor.Options) {
		*s = first.state
		s.Checkpoint = &cp
		o.Checkpoint = func(_ context.Context, s extractor.State) error {
			if s.Checkpoint.Run == "" || s.Checkpoint.Job != 1 {
				t.Errorf("checkpoint %+v", s.Checkpoint)
			}
			return errKilled
		}
	})
	checkError(t, r.err, "killed")
}

func TestCheckpointOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `[1]`, `[2]`)
	cp := &extractor.Checkpoint{Config: "another", Job: 1}
	r := extract(t, a, config("", `"jobs": [{"endpoint": "a"}, {"endpoint": "b"}]`), func(s *extractor.State, _ *extractor.Options) { s.Checkpoint = cp })
	checkError(t, r.err, "")
	checkLog(t, r.log, "the checkpoint belongs to another configuration")
	same(t, "requests", a.asked(), []string{"GET /a", "GET /b"})
}

// TestStateOfAFailedRun takes the position out of the state that is returned with an error.
func TestStateOfAFailedRun(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `[1]`, `400`, `[2]`, `[]`)
	cfg := config(`"pagination": {"method": "pagenum"}`, `"jobs": [{"endpoint": "a"}]`)
	first := extract(t, a, cfg, func(s *extractor.State, _ *extractor.Options) { s.Time.PreviousStart = 5 })
	checkError(t, first.err, "returned 400")
	if first.state.Time.PreviousStart != 5 {
		t.Error("a run that failed counts as previous start")
	}
	second := extract(t, a, cfg, func(s *extractor.State, _ *extractor.Options) { *s = first.state })
	checkError(t, second.err, "")
	same(t, "requests", a.asked(), []string{"GET /a?page=1", "GET /a?page=2", "GET /a?page=2", "GET /a?page=3"})
}

func TestEmitError(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	r := extract(t, newAPI(t, `[1]`), config("", `"jobs": [{"endpoint": "a"}]`), func(_ *extractor.State, o *extractor.Options) {
		o.Emit = func(context.Context, *extractor.Page) error { return full }
	})
	if !errors.Is(r.err, full) || extractor.ExitStatus(r.err) != 2 {
		t.Errorf("error %v", r.err)
	}
}

func TestRecordFields(t *testing.T) {
	t.Parallel()
	extract(t, newAPI(t, `[{"a": 1, "x": 1}, [1]]`), config("", `"outputBucket": "b", "jobs": [{"endpoint": "t", "id": "j", "userData": {"x": 2.50, "y": true}}]`), func(_ *extractor.State, o *extractor.Options) {
		o.Emit = func(_ context.Context, p *extractor.Page) error {
			if p.Job != "j" || p.Bucket != "b" || p.Number != 1 || p.Len() != 2 {
				t.Errorf("page %+v", p)
			}
			recs := slices.Collect(p.Records())
			got := fmt.Sprintf("%v %s %s", recs[0].Extra(), recs[0].JSON(), recs[1].AppendJSON([]byte("> ")))
			if want := `[{x 2.5} {y 1}] {"a":1,"x":2.5,"y":true} > {"data":[1],"x":2.5,"y":true}`; got != want {
				t.Errorf("record %s, want %s", got, want)
			}
			return nil
		}
	})
}
