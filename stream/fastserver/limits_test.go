package fastserver_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

// pipes is a listener whose connections live in memory, with deadlines that follow the clock of a bubble.
type pipes struct{ *once }

func newPipes() pipes {
	return pipes{&once{conn: make(chan net.Conn), end: make(chan struct{})}}
}

// dial returns the side of the client.
func (p pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conn <- server
	return client
}

// inBubble serves h in a bubble of synctest.
func inBubble(t *testing.T, h http.Handler, opts fastserver.Options, test func(t *testing.T, l pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv, err := fastserver.New(h, opts)
		if err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		ended := make(chan error)
		go func() { ended <- srv.Serve(l) }()
		test(t, l)
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
}

// send writes, and reads one response.
func send(t *testing.T, c net.Conn, r *bufio.Reader, text string) *http.Response {
	t.Helper()
	if _, err := c.Write(raw(text)); err != nil {
		t.Fatal(err)
	}
	return receive(t, r)
}

func receive(t *testing.T, r *bufio.Reader) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	return resp
}

// within checks that a time-out came when it should, not early, and no more than its slack late.
func within(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if d := time.Since(start); d < want || d > want+time.Second {
		t.Errorf("it took %v, want %v and at most a second more", d, want)
	}
}

const post = "POST /x HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}"

func TestTimeouts(t *testing.T) {
	closed := func(t *testing.T, c net.Conn) {
		t.Helper()
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("read %q, %v, want a closed connection", b, err)
		}
	}
	// refused is a connection that ends as net/http ends it, with a response for a line that was not finished.
	refused := func(t *testing.T, c net.Conn) {
		t.Helper()
		if b, err := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 400 Bad Request\r\n") || err != nil {
			t.Errorf("read %q, %v, want a status of 400", b, err)
		}
	}
	for name, first := range map[string]string{"nothing": "", "half a head": "POST /x HTTP/1.1\nHost", "one byte": "P", "lines": "POST /x HTTP/1.1\nHost: a\n"} {
		t.Run(name, func(t *testing.T) {
			check := refused
			if first == "" || name == "lines" {
				check = closed
			}
			inBubble(t, &observer{}, fastserver.Options{}, func(t *testing.T, l pipes) {
				c := l.dial()
				start := time.Now()
				if _, err := c.Write(raw(first)); err != nil {
					t.Fatal(err)
				}
				check(t, c)
				within(t, start, 10*time.Second)
			})
			synctest.Test(t, func(t *testing.T) { // the same
				l := newPipes()
				srv := &http.Server{Handler: &observer{}, ReadHeaderTimeout: 10 * time.Second}
				ended := make(chan error)
				go func() { ended <- srv.Serve(l) }()
				c := l.dial()
				if _, err := c.Write(raw(first)); err != nil {
					t.Fatal(err)
				}
				check(t, c)
				_ = srv.Close()
				<-ended
			})
		})
	}
	t.Run("late first byte of a new connection", func(t *testing.T) { // it does not begin the time again
		inBubble(t, &observer{}, fastserver.Options{}, func(t *testing.T, l pipes) {
			c := l.dial()
			start := time.Now()
			for _, late := range []time.Duration{8 * time.Second, time.Second} {
				time.Sleep(late)
				if _, err := c.Write([]byte("P")); err != nil {
					t.Fatal(err)
				}
			}
			refused(t, c)
			within(t, start, 10*time.Second)
		})
	})
	t.Run("late first request", func(t *testing.T) { // its own times begin with its first byte
		o := &observer{}
		inBubble(t, o, fastserver.Options{}, func(t *testing.T, l pipes) {
			c := l.dial()
			time.Sleep(9 * time.Second)
			start := time.Now()
			if _, err := c.Write(raw("POST /x HTTP/1.1\nHost: a\nContent-Length: 3\n\n1")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			if _, err := c.Write([]byte("2")); err != nil {
				t.Fatal(err)
			}
			receive(t, bufio.NewReader(c))
			within(t, start, 30*time.Second)
			if s := o.seen[0]; s.Body != "12" || !strings.Contains(s.Err, "timeout") {
				t.Errorf("the handler saw %q, %s", s.Body, s.Err)
			}
			c.Close()
		})
	})
	t.Run("idle after requests", func(t *testing.T) {
		inBubble(t, &observer{}, fastserver.Options{}, func(t *testing.T, l pipes) {
			c := l.dial()
			r := bufio.NewReader(c)
			for range 10 { // each begins the wait again
				send(t, c, r, post)
				time.Sleep(29 * time.Second)
			}
			send(t, c, r, post)
			start := time.Now()
			closed(t, c)
			within(t, start, 30*time.Second)
		})
	})
	t.Run("half a head after a request", func(t *testing.T) {
		inBubble(t, &observer{}, fastserver.Options{}, func(t *testing.T, l pipes) {
			c := l.dial()
			send(t, c, bufio.NewReader(c), post)
			time.Sleep(5 * time.Second)
			start := time.Now()
			if _, err := c.Write(raw("POST /x HTTP/1.1\nHo")); err != nil {
				t.Fatal(err)
			}
			refused(t, c)
			within(t, start, 10*time.Second)
		})
	})
	t.Run("slow body", func(t *testing.T) {
		o := &observer{}
		inBubble(t, o, fastserver.Options{}, func(t *testing.T, l pipes) {
			c := l.dial()
			r := bufio.NewReader(c)
			send(t, c, r, post)
			start := time.Now()
			if _, err := c.Write(raw("POST /x HTTP/1.1\nHost: a\nContent-Length: 10\n\n12")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			if _, err := c.Write([]byte("345")); err != nil { // a drop now and then does not help
				t.Fatal(err)
			}
			if resp := receive(t, r); !resp.Close {
				t.Error("the connection is kept")
			}
			within(t, start, 30*time.Second)
			if s := o.seen[1]; s.Body != "12345" || !strings.Contains(s.Err, "timeout") {
				t.Errorf("the handler saw %q, %s", s.Body, s.Err)
			}
			if _, err := c.Write([]byte("67890")); err == nil {
				closed(t, c)
			}
		})
	})
	t.Run("client that does not read", func(t *testing.T) {
		inBubble(t, &observer{}, fastserver.Options{}, func(t *testing.T, l pipes) {
			failed := make(chan struct{})
			c := l.dial()
			start := time.Now()
			if _, err := c.Write(raw(post)); err != nil {
				t.Fatal(err)
			}
			go func() {
				defer close(failed)
				for { // written to until it is closed, read from never
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
				}
			}()
			<-failed
			within(t, start, 70*time.Second)
		})
	})
	t.Run("slow handler", func(t *testing.T) {
		slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(60 * time.Second)
			_, _ = io.WriteString(w, "late")
		})
		inBubble(t, slow, fastserver.Options{}, func(t *testing.T, l pipes) {
			c := l.dial()
			r := bufio.NewReader(c)
			for range 3 { // neither the time for idle connections nor the time of the previous response counts
				if resp := send(t, c, r, post); resp.StatusCode != 200 || resp.Close {
					t.Errorf("answer is %v", resp)
				}
			}
		})
	})
}

// A body that is refused is not read to its end, and its sender still gets the response.
func TestRefusedBody(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	l := serve(t, refuse, fastserver.Options{})
	for _, framing := range []string{"Content-Length: 1000000000", "Transfer-Encoding: chunked"} {
		c := dial(t, l)
		if _, err := c.Write(raw("POST /x HTTP/1.1\nHost: a\n" + framing + "\n\n")); err != nil {
			t.Fatal(err)
		}
		go func() {
			chunk := raw("1000\n" + strings.Repeat("x", 4096) + "\n")
			for {
				if _, err := c.Write(chunk); err != nil {
					return
				}
			}
		}()
		if resp := receive(t, bufio.NewReader(c)); resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
			t.Errorf("%s: answer is %v", framing, resp)
		}
	}

	// A client that reads only after it has sent everything. A server that closed at once would take the response back.
	for range 20 {
		c := dial(t, l)
		if _, err := c.Write(raw("POST /x HTTP/1.1\nHost: a\nContent-Length: 4000000\n\n" + strings.Repeat("x", 2_000_000))); err != nil {
			t.Fatal(err)
		}
		if resp := receive(t, bufio.NewReader(c)); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("answer is %v", resp)
		}
		c.Close()
	}
}

// A client that has gone within a body leaves no trace, and the handler learns of it.
func TestClientLeavesWithinTheBody(t *testing.T) {
	errs := make(chan error, 1)
	l := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		errs <- err
	}), fastserver.Options{})
	c := dial(t, l)
	if _, err := c.Write(raw("POST /x HTTP/1.1\nHost: a\nContent-Length: 10\n\n12")); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-errs; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the body ended with %v", err)
	}
}

// The bound of connections counts connections that moved to net/http like others, and gets them back. A connection with a
// request keeps its place, one without gives way.
func TestLimitedConnections(t *testing.T) {
	limited := func(l net.Listener) net.Listener { return stream.LimitConnections(l, 1) }
	reached, release := make(chan struct{}), make(chan struct{})
	l := serveWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			reached <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "OK")
	}), fastserver.Options{}, limited)
	for i := range 6 {
		slow := "POST /slow HTTP/1.1\nHost: a\nContent-Length: 0\n\n"
		if i%2 == 1 { // for net/http
			slow = "POST /slow HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n0\n\n"
		}
		c := dial(t, l)
		if _, err := c.Write(raw(slow)); err != nil {
			t.Fatal(err)
		}
		<-reached
		waiting := dial(t, l)
		if _, err := waiting.Write(raw(post)); err != nil {
			t.Fatal(err)
		}
		if err := waiting.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a second connection is served: %v", err)
		}
		release <- struct{}{}
		if resp := receive(t, bufio.NewReader(c)); resp.StatusCode != 200 {
			t.Errorf("answer is %v", resp)
		}
		if i%3 == 0 {
			c.Close()
		}
		if err := waiting.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if resp := receive(t, bufio.NewReader(waiting)); resp.StatusCode != 200 {
			t.Errorf("answer is %v", resp)
		}
		waiting.Close()
	}
}

// A client that says it wants no further request, and sends a line end after the body in a separate packet, gets its response.
func TestBytesBehindTheLastBody(t *testing.T) {
	l := serve(t, &observer{}, fastserver.Options{})
	for i := range 100 {
		c := dial(t, l)
		if _, err := c.Write(raw("POST /x HTTP/1.1\nHost: a\nConnection: close\nContent-Length: 2\n\n{}")); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		if _, err := r.Peek(1); err != nil { // the response is on its way
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("\r\n")); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if resp := receive(t, r); resp.StatusCode != http.StatusOK {
			t.Fatalf("request %d: %v", i, resp)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Fatalf("request %d: the connection ends with %v", i, err)
		}
		c.Close()
	}
}
