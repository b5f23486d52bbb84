package streamapi

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/stream"
)

// TestPages walks through every list in pages of two.
func TestPages(t *testing.T) {
	s := newService(t, serviceOptions{})
	for _, name := range []string{"E", "A", "D", "C", "B"} {
		s.done("POST", b+"/sources", `{"type":"http","name":"`+name+`"}`)
	}
	for i := range 4 {
		s.done("PATCH", b+"/sources/a", fmt.Sprintf(`{"description":"%d"}`, i))
	}
	for _, tt := range []struct {
		path, list, id string
		want           []string
	}{
		{"/sources", "sources", "sourceId", []string{"a", "b", "c", "d", "e"}},
		{"/aggregation/sources", "sources", "sourceId", []string{"a", "b", "c", "d", "e"}},
		{"/sources/a/versions", "versions", "number", []string{"1", "2", "3", "4", "5"}},
	} {
		var got []string
		after := ""
		for {
			page := s.get(b + tt.path + "?limit=2&afterId=" + after)
			if page.at("page.totalCount") != 5.0 || page.at("page.limit") != 2.0 || page.at("page.afterId") != after {
				t.Fatalf("%s: got %s, want page.at(\"page.totalCount\") == 5.0 and page.at(\"page.limit\") == 2.0 and page.at(\"page.afterId\") == %v", tt.path, page.text, after)
			}
			items, _ := page.at(tt.list).([]any)
			if len(items) == 0 {
				if page.at("page.lastId") != "" {
					t.Errorf("%s: empty page has a last id: %s", tt.path, page.text)
				}
				break
			}
			for _, item := range items {
				got = append(got, fmt.Sprint(item.(map[string]any)[tt.id]))
			}
			after, _ = page.at("page.lastId").(string)
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: got %v, want %v", tt.path, got, tt.want)
		}
	}
	if last := s.get(b + "/sources/a/versions?afterId=3"); last.at("versions.0.number") != 4.0 || last.at("page.lastId") != "0000000005" || last.at("page.afterId") != "3" {
		t.Errorf("versions after 3: %s", last.text)
	}
}

// TestPayloadTest checks that a column without a value hides nothing else, and that nothing is stored.
func TestPayloadTest(t *testing.T) {
	s := newService(t, serviceOptions{})
	column := func(name, path string) string { return `{"type":"path","name":"` + name + `","path":"` + path + `"}` }
	sink := func(name, signals, columns string) string {
		return `{"type":"table","name":"` + name + `","allowedSignals":[` + signals + `],"table":{"type":"` + DefaultTableType + `","tableId":"in.c-web.` + strings.ToLower(name) +
			`","mapping":{"columns":[` + columns + `]}}}`
	}
	s.done("POST", b+"/sources", `{"type":"http","name":"Web","sinks":[`+
		sink("A", "", column("x", "x"))+","+sink("B", "", column("y", "y")+`,{"type":"body","name":"all"}`)+`]}`)
	s.done("PUT", b+"/sources/web/sinks/b/disable", "")

	post := func(path, body string) response {
		return s.post(s.server.URL+path, body, http.Header{tokenHeader: {testToken}, "Content-Type": {"application/json"}, "Cookie": {"a=b"}})
	}
	if a := post(b+"/sources/web/test", `{"x":1,"y":"é"}`); a.status != 200 || a.at("tables.0.rows.0.columns.0.value") != "1" ||
		a.at("tables.1.rows.0.columns.0.value") != `"é"` || a.at("tables.1.sinkId") != "b" {
		t.Errorf("status %d: %s", a.status, a.text)
	}
	a := post(b+"/sources/web/test", `{"y":2}`)
	if a.status != 422 || a.body["error"] != "stream.api.unprocessableContent" || a.at("tables.1.rows.0.columns.1.value") != `{"y":2}` ||
		!strings.Contains(fmt.Sprint(a.at("message")), `"x"`) || a.at("tables.0.rows.0.columns.0.error") == nil {
		t.Errorf("status %d: %s", a.status, a.text)
	}
	for _, st := range s.eng.Stats().Sinks {
		if st.Accepted != 0 {
			t.Errorf("sink %s has rows", st.ID)
		}
	}

	s.done("POST", b+"/sources", `{"type":"otlp","name":"Telemetry","sinks":[`+
		sink("Logs", `"logs"`, column("body", "body"))+","+sink("Rest", `"metrics","traces"`, column("name", "name"))+`]}`)
	if a := post(b+"/sources/telemetry/test", `{"body":"hello"}`); a.status != 200 || a.at("tables.0.sinkId") != "logs" || a.at("tables.1") != nil {
		t.Errorf("logs: status %d: %s", a.status, a.text)
	}
	if a := post(b+"/sources/telemetry/test?signal=traces", `{"name":"n"}`); a.status != 200 || a.at("tables.0.sinkId") != "rest" || a.at("tables.1") != nil {
		t.Errorf("traces: status %d: %s", a.status, a.text)
	}
	if a := post(b+"/sources/telemetry/test?signal=traces", ``); a.status != 422 {
		t.Errorf("empty record: status %d: %s", a.status, a.text)
	}
	encodedPost := func(path, coding, body string) response {
		if coding == "gzip" {
			var b strings.Builder
			w := gzip.NewWriter(&b)
			_, _ = w.Write([]byte(body)) // a Builder does not fail
			_ = w.Close()
			body = b.String()
		}
		return s.post(s.server.URL+path, body, http.Header{
			tokenHeader: {testToken}, "Content-Type": {"application/json"}, "Content-Encoding": {coding},
		})
	}
	if a := encodedPost(b+"/sources/web/test", "gzip", `{"x":1,"y":2}`); a.status != 200 || a.at("tables.1.rows.0.columns.1.value") != `{"x":1,"y":2}` {
		t.Errorf("gzip: status %d: %s", a.status, a.text)
	}
	if a := encodedPost(b+"/sources/web/test", "br", `{}`); a.status != 415 || a.body["error"] != "stream.api.unsupportedMediaType" {
		t.Errorf("unknown encoding: status %d: %s", a.status, a.text)
	}
	if a := post(b+"/sources/telemetry/test", `[1]`); a.status != 400 {
		t.Errorf("array: status %d: %s", a.status, a.text)
	}
}

// TestUnknownTask checks the status that a client polls for.
func TestUnknownTask(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.want(404, "stream.api.taskNotFound", testToken, "GET", "/v1/tasks/api.create.source/1/web/2026-01-01T00:00:00.000Z_abcde", "")
}

// TestHiddenHeaders checks that a payload test hides the same headers as ingestion.
func TestHiddenHeaders(t *testing.T) {
	s := newService(t, serviceOptions{ingest: stream.Options{HiddenHeaders: []string{"authorization", "COOKIE"}}})
	s.done("POST", b+"/sources", `{"type":"http","name":"Web","sinks":[{"type":"table","name":"A","table":{"type":"`+DefaultTableType+`","tableId":"in.c-web.a",
		"mapping":{"columns":[{"type":"headers","name":"h"}]}}}]}`)
	a := s.post(s.server.URL+b+"/sources/web/test", "{}", http.Header{
		tokenHeader: {testToken}, "Authorization": {"Bearer x"}, "Cookie": {"a=b"}, "X-Seen": {"yes"},
	})
	if !strings.Contains(a.text, "X-Seen") || strings.Contains(a.text, "Bearer") || strings.Contains(a.text, "Cookie") {
		t.Errorf("mappings see %s", a.text)
	}
}

// TestStatisticsHaveAShape checks that a sink without records has all fields.
func TestStatisticsHaveAShape(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.done("POST", b+"/sources", webSource)
	if a := s.get(b + "/sources/web/sinks/events/statistics/total"); a.at("total.recordsCount") != 0.0 || a.at("levels") == nil || a.at("lost.expired") != 0.0 {
		t.Errorf("total is %s", a.text)
	}
	if a := s.get(b + "/sources/web/sinks/events/statistics/files"); a.at("files") == nil {
		t.Errorf("files are %s", a.text)
	}
}

// sinkBodyOf is a sink that stores whole events in its own table.
func sinkBodyOf(name, source string) string {
	return fmt.Sprintf(`{"type":"table","name":%q,"table":{"type":%q,"tableId":"in.c-%s.%s","mapping":{"columns":[{"type":"body","name":"body"}]}}}`,
		name, DefaultTableType, source, name)
}

// TestAggregation compares the counters in the aggregation with the counters of each sink.
func TestAggregation(t *testing.T) {
	s := newService(t, serviceOptions{})
	events := map[string]int{"one": 6, "two": 3}
	for id := range events {
		s.done("POST", b+"/sources", `{"type":"http","name":"`+id+`","sinks":[`+sinkBodyOf("a", id)+`,`+sinkBodyOf("b", id)+`]}`)
		url := s.get(b + "/sources/" + id).at("http.url").(string)
		for range events[id] {
			if status := s.send(url, "event"); status != 200 {
				t.Fatal(status)
			}
		}
	}
	s.done("DELETE", b+"/sources/two/sinks/b", "")
	a := s.get(b + "/aggregation/sources")
	for path, want := range map[string]any{
		"sources.0.sinks.0.statistics.total.recordsCount": 6.0, "sources.0.sinks.1.statistics.total.recordsCount": 6.0,
		"sources.1.sinks.0.statistics.total.recordsCount": 3.0, "sources.1.sinks.1": nil,
	} {
		if got := a.at(path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// TestClearAtOnce clears statistics from many clients. Each gets a documented response, and at least one a success.
func TestClearAtOnce(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.done("POST", b+"/sources", `{"type":"http","name":"web","sinks":[`+sinkBodyOf("a", "web")+`]}`)
	var wg sync.WaitGroup
	var done atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			path := b + "/sources/web/statistics/clear"
			if i%2 == 0 {
				path = b + "/sources/web/sinks/a/statistics/clear"
			}
			switch a := s.do(testToken, "DELETE", path, ""); a.status {
			case 200:
				done.Add(1)
			case 409:
			default:
				t.Errorf("status %d: %s", a.status, a.text)
			}
		})
	}
	wg.Wait()
	if done.Load() == 0 {
		t.Error("nobody has cleared")
	}
}
