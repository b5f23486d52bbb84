package stream

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/mapping"
)

// encoded returns a body under a Content-Encoding.
func encoded(t testing.TB, coding, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "GZIP", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	default:
		return []byte(body)
	}
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestContentEncoding(t *testing.T) {
	eng := newFake(stored("a"))
	var got string
	eng.ingest = func(_ context.Context, _ string, rec *mapping.Record) (forebay.Result, error) {
		got = string(rec.Body)
		return forebay.Result{Sinks: []forebay.SinkResult{stored("a")}}, nil
	}
	const limit = 64 << 10
	h := newHandler(eng, Options{MaxBodyBytes: limit})
	long := strings.Repeat("0123456789", limit/10+1)
	for _, tt := range []struct {
		name, coding, header, body string
		cut                        int // bytes that are missing at the end
		status                     int
		error                      string
	}{
		{"none", "", "", "{}", 0, 200, ""},
		{"identity", "", "identity", "{}", 0, 200, ""},
		{"gzip", "gzip", "gzip", `{"a":1}`, 0, 200, ""},
		{"gzip in capitals", "gzip", "GZIP", `{"a":1}`, 0, 200, ""},
		{"old name of gzip", "gzip", "x-gzip", `{"a":1}`, 0, 200, ""},
		{"deflate", "deflate", "deflate", `{"a":1}`, 0, 200, ""},
		{"deflate without its header", "raw deflate", "deflate", `{"a":1}`, 0, 200, ""},
		{"zlib", "deflate", "zlib", `{"a":1}`, 0, 200, ""},
		{"zstd", "zstd", "zstd", `{"a":1}`, 0, 200, ""},
		{"empty gzip", "gzip", "gzip", "", 0, 200, ""},
		{"as long as allowed", "gzip", "gzip", long[:limit], 0, 200, ""},
		{"one byte longer", "gzip", "gzip", long[:limit+1], 0, 413, "bodyTooLarge"},
		{"bomb", "gzip", "gzip", strings.Repeat("\x00", 64<<20), 0, 413, "bodyTooLarge"},
		{"bomb of zstd", "zstd", "zstd", strings.Repeat("\x00", 64<<20), 0, 413, "bodyTooLarge"},
		{"not gzip", "", "gzip", "{}", 0, 400, "badRequest"},
		{"not zstd", "", "zstd", "{}", 0, 400, "badRequest"},
		{"not deflate", "", "deflate", "\xff\xff\xff", 0, 400, "badRequest"},
		{"torn gzip", "gzip", "gzip", `{"a":1}`, 4, 400, "badRequest"},
		{"torn zstd", "zstd", "zstd", long[:limit], 9, 400, "badRequest"},
		{"unknown", "", "br", "{}", 0, 415, "unsupportedMediaType"},
		{"two", "gzip", "gzip, gzip", "{}", 0, 415, "unsupportedMediaType"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent := encoded(t, tt.coding, tt.body)
			r := post("/stream/1/web/"+secret, string(sent[:len(sent)-tt.cut]))
			if tt.header != "" {
				r.Header.Set("Content-Encoding", tt.header)
			}
			got = "nothing"
			w := serve(h, r)
			if tt.error != "" {
				checkError(t, w, tt.status, "stream.in."+tt.error)
			} else if w.Code != 200 || got != tt.body {
				t.Errorf("status %d, stored %.40q", w.Code, got)
			}
			if n := h.bodies.Taken(); n != 0 {
				t.Errorf("%d bytes are still reserved, want 0", n)
			}
		})
	}
	r := post("/stream/1/web/"+secret, "{}")
	r.Header["Content-Encoding"] = []string{"gzip", "gzip"}
	checkError(t, serve(h, r), 415, "stream.in.unsupportedMediaType")
}

// TestInflatedBodiesAreBoundedTogether checks that what bodies inflate to counts for the bound of all requests.
func TestInflatedBodiesAreBoundedTogether(t *testing.T) {
	h := newHandler(newFake(stored("a")), Options{MaxBodyBytes: 64 << 10, MaxBufferedBytes: 64 << 10})
	r := post("/stream/1/web/"+secret, string(encoded(t, "gzip", strings.Repeat("x", 60<<10))))
	r.Header.Set("Content-Encoding", "gzip")
	w := serve(h, r)
	checkError(t, w, http.StatusServiceUnavailable, "stream.in.overloaded")
	if w.Header().Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
}

func FuzzContentEncoding(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, coding := range []string{"gzip", "deflate", "zstd"} {
		f.Add(coding, encoded(f, coding, `{"a":"b"}`))
	}
	h := newHandler(newFake(stored("a")), Options{MaxBodyBytes: 1000, MaxBufferedBytes: 1 << 20})
	f.Fuzz(func(t *testing.T, coding string, body []byte) {
		r := post("/stream/1/web/"+secret, string(body))
		r.Header["Content-Encoding"] = []string{coding}
		switch w := serve(h, r); w.Code {
		case 200, 400, 413, 415, 503:
		default:
			t.Errorf("status %d", w.Code)
		}
		if n := h.bodies.Taken(); n != 0 {
			t.Errorf("%d bytes are still reserved, want 0", n)
		}
	})
}

// Bodies of every size around the steps of the reader, announced or not, in whole or in single bytes.
func TestBodySizes(t *testing.T) {
	eng := newFake()
	var got []byte
	eng.ingest = func(_ context.Context, _ string, rec *mapping.Record) (forebay.Result, error) {
		got = append(got[:0], rec.Body...)
		return forebay.Result{}, nil
	}
	const limit = 100_000
	h := newHandler(eng, Options{MaxBodyBytes: limit, MaxBufferedBytes: limit + 1})
	full := bytes.Repeat([]byte("0123456789abcdef-"), limit/17+1)
	for _, size := range []int{0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 32768, 65536, 65537, limit - 1, limit, limit + 1} {
		for _, announced := range []bool{true, false} {
			for _, wrap := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
			} {
				r := httptest.NewRequest(http.MethodPost, "/stream/1/web/"+secret, wrap(bytes.NewReader(full[:size])))
				r.ContentLength = -1
				if announced {
					r.ContentLength = int64(size)
				}
				w := serve(h, r)
				if size > limit {
					checkError(t, w, 413, "stream.in.bodyTooLarge")
				} else if w.Code != 200 || !bytes.Equal(got, full[:size]) {
					t.Errorf("size %d, announced %v: answer %d, %d bytes ingested", size, announced, w.Code, len(got))
				}
				if n := h.bodies.Taken(); n != 0 {
					t.Fatalf("size %d: %d bytes are still reserved", size, n)
				}
			}
		}
	}
}

// A client that has announced a large body and sends nothing takes one step of the bound, not the announced size.
func TestBufferedBytesBound(t *testing.T) {
	eng := newFake(stored("a"))
	h := newHandler(eng, Options{MaxBodyBytes: 100_000, MaxBufferedBytes: 100_000})

	const path = "/stream/1/web/" + secret
	type slowBody struct {
		reader *io.PipeReader
		writer *io.PipeWriter
		done   chan *httptest.ResponseRecorder
	}
	var slow []slowBody
	for range 6 { // 6 steps of 16 KB leave less than one step
		s := slowBody{done: make(chan *httptest.ResponseRecorder, 1)}
		s.reader, s.writer = io.Pipe()
		r := httptest.NewRequest(http.MethodPost, path, s.reader)
		r.ContentLength = 90_000
		go func() { s.done <- serve(h, r) }()
		if _, err := s.writer.Write([]byte("x")); err != nil { // returns when the handler has read it
			t.Fatal(err)
		}
		slow = append(slow, s)
	}
	w := serve(h, post(path, strings.Repeat("x", 2000)))
	checkError(t, w, 503, "stream.in.overloaded")
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
	}
	if w := serve(h, post(path, "small")); w.Code != 200 {
		t.Errorf("a small event beside the slow ones: %d %s", w.Code, w.Body)
	}
	for _, s := range slow {
		s.writer.CloseWithError(io.ErrUnexpectedEOF)
		checkError(t, <-s.done, 499, "stream.in.eof")
	}
	if n := h.bodies.Taken(); n != 0 {
		t.Errorf("%d bytes are still reserved, want 0", n)
	}
	if w := serve(h, post(path, strings.Repeat("x", 2000))); w.Code != 200 {
		t.Errorf("after the slow requests: %d %s", w.Code, w.Body)
	}
}
