package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// discard is a ResponseWriter that allocates nothing itself.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header               { return d.header }
func (d *discard) Write(b []byte) (int, error)       { return len(b), nil }
func (d *discard) WriteString(s string) (int, error) { return len(s), nil }
func (d *discard) WriteHeader(int)                   {}

// The handler itself allocates the request id, the list that holds it in the header, and the loan of its memory. Nothing
// that grows with the request, and no context.
func TestIngestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	result := []forebay.SinkResult{stored("a")}
	eng := &fakeEngine{
		sources: map[string]forebay.Source{"web": {ID: "web", Secret: secret}},
		ingest: func(context.Context, string, *mapping.Record) (forebay.Result, error) {
			return forebay.Result{Sinks: result}, nil
		},
	}
	h := newHandler(eng, Options{})
	body := bytes.NewReader(bytes.Repeat([]byte("x"), 50_000))
	r := httptest.NewRequest(http.MethodPost, "/stream/1/web/"+secret, body)
	r.Header.Set("Content-Type", "application/json")
	w := &discard{header: make(http.Header)}
	n := testing.AllocsPerRun(200, func() {
		body.Seek(0, io.SeekStart)
		clear(w.header)
		h.ServeHTTP(w, r)
	})
	if n > 3 {
		t.Errorf("got %v allocations per request, want at most 3", n)
	}
}

// Run: go test ./stream -run ^$ -bench Ingest
func BenchmarkIngest(b *testing.B) {
	result := []forebay.SinkResult{stored("a")}
	eng := newFake()
	eng.ingest = func(context.Context, string, *mapping.Record) (forebay.Result, error) {
		return forebay.Result{Sinks: result}, nil
	}
	for _, size := range []int{150, 1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			h := newHandler(eng, Options{})
			body := bytes.NewReader(bytes.Repeat([]byte("x"), size))
			r := httptest.NewRequest(http.MethodPost, "/stream/1/web/"+secret, body)
			r.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"x"}, "Accept-Encoding": {"gzip"}}
			w := &discard{header: make(http.Header)}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				body.Seek(0, io.SeekStart)
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}
