package stream

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/mapping"
)

func splitBodies(t testing.TB, mode forebay.Split, body string) ([]string, *apiError) {
	t.Helper()
	var ev events
	recs, e := ev.split(mode, []byte(body), &mapping.Record{})
	var list []string
	for _, r := range recs {
		list = append(list, string(r.Body))
	}
	return list, e
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		mode forebay.Split
		body string
		want []string
	}{
		{forebay.SplitArray, `[]`, nil},
		{forebay.SplitArray, " [ ] ", nil},
		{forebay.SplitArray, `[1]`, []string{"1"}},
		{forebay.SplitArray, ` [ {"a": [1, 2]} , "x,]\"[" , null ] `, []string{`{"a": [1, 2]}`, `"x,]\"["`, "null"}},
		{forebay.SplitArray, `["\\",[[]],{}]`, []string{`"\\"`, "[[]]", "{}"}},
		{forebay.SplitArray, `{"a":[1,2]}`, []string{`{"a":[1,2]}`}},
		{forebay.SplitArray, `"text"`, []string{`"text"`}},
		{forebay.SplitLines, "", nil},
		{forebay.SplitLines, "\n \n\r\n", nil},
		{forebay.SplitLines, "{\"a\":1}\n{\"b\":2}", []string{`{"a":1}`, `{"b":2}`}},
		{forebay.SplitLines, "{\"a\":1}\r\n\r\nnot json\n", []string{`{"a":1}`, "not json"}},
	} {
		got, e := splitBodies(t, tt.mode, tt.body)
		if e != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s %q: %q, %v, want %q", tt.mode, tt.body, got, e, tt.want)
		}
	}
	for _, body := range []string{"", "[", "[1,", "[1 2]", "{]", `["a`, "[1]]"} {
		if _, e := splitBodies(t, forebay.SplitArray, body); e == nil || e.status != 422 {
			t.Errorf("%q: %v", body, e)
		}
	}
	many := strings.Repeat("1,", maxEvents)
	if got, e := splitBodies(t, forebay.SplitArray, "["+strings.TrimSuffix(many, ",")+"]"); e != nil || len(got) != maxEvents {
		t.Errorf("%d events, %v", len(got), e)
	}
	if _, e := splitBodies(t, forebay.SplitArray, "["+many+"1]"); e == nil || e.status != 413 {
		t.Errorf("one event more: %v", e)
	}
	if _, e := splitBodies(t, forebay.SplitLines, strings.Repeat("1\n", maxEvents+1)); e == nil || e.status != 413 {
		t.Errorf("one line more: %v", e)
	}
}

// FuzzSplitArray compares the elements with those of the standard decoder.
func FuzzSplitArray(f *testing.F) {
	f.Add(`[{"a":"b,]"},[1,2],"\\\"",null]`)
	f.Fuzz(func(t *testing.T, body string) {
		got, e := splitBodies(t, forebay.SplitArray, body)
		if (e == nil) != json.Valid([]byte(body)) && e.status != 413 {
			t.Fatalf("%q: %v", body, e)
		}
		var want []json.RawMessage
		if e != nil || json.Unmarshal([]byte(body), &want) != nil || want == nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %q, want %q", body, got, want)
		}
		for i := range got {
			if got[i] != string(bytes.TrimSpace(want[i])) {
				t.Errorf("%q: event %d is %q, want %q", body, i, got[i], want[i])
			}
		}
	})
}

// newSplitService has a source with two sinks, which need a field n.
func newSplitService(t *testing.T, split forebay.Split) (*service, string, *buffertest.Memory) {
	mem := buffertest.NewMemory()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem, Buffer: buffer.Options{MaxSinkBytes: 1 << 20}}})
	sink := func(id string) forebay.Sink {
		return forebay.Sink{ID: id, Table: forebay.Table{ID: "in.c-web." + id, Columns: mapping.Columns{mapping.Path("n", "n"), mapping.Body("body")}}}
	}
	err := s.eng.Define(t.Context(), forebay.Source{ID: "kafka", Secret: secret, Split: split, Sinks: []forebay.Sink{sink("a"), sink("b")}})
	if err != nil {
		t.Fatal(err)
	}
	return s, s.ingest.URL + "/stream/7/kafka/" + secret, mem
}

func (s *service) post(url, body string, header http.Header) answer {
	s.t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
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
	return a
}

// rows flushes and counts the rows of a sink.
func (s *service) rows(source, sink string) int64 {
	s.t.Helper()
	if err := s.eng.Flush(s.t.Context(), source); err != nil {
		s.t.Fatal(err)
	}
	for _, st := range s.eng.Stats().Sinks {
		if st.Source == source && st.Sink == sink {
			return st.Target.Rows
		}
	}
	return 0
}

// TestBrokerConnector sends what an HTTP sink connector of a message broker does: one record, or a batch of them.
func TestBrokerConnector(t *testing.T) {
	s, url, _ := newSplitService(t, forebay.SplitArray)
	jsonHeader := http.Header{"Content-Type": {"application/json"}}
	for _, tt := range []struct {
		name, body string
		status     int
		failed     []float64 // indexes
		rows       int64
	}{
		{"one record", `{"n":1}`, 200, nil, 1},
		{"one record as a batch", `[{"n":1}]`, 200, nil, 1},
		{"batch of records", `[{"n":1},{"n":2},{"n":3}]`, 200, nil, 3},
		{"batch in lines of its own", "[{\"n\":1},\n{\"n\":2}]", 200, nil, 2},
		{"records as strings", `["{\"n\":1}","text"]`, 422, []float64{0, 1}, 0},
		{"some records do not fit", `[{"n":1},{"x":2},{"n":3},7]`, 422, []float64{1, 3}, 2},
		{"a tombstone", `[null,{"n":1}]`, 422, []float64{0}, 1},
		{"empty batch", `[]`, 200, nil, 0},
		{"torn batch", `[{"n":1},{"n":`, 422, nil, 0},
		{"empty body", ``, 422, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.t = t
			before := s.rows("kafka", "a")
			got := s.post(url, tt.body, jsonHeader)
			if got.status != tt.status || tt.status == 200 && got.text != "OK" {
				t.Errorf("status %d: %s", got.status, got.text)
			}
			var failed []float64
			list, _ := got.at("failed").([]any)
			for _, v := range list {
				failed = append(failed, v.(map[string]any)["index"].(float64))
			}
			if !slices.Equal(failed, tt.failed) {
				t.Errorf("failed are %v, want %v: %s", failed, tt.failed, got.text)
			}
			if n := s.rows("kafka", "a") - before; n != tt.rows {
				t.Errorf("%d rows, want %d", n, tt.rows)
			}
		})
	}
	s.t = t
}

// TestRetryWithKey lets requests fail at one of two sinks: sent again with the same key they add only what is missing.
func TestRetryWithKey(t *testing.T) {
	s, url, _ := newSplitService(t, forebay.SplitArray)
	key := func(k string) http.Header {
		return http.Header{"Content-Type": {"application/json"}, callkey.Header: {k}}
	}
	count := func(want int64) {
		t.Helper()
		for _, sink := range []string{"a", "b"} {
			if n := s.rows("kafka", sink); n != want {
				t.Errorf("sink %s has %d rows, want %d", sink, n, want)
			}
		}
	}
	for range 3 {
		if a := s.post(url, `[{"n":1},{"n":2}]`, key("one")); a.status != 200 || a.text != "OK" {
			t.Fatalf("status %d: %s", a.status, a.text)
		}
	}
	count(2)
	if a := s.post(url, `[{"n":9}]`, key("one")); a.status != 422 {
		t.Errorf("another body under the same key: status %d: %s", a.status, a.text)
	}
	for range 2 {
		if a := s.post(url, `[{"n":1},{"x":2}]`, key("two")); a.status != 422 {
			t.Errorf("status %d: %s", a.status, a.text)
		}
	}
	count(3)
	for _, bad := range []string{"", strings.Repeat("k", 256)} {
		if a := s.post(url, `[{"n":1}]`, key(bad)); a.status != 400 {
			t.Errorf("key %.10q: status %d", bad, a.status)
		}
	}
	// Sink b is gone for the first attempt and back for the second.
	def, _ := s.eng.Source("kafka")
	without := def
	without.Sinks = slices.Clone(def.Sinks)
	without.Sinks[1].Disabled = true
	if err := s.eng.Define(t.Context(), without); err != nil {
		t.Fatal(err)
	}
	if a := s.post(url, `[{"n":5}]`, key("three")); a.status != 200 {
		t.Errorf("status %d", a.status)
	}
	if err := s.eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	if a := s.post(url, `[{"n":5}]`, key("three")); a.status != 200 {
		t.Errorf("status %d", a.status)
	}
	count(4)
	// Many at once with one key.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a := s.post(url, `[{"n":6}]`, key("four")); a.status != 200 {
				t.Errorf("status %d", a.status)
			}
		})
	}
	wg.Wait()
	count(5)
}

func TestKeyOfOneEvent(t *testing.T) {
	s, url, _ := newSplitService(t, forebay.SplitNone)
	for range 3 {
		if a := s.post(url, `{"n":1}`, http.Header{"Content-Type": {"application/json"}, callkey.Header: {"k"}}); a.status != 200 || a.text != "OK" {
			t.Fatalf("status %d: %s", a.status, a.text)
		}
	}
	if n := s.rows("kafka", "b"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// TestKeyOfAnErasedSource checks that a source does not take for stored what went to an erased one with the same id.
func TestKeyOfAnErasedSource(t *testing.T) {
	s := newService(t, serviceOptions{})
	for range 2 {
		s.done("POST", b+"/sources", `{"type":"http","name":"web","sinks":[`+sinkBodyOf("a", "web")+`]}`)
		url := s.get(b + "/sources/web").at("http.url").(string)
		for range 2 {
			if a := s.post(url, "event", http.Header{callkey.Header: {"k"}}); a.status != 200 {
				t.Fatalf("status %d: %s", a.status, a.text)
			}
		}
		if n := s.rows("web", "a"); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
		s.task("DELETE", b+"/sources/web?cascade=true", "")
	}
}

// TestKeyAfterChangeOfSplit changes how bodies are taken apart between two attempts: the events have other places then, so
// what the first has stored says nothing of them.
func TestKeyAfterChangeOfSplit(t *testing.T) {
	s, url, _ := newSplitService(t, forebay.SplitNone)
	header := http.Header{"Content-Type": {"application/json"}, callkey.Header: {"k"}}
	def, _ := s.eng.Source("kafka")
	def.Sinks = slices.Clone(def.Sinks)
	for i := range def.Sinks {
		def.Sinks[i].Table = forebay.Table{ID: "in.c-web.whole" + def.Sinks[i].ID, Columns: mapping.Columns{mapping.Body("body")}}
	}
	for _, split := range []forebay.Split{forebay.SplitNone, forebay.SplitArray} {
		def.Split = split
		if err := s.eng.Define(t.Context(), def); err != nil {
			t.Fatal(err)
		}
		if a := s.post(url, `[1,2,3]`, header); a.status != 200 {
			t.Fatalf("status %d: %s", a.status, a.text)
		}
	}
	if n := s.rows("kafka", "a"); n != 1+3 {
		t.Errorf("%d rows, want one of the whole body and three of its elements", n)
	}
}

// TestNoSinkIsSaid checks that an event which nobody takes is answered as such, without breaking clients that look for OK.
func TestNoSinkIsSaid(t *testing.T) {
	s := newService(t, serviceOptions{})
	if err := s.eng.Define(t.Context(), forebay.Source{ID: "empty", Secret: secret}); err != nil {
		t.Fatal(err)
	}
	a := s.post(s.ingest.URL+"/stream/7/empty/"+secret, "{}", nil)
	if a.status != 200 || a.text != "OK" || a.header.Get(warningField) == "" {
		t.Errorf("status %d %q, warning %q", a.status, a.text, a.header.Get(warningField))
	}
	if n := s.eng.Stats().Dropped["empty"]; n != 1 {
		t.Errorf("%d dropped, want 1", n)
	}
}
