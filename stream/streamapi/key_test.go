package streamapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/callkey"
)

// post sends a body with headers.
func (s *service) post(url, body string, header http.Header) response {
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
	a := response{status: resp.StatusCode, header: resp.Header, text: string(text)}
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
			t.Errorf("got %d rows, want 1", n)
		}
		s.task("DELETE", b+"/sources/web?cascade=true", "")
	}
}
