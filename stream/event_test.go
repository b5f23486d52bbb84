package stream_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/mapping"
)

// reply is the response to a request.
type reply struct {
	status int
	header http.Header
	text   string
}

// send posts a body with headers to a source.
func (s *service) send(source, body string, header http.Header) reply {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.url+"/stream/1/"+source+"/"+webSecret, strings.NewReader(body))
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
	return reply{resp.StatusCode, resp.Header, string(text)}
}

// count flushes and counts the rows of a sink.
func (s *service) count(source, sink string) int64 {
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

// newSplitService has a source "kafka" with two sinks, which need a field n.
func newSplitService(t *testing.T, split forebay.Split) *service {
	sink := func(id string) forebay.Sink {
		return forebay.Sink{ID: id, Table: forebay.Table{ID: "in.c-web." + id, Columns: mapping.Columns{mapping.Path("n", "n"), mapping.Body("body")}}}
	}
	return newService(t, func(o *forebay.Options) { o.Buffer.MaxSinkBytes = 1 << 20 },
		forebay.Source{ID: "kafka", Secret: webSecret, Split: split, Sinks: []forebay.Sink{sink("a"), sink("b")}})
}

// TestBrokerConnector sends what an HTTP sink connector of a message broker sends, which is one record, or a batch of them.
func TestBrokerConnector(t *testing.T) {
	s := newSplitService(t, forebay.SplitArray)
	jsonHeader := http.Header{"Content-Type": {"application/json"}}
	for _, tt := range []struct {
		name, body string
		status     int
		failed     []int // indexes
		rows       int64
	}{
		{"one record", `{"n":1}`, 200, nil, 1},
		{"one record as a batch", `[{"n":1}]`, 200, nil, 1},
		{"batch of records", `[{"n":1},{"n":2},{"n":3}]`, 200, nil, 3},
		{"batch in lines of its own", "[{\"n\":1},\n{\"n\":2}]", 200, nil, 2},
		{"records as strings", `["{\"n\":1}","text"]`, 422, []int{0, 1}, 0},
		{"some records do not fit", `[{"n":1},{"x":2},{"n":3},7]`, 422, []int{1, 3}, 2},
		{"a tombstone", `[null,{"n":1}]`, 422, []int{0}, 1},
		{"empty batch", `[]`, 200, nil, 0},
		{"torn batch", `[{"n":1},{"n":`, 422, nil, 0},
		{"empty body", ``, 422, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.t = t
			before := s.count("kafka", "a")
			got := s.send("kafka", tt.body, jsonHeader)
			if got.status != tt.status || tt.status == 200 && got.text != "OK" {
				t.Errorf("status %d: %s", got.status, got.text)
			}
			var body struct{ Failed []struct{ Index int } }
			_ = json.Unmarshal([]byte(got.text), &body) // "OK" has none
			var failed []int
			for _, f := range body.Failed {
				failed = append(failed, f.Index)
			}
			if !slices.Equal(failed, tt.failed) {
				t.Errorf("failed are %v, want %v: %s", failed, tt.failed, got.text)
			}
			if n := s.count("kafka", "a") - before; n != tt.rows {
				t.Errorf("got %d rows, want %d", n, tt.rows)
			}
		})
	}
	s.t = t
}

// TestRetryWithKey lets requests fail at one of two sinks. Sent again with the same key they add only the missing rows.
func TestRetryWithKey(t *testing.T) {
	s := newSplitService(t, forebay.SplitArray)
	key := func(k string) http.Header {
		return http.Header{"Content-Type": {"application/json"}, callkey.Header: {k}}
	}
	count := func(want int64) {
		t.Helper()
		for _, sink := range []string{"a", "b"} {
			if n := s.count("kafka", sink); n != want {
				t.Errorf("sink %s has %d rows, want %d", sink, n, want)
			}
		}
	}
	for range 3 {
		if a := s.send("kafka", `[{"n":1},{"n":2}]`, key("one")); a.status != 200 || a.text != "OK" {
			t.Fatalf("status %d: %s", a.status, a.text)
		}
	}
	count(2)
	if a := s.send("kafka", `[{"n":9}]`, key("one")); a.status != 422 {
		t.Errorf("another body under the same key: status %d: %s", a.status, a.text)
	}
	for range 2 {
		if a := s.send("kafka", `[{"n":1},{"x":2}]`, key("two")); a.status != 422 {
			t.Errorf("status %d: %s", a.status, a.text)
		}
	}
	count(3)
	for _, bad := range []string{"", strings.Repeat("k", 256)} {
		if a := s.send("kafka", `[{"n":1}]`, key(bad)); a.status != 400 {
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
	if a := s.send("kafka", `[{"n":5}]`, key("three")); a.status != 200 {
		t.Errorf("status %d", a.status)
	}
	if err := s.eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	if a := s.send("kafka", `[{"n":5}]`, key("three")); a.status != 200 {
		t.Errorf("status %d", a.status)
	}
	count(4)
	// Many at once with one key.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a := s.send("kafka", `[{"n":6}]`, key("four")); a.status != 200 {
				t.Errorf("status %d", a.status)
			}
		})
	}
	wg.Wait()
	count(5)
}

func TestKeyOfOneEvent(t *testing.T) {
	s := newSplitService(t, forebay.SplitNone)
	for range 3 {
		if a := s.send("kafka", `{"n":1}`, http.Header{"Content-Type": {"application/json"}, callkey.Header: {"k"}}); a.status != 200 || a.text != "OK" {
			t.Fatalf("status %d: %s", a.status, a.text)
		}
	}
	if n := s.count("kafka", "b"); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
}

// TestNoSinkIsSaid checks that the response names an event that no sink takes, without breaking clients that look for OK.
func TestNoSinkIsSaid(t *testing.T) {
	s := newService(t, nil, forebay.Source{ID: "empty", Secret: webSecret})
	a := s.send("empty", "{}", nil)
	if a.status != 200 || a.text != "OK" || a.header.Get("X-Stream-Warning") == "" {
		t.Errorf("status %d %q, warning %q", a.status, a.text, a.header.Get("X-Stream-Warning"))
	}
	if n := s.eng.Stats().Dropped["empty"]; n != 1 {
		t.Errorf("got %d dropped, want 1", n)
	}
}
