package fastserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

const secret = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"

// ingestion is an engine with a source "web" on one of the servers.
type ingestion struct {
	eng *forebay.Engine
	mem *buffertest.Memory
	l   net.Listener
}

func newIngestion(t *testing.T, fast bool, readTimeout time.Duration) *ingestion {
	t.Helper()
	mem := buffertest.NewMemory()
	eng, err := forebay.Open("data", forebay.Options{
		Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.NewMem()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Secret: secret, Sinks: []forebay.Sink{{
		ID: "rows", Table: forebay.Table{ID: "in.c-web.rows", Columns: mapping.Columns{
			mapping.IP("ip"), mapping.Headers("headers"), mapping.Body("body"),
			mapping.Template("host", `Header("Host", "none")`, mapping.RawString()),
		}},
	}}}); err != nil {
		t.Fatal(err)
	}
	h := stream.Ingest(eng, stream.Options{MaxBodyBytes: 100_000})
	if fast {
		return &ingestion{eng, mem, serve(t, h, fastserver.Options{ReadTimeout: readTimeout})}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := stream.Server("", h)
	srv.ReadTimeout = readTimeout
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-ended
	})
	return &ingestion{eng, mem, l}
}

// ask sends a request and returns the significant parts of the response.
func (i *ingestion) ask(t *testing.T, text string) string {
	t.Helper()
	c := dial(t, i.l)
	defer c.Close()
	if _, err := c.Write(raw(text)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	var out strings.Builder
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		id := resp.Header.Get("X-Request-Id")
		if (len(id) == 15) != (resp.StatusCode != 100 && resp.StatusCode != 431) {
			t.Errorf("request id is %q", id)
		}
		resp.Header.Del("X-Request-Id")
		resp.Header.Del("Date")
		answer := strings.ReplaceAll(string(body), id, "ID")
		fmt.Fprintf(&out, "%s close=%v %v\n%s\n", resp.Status, resp.Close, resp.Header, answer)
		if resp.StatusCode != 100 {
			return out.String()
		}
		if _, err := c.Write([]byte("{}")); err != nil { // the body that was held back
			t.Fatal(err)
		}
	}
}

// Every kind of request to the ingestion has the same response and leaves the same row as with net/http.
func TestIngestionIsTheSame(t *testing.T) {
	const target = "/stream/1/web/" + secret
	texts := []string{
		"POST " + target + " HTTP/1.1\nHost: in.example.com\nContent-Type: application/json\nUser-Agent: a\nx-delivery: 1\nContent-Length: 10\n\n{\"a\":\"ü\"}",
		"POST " + target + " HTTP/1.1\nHost: a\nContent-Length: 0\n\n",
		"POST " + target + "?verbose=true HTTP/1.1\nHost: a:80\nA: 1\nB: 2\na: 3\nContent-Length: 2\n\n{}",
		"POST " + target + " HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nTrailer: C\n\n2\n{}\n0\nC: d\n\n",
		"POST " + target + " HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 2\n\n",
		"POST " + target + " HTTP/1.1\nHost: a\nContent-Length: 27000\n\n" + strings.Repeat("123456789", 3000),
		"POST " + target + " HTTP/1.1\nHost: a\nContent-Encoding: gzip\nContent-Length: 2\n\n{}",
		"POST " + target + " HTTP/1.1\nHost: a\nContent-Encoding: br\nContent-Length: 2\n\n{}",
		"POST http://b" + target + " HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}",
		"POST /stream/1/w%65b/" + secret + " HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}",
		"POST " + target + " HTTP/1.0\nContent-Length: 2\n\n{}",
		"POST " + target + " HTTP/1.1\nHost: a\nIdempotency-Key: k\nContent-Length: 2\n\n{}",
		"POST " + target + " HTTP/1.1\nHost: a\nIdempotency-Key: k\nContent-Length: 2\n\n{}",
		"POST " + target + " HTTP/1.1\nHost: a\nIdempotency-Key: k\nContent-Length: 2\n\n[]",
		"OPTIONS " + target + " HTTP/1.1\nHost: a\nOrigin: b\n\n",
		// A refusal known before the body is sent before it. None of these sends its body.
		"POST /stream/1/web/wrong HTTP/1.1\nHost: a\nContent-Length: 10\n\n",
		"POST /stream/1/web/wrong HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n",
		"POST /stream/1/web/wrong HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 10\n\n",
		"POST " + target + " HTTP/1.1\nHost: a\nContent-Length: 100001\n\n",
		"PUT " + target + " HTTP/1.1\nHost: a\nContent-Length: 10\n\n",
		"GET " + target + " HTTP/1.1\nHost: a\n\n",
		"POST /stream/0/web/" + secret + " HTTP/1.1\nHost: a\nContent-Length: 10\n\n",
		"POST /other HTTP/1.1\nHost: a\nContent-Length: 10\n\n",
		"POST /stream/1%2Fweb/" + secret + " HTTP/1.1\nHost: a\nContent-Length: 10\n\n",
		"POST " + target + " HTTP/1.1\nHost: a\nX: " + strings.Repeat("x", 7_000) + "\nContent-Length: 2\n\n{}",
		"POST " + target + " HTTP/1.1\nHost: a\nX: " + strings.Repeat("x", 15_000) + "\nContent-Length: 2\n\n{}",
		"POST " + target + " HTTP/1.1\nHost: a\nX: " + strings.Repeat("x", 20_000) + "\nContent-Length: 10\n\n",
		// The body does not come.
		"POST " + target + " HTTP/1.1\nHost: a\nContent-Length: 10\n\n{}",
		"POST " + target + " HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n2\n{}\n",
	}
	fast, usual := newIngestion(t, true, 150*time.Millisecond), newIngestion(t, false, 150*time.Millisecond)
	var statuses []string
	for _, text := range texts {
		got, want := fast.ask(t, text), usual.ask(t, text)
		if got != want {
			t.Errorf("%.200q:\ngot from fast server %s\nwant from net/http   %s", text, got, want)
		}
		statuses = append(statuses, got[:3])
	}
	for _, status := range []string{"100", "200", "400", "404", "405", "408", "413", "415", "422"} {
		if !slices.Contains(statuses, status) {
			t.Errorf("no request was answered %s: %v", status, statuses)
		}
	}
	var rows [2][][]string
	for i, s := range []*ingestion{fast, usual} {
		if err := s.eng.Flush(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		rows[i] = s.mem.Rows("in.c-web.rows")
	}
	if len(rows[0]) < 9 || fmt.Sprintf("%q", rows[0]) != fmt.Sprintf("%q", rows[1]) {
		t.Errorf("rows are\n%q\nbehind net/http\n%q", rows[0], rows[1])
	}
	for _, s := range []*ingestion{fast, usual} {
		if err := s.eng.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, want := fast.ask(t, texts[0]), usual.ask(t, texts[0]); got != want || !strings.HasPrefix(got, "503") {
		t.Errorf("with a closed engine:\nfast     %s\nnet/http %s", got, want)
	}
}

// A client that ends its side within the body gets an error. One that ends it after the request gets its response.
func TestHalfClosingClient(t *testing.T) {
	s := newIngestion(t, true, 0)
	for length, want := range map[string]string{"2": "200", "3": "499"} {
		c := dial(t, s.l)
		if _, err := c.Write(raw("POST /stream/1/web/" + secret + " HTTP/1.1\nHost: a\nContent-Length: " + length + "\n\n{}")); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if resp := receive(t, bufio.NewReader(c)); !strings.HasPrefix(resp.Status, want) {
			t.Errorf("status is %s, want %s", resp.Status, want)
		}
	}
}

// The string of a request is the only thing that a plain one costs in memory. It is one allocation, and the handler keeps
// nothing else alive.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	l := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b [64]byte
		if n, err := r.Body.Read(b[:]); n != 2 || err != io.EOF {
			t.Errorf("read %d, %v", n, err)
		}
		w.Header()["X-A"] = shared
		w.Header()["Content-Type"] = shared
		_, _ = io.WriteString(w, "OK")
	}), fastserver.Options{})
	c := dial(t, l)
	request := raw("POST /stream/1/web/" + secret + " HTTP/1.1\nHost: a\nContent-Type: application/json\nUser-Agent: b\nX-Delivery: c\nContent-Length: 2\n\n{}")
	answer := make([]byte, 4096)
	n := testing.AllocsPerRun(500, func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(answer); err != nil || !strings.HasSuffix(string(answer[:n]), "OK") {
			t.Fatalf("read %q, %v", answer[:n], err)
		}
	})
	t.Logf("%v allocations a request", n)
	if n > 3 { // the string, the body that the handler reads into, and one of this test
		t.Errorf("got %v allocations a request, want at most 3", n)
	}
}

var shared = []string{"text/plain"}
