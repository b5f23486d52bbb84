package stream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/deadline"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// After a refused request net/http waits half a second before it closes the connection, longer than goleak looks, and
	// http.Server.Close does not wait for it. It ends by itself.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// rawConn speaks to a server byte by byte.
type rawConn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// serveRaw starts a server as [Server] makes it, changed by tune, and returns a way to connect to it.
func serveRaw(t *testing.T, eng engine, opts Options, tune func(*http.Server)) (dial func() *rawConn) {
	t.Helper()
	srv := Server("", newHandler(eng, opts))
	if tune != nil {
		tune(srv)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return func() *rawConn {
		t.Helper()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return &rawConn{t, c, bufio.NewReader(c)}
	}
}

// send writes text with its line ends made CRLF.
func (c *rawConn) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads one response and checks its status and a part of its body.
func (c *rawConn) expect(status int, part string) *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != status || !strings.Contains(string(body), part) {
		c.t.Errorf("answer is %d %s, want %d with %q", resp.StatusCode, body, status, part)
	}
	return resp
}

const rawTarget = "/stream/1/web/" + secret

func TestRawRequests(t *testing.T) {
	eng := newFake(stored("a"))
	var body atomic.Value
	eng.ingest = func(_ context.Context, _ string, rec *mapping.Record) (forebay.Result, error) {
		body.Store(string(rec.Body))
		return forebay.Result{}, nil
	}
	dial := serveRaw(t, eng, Options{MaxBodyBytes: 1000}, nil)

	t.Run("pipelined requests", func(t *testing.T) {
		c := dial()
		for i := range 3 {
			c.send(fmt.Sprintf("POST %s HTTP/1.1\nHost: x\nContent-Length: 1\n\n%d", rawTarget, i))
		}
		for i := range 3 {
			c.expect(200, "OK")
			if i == 2 && body.Load() != "2" {
				t.Errorf("last body is %q", body.Load())
			}
		}
	})
	t.Run("chunked body", func(t *testing.T) {
		c := dial()
		c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabc\n2\nde\n0\n\n")
		c.expect(200, "OK")
		if body.Load() != "abcde" {
			t.Errorf("body is %q", body.Load())
		}
	})
	t.Run("broken chunk", func(t *testing.T) {
		c := dial()
		c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\nzz\nabc\n")
		c.expect(400, "stream.in.badRequest")
	})
	t.Run("endless chunked body", func(t *testing.T) {
		c := dial()
		c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n")
		chunk := fmt.Sprintf("64\n%s\n", strings.Repeat("x", 100))
		for range 11 { // no end, and more than the limit
			c.send(chunk)
		}
		c.expect(413, "stream.in.bodyTooLarge")
	})
	t.Run("announced body too large", func(t *testing.T) {
		c := dial() // the response arrives before a byte of the body
		c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nContent-Length: 1001\n\n")
		c.expect(413, "stream.in.bodyTooLarge")
	})
	t.Run("wrong secret does not ask for the body", func(t *testing.T) {
		c := dial()
		c.send("POST /stream/1/web/wrong HTTP/1.1\nHost: x\nContent-Length: 10\nExpect: 100-continue\n\n")
		c.expect(404, "stream.in.noSourceFound") // a 100 would come first if the handler had begun to read
	})
	t.Run("right secret asks for the body", func(t *testing.T) {
		c := dial()
		c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nContent-Length: 2\nExpect: 100-continue\n\n")
		c.expect(100, "")
		c.send("ab")
		c.expect(200, "OK")
	})
	t.Run("escaped slash is no separator", func(t *testing.T) {
		c := dial()
		c.send("POST /stream/1%2Fweb/" + secret + " HTTP/1.1\nHost: x\nContent-Length: 0\n\n")
		c.expect(404, "stream.in.routeNotFound")
	})
}

func TestHugeHeaders(t *testing.T) {
	dial := serveRaw(t, newFake(stored("a")), Options{}, nil)
	for _, tt := range []struct {
		size, status int
		body         string
	}{
		{15 << 10, 200, "OK"},
		{17 << 10, 413, "stream.in.headerTooLarge"},
		{60 << 10, 413, "stream.in.headerTooLarge"},
		{80 << 10, 431, ""}, // above the limit of the server, which responds by itself
	} {
		for name, header := range map[string]string{
			"one":  "X: " + strings.Repeat("x", tt.size),
			"many": strings.TrimSpace(strings.Repeat("X-Sixteen: bytes\n", tt.size/18)),
		} {
			c := dial()
			c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nContent-Length: 0\n" + header + "\n\n")
			if resp := c.expect(tt.status, tt.body); t.Failed() {
				t.Fatalf("%d bytes in %s header(s): %v", tt.size, name, resp)
			}
		}
	}
}

func TestSlowClients(t *testing.T) {
	dial := serveRaw(t, newFake(stored("a")), Options{}, func(s *http.Server) {
		s.ReadHeaderTimeout, s.ReadTimeout, s.IdleTimeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	t.Run("headers without an end", func(t *testing.T) {
		c := dial()
		c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\n")
		if b, err := io.ReadAll(c.r); err != nil || strings.Contains(string(b), "200 OK") {
			t.Errorf("read %q, %v, want a closed connection", b, err)
		}
	})
	t.Run("body without an end", func(t *testing.T) {
		c := dial()
		c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nContent-Length: 10\n\nabc")
		c.expect(408, "stream.in.timeout")
		if b, err := io.ReadAll(c.r); err != nil || len(b) != 0 {
			t.Errorf("read %q, %v, want a closed connection", b, err)
		}
	})
	t.Run("idle connection", func(t *testing.T) {
		c := dial()
		c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nContent-Length: 0\n\n")
		c.expect(200, "OK")
		if b, err := io.ReadAll(c.r); err != nil || len(b) != 0 {
			t.Errorf("read %q, %v, want a closed connection", b, err)
		}
	})
}

// Once the request is complete the event is stored, whatever the client does. The durable wait continues when the client
// has closed its sending side, and that client gets the response.
func TestHalfClosingClientIsAnswered(t *testing.T) {
	for name, text := range map[string]string{
		"length":           "POST " + rawTarget + " HTTP/1.1\nHost: x\nContent-Length: 2\n\n{}",
		"chunked":          "POST " + rawTarget + " HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n2\n{}\n0\n\n",
		"no body":          "POST " + rawTarget + " HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
		"HTTP/1.0":         "POST " + rawTarget + " HTTP/1.0\nContent-Length: 2\n\n{}",
		"HTTP/1.0 no body": "POST " + rawTarget + " HTTP/1.0\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			eng := newFake()
			seen := make(chan context.Context, 1) // of the request, as net/http made it
			eng.ingest = func(ctx context.Context, _ string, _ *mapping.Record) (forebay.Result, error) {
				<-(<-seen).Done() // net/http has noticed
				if err := ctx.Err(); err != nil {
					return forebay.Result{}, err
				}
				return forebay.Result{Sinks: []forebay.SinkResult{stored("a")}}, nil
			}
			c := serveRaw(t, eng, Options{}, func(s *http.Server) {
				ingest := s.Handler
				s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen <- r.Context()
					ingest.ServeHTTP(w, r)
				})
			})()
			c.send(text)
			if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			c.expect(200, "OK")
		})
	}
}

// A request that is not complete is not stored.
func TestClientLeavesWithinTheBody(t *testing.T) {
	eng := newFake()
	eng.ingest = func(context.Context, string, *mapping.Record) (forebay.Result, error) {
		t.Error("the event reached the engine")
		return forebay.Result{}, nil
	}
	c := serveRaw(t, eng, Options{}, nil)()
	c.send("POST " + rawTarget + " HTTP/1.1\nHost: x\nContent-Length: 3\n\n{}")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.expect(499, "stream.in.eof")
}

// The durable wait has an end, and the server leaves time to say so.
func TestDurableWaitIsBounded(t *testing.T) {
	if s := Server("", nil); s.WriteTimeout < s.ReadTimeout+deadline.Timeout {
		t.Errorf("WriteTimeout %v does not cover ReadTimeout %v and %v of storing", s.WriteTimeout, s.ReadTimeout, deadline.Timeout)
	}
	synctest.Test(t, func(t *testing.T) {
		eng := newFake()
		eng.ingest = func(ctx context.Context, _ string, _ *mapping.Record) (forebay.Result, error) {
			<-ctx.Done()
			return forebay.Result{}, &buffer.UnknownError{Err: ctx.Err()}
		}
		start := time.Now()
		w := serve(newHandler(eng, Options{}), post(rawTarget, "{}"))
		checkError(t, w, 503, "stream.in.noPipelineReady")
		if d := time.Since(start); d != deadline.Timeout {
			t.Errorf("answered after %v, want %v", d, deadline.Timeout)
		}
	})
}

// A response that does not depend on the body does not wait for it. The ReadTimeout is far after the deadline of the
// connection, so that a response which waits is not read at all.
func TestErrorKnownBeforeTheBodyIsAnsweredBeforeIt(t *testing.T) {
	dial := serveRaw(t, newFake(stored("a")), Options{}, func(s *http.Server) { s.ReadTimeout = time.Hour })
	for _, tt := range []struct {
		line   string
		status int
		body   string
	}{
		{"POST /stream/1/web/wrong", 404, "stream.in.noSourceFound"},
		{"POST /stream/1/off/" + secret, 404, "stream.in.disabledSource"},
		{"POST /x", 404, "stream.in.routeNotFound"},
		{"PUT " + rawTarget, 405, "stream.in.methodNotAllowed"},
		{"POST /stream/0/web/" + secret, 400, "stream.in.badRequest"},
		{"OPTIONS " + rawTarget, 200, ""},
	} {
		for _, body := range []string{"Content-Length: 1000\n\n", "Transfer-Encoding: chunked\n\n3\nabc\n"} {
			c := dial()
			c.send(tt.line + " HTTP/1.1\nHost: x\n" + body)
			if resp := c.expect(tt.status, tt.body); !resp.Close {
				t.Errorf("%s: the connection is kept, and the rest of the body would be read as a request", tt.line)
			}
			c.Close()
		}
		c := dial() // without a body there is nothing to leave
		c.send(tt.line + " HTTP/1.1\nHost: x\nContent-Length: 0\n\n")
		if resp := c.expect(tt.status, tt.body); resp.Close {
			t.Errorf("%s: the connection is closed although there is no body", tt.line)
		}
		c.Close()
	}
}

// Over HTTP/2 a refused body ends its stream, not the connection that other requests share.
func TestHTTP2(t *testing.T) {
	srv := httptest.NewUnstartedServer(newHandler(newFake(stored("a")), Options{MaxBodyBytes: 1000}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	var reused []bool
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = append(reused, info.Reused) },
	})
	for _, tt := range []struct{ size, status int }{{10, 200}, {100_000, 413}, {1000, 200}} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+rawTarget, strings.NewReader(strings.Repeat("x", tt.size)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || resp.ProtoMajor != 2 {
			t.Errorf("%d bytes: got %s over %s, want status %d over HTTP/2", tt.size, resp.Status, resp.Proto, tt.status)
		}
	}
	if want := []bool{false, true, true}; !slices.Equal(reused, want) {
		t.Errorf("connections reused: %v, want %v", reused, want)
	}
}

// Server must bound everything that a client can draw out.
func TestServerHasLimits(t *testing.T) {
	s := Server(":1234", http.NotFoundHandler())
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= s.ReadTimeout || s.IdleTimeout <= 0 {
		t.Errorf("a timeout is missing: %+v", s)
	}
	if s.MaxHeaderBytes <= 16<<10 {
		t.Errorf("MaxHeaderBytes is %d: the handler could never answer 413", s.MaxHeaderBytes)
	}
	if s.Addr != ":1234" || s.Handler == nil {
		t.Errorf("server is %+v", s)
	}
}
