package fastserver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/stream/fastserver"
	"go.uber.org/goleak"
)

// net/http keeps a connection for half a second after it has refused its request.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// serve serves h on a loopback port until the test ends.
func serve(t *testing.T, h http.Handler, opts fastserver.Options) net.Listener {
	return serveWith(t, h, opts, func(l net.Listener) net.Listener { return l })
}

func serveWith(t *testing.T, h http.Handler, opts fastserver.Options, wrap func(net.Listener) net.Listener) net.Listener {
	t.Helper()
	srv, l, ended := begin(t, h, opts, wrap)
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return l
}

func begin(t *testing.T, h http.Handler, opts fastserver.Options, wrap func(net.Listener) net.Listener) (*fastserver.Server, net.Listener, chan error) {
	t.Helper()
	srv, err := fastserver.New(h, opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(wrap(l)) }()
	return srv, l, ended
}

// dial returns a connection on which nothing takes longer than ten seconds.
func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func plainListener(l net.Listener) net.Listener { return l }

const chunked = "POST /x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n2\n{}\n0\n\n"

func TestShutdown(t *testing.T) {
	for name, text := range map[string]string{"plain": post, "net/http": chunked} {
		t.Run(name, func(t *testing.T) {
			arrived, finish := make(chan struct{}), make(chan struct{})
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/x" {
					close(arrived)
					<-finish
				}
				_, _ = io.WriteString(w, "done")
			})
			srv, l, ended := begin(t, h, fastserver.Options{}, plainListener)
			defer srv.Close()
			busy, idle, other, fresh := dial(t, l), dial(t, l), dial(t, l), dial(t, l)
			for _, c := range []net.Conn{idle, other} {
				send(t, c, bufio.NewReader(c), "POST /idle HTTP/1.1\nHost: a\nContent-Length: 0\n\n")
			}
			send(t, other, bufio.NewReader(other), "POST /idle HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n0\n\n")
			if _, err := busy.Write(raw(text)); err != nil {
				t.Fatal(err)
			}
			<-arrived
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := srv.Shutdown(gone); !errors.Is(err, context.Canceled) {
				t.Errorf("with a request in progress Shutdown returns %v", err)
			}
			stopped := make(chan error, 1)
			go func() { stopped <- srv.Shutdown(t.Context()) }()
			// Idle connections end although a request is in progress.
			for name, c := range map[string]net.Conn{"idle": idle, "idle of net/http": other, "without a request": fresh} {
				if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("the connection that is %s gives %d, %v", name, n, err)
				}
			}
			if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
				t.Error("another connection is taken")
			}
			select {
			case err := <-stopped:
				t.Fatalf("Shutdown returned %v before the answer", err)
			default:
			}
			close(finish)
			if resp := receive(t, bufio.NewReader(busy)); resp.StatusCode != 200 || !resp.Close {
				t.Errorf("answer is %v", resp)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if err := <-ended; err != http.ErrServerClosed {
				t.Errorf("Serve returns %v", err)
			}
			if err := srv.Serve(newPipes()); err != http.ErrServerClosed {
				t.Errorf("Serve of a server that is shut down returns %v", err)
			}
		})
	}
}

// Clients that continue while the server stops get a response to every request that it began, and no half response.
func TestShutdownUnderLoad(t *testing.T) {
	srv, l, ended := begin(t, &observer{}, fastserver.Options{}, plainListener)
	defer srv.Close()
	var clients sync.WaitGroup
	busy := make(chan struct{}, 1000)
	for i := range 16 {
		c := dial(t, l)
		text := raw(post)
		if i%4 == 3 {
			text = raw(chunked)
		}
		clients.Go(func() {
			r := bufio.NewReader(c)
			for {
				if _, err := c.Write(text); err != nil {
					return
				}
				if _, err := r.Peek(1); err != nil {
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := io.ReadAll(resp.Body); err != nil || len(b) == 0 {
					t.Errorf("answer ends after %q: %v", b, err)
				}
				select {
				case busy <- struct{}{}:
				default:
				}
			}
		})
	}
	for range cap(busy) {
		<-busy
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	clients.Wait()
	<-ended
}

func TestClose(t *testing.T) {
	arrived, finish := make(chan struct{}, 2), make(chan struct{})
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-finish
	})
	srv, l, ended := begin(t, h, fastserver.Options{}, plainListener)
	conns := []net.Conn{dial(t, l), dial(t, l), dial(t, l)}
	for i, text := range []string{post, chunked} {
		if _, err := conns[i].Write(raw(text)); err != nil {
			t.Fatal(err)
		}
		<-arrived
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	for i, c := range conns {
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("connection %d gives %d, %v", i, n, err)
		}
	}
	close(finish)
	if err := <-ended; err != http.ErrServerClosed {
		t.Error(err)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A string that a handler keeps of a request stays unchanged, whatever arrives later on the connection, and responses reach the
// client that they are for.
func TestKeptStringsAndManyClients(t *testing.T) {
	var mu sync.Mutex
	kept := make(map[string][]string)
	l := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		id := r.Header.Get("X-Id")
		kept[id] = []string{id, r.URL.Path, r.URL.RawQuery, r.Host, r.Method, r.Header.Get("X-Text"), r.RequestURI}
		mu.Unlock()
		w.Header().Set("X-Id", id)
		_, _ = w.Write(b)
	}), fastserver.Options{})
	const clients, requests = 16, 100
	var all sync.WaitGroup
	for i := range clients {
		c := dial(t, l)
		all.Go(func() {
			r := bufio.NewReader(c)
			for k := range requests {
				id := fmt.Sprintf("%d-%d", i, k)
				body := strings.Repeat(id, 1+k*7%500)
				if k == requests/2 && i%4 == 0 {
					body = strings.Repeat(id, 50_000)
				}
				if _, err := fmt.Fprintf(c, "POST /%s?%s HTTP/1.1\r\nHost: h%s\r\nx-id: %s\r\nx-text: %s\r\nContent-Length: %d\r\n\r\n%s",
					id, id, id, id, strings.Repeat(id, k), len(body), body); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := io.ReadAll(resp.Body); err != nil || string(b) != body || resp.Header.Get("X-Id") != id {
					t.Errorf("request %s got the answer to %s: %v", id, resp.Header.Get("X-Id"), err)
				}
			}
		})
	}
	all.Wait()
	for i := range clients {
		for k := range requests {
			id := fmt.Sprintf("%d-%d", i, k)
			want := []string{id, "/" + id, id, "h" + id, "POST", strings.Repeat(id, k), "/" + id + "?" + id}
			if got := kept[id]; strings.Join(got, "|") != strings.Join(want, "|") {
				t.Fatalf("request %s left %q", id, got)
			}
		}
	}
}

// A panic ends its connection and no other, is logged with its place, and gives nothing of the request away.
func TestPanics(t *testing.T) {
	var logs bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logs.Write(p)
	}), nil))
	l := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/runtime":
			var none []int
			none[len(r.Host)]++
		case "/secret-in-path":
			panic("cannot serve " + r.URL.String())
		}
	}), fastserver.Options{Logger: logger})
	for _, framing := range []string{"Content-Length: 0\n\n", "Transfer-Encoding: chunked\n\n0\n\n"} {
		for _, path := range []string{"/abort", "/runtime", "/secret-in-path"} {
			c := dial(t, l)
			if _, err := c.Write(raw("POST " + path + " HTTP/1.1\nHost: a\n" + framing)); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(c); len(b) != 0 || err != nil {
				t.Errorf("%s: got %q, %v, want the end of the connection", path, b, err)
			}
		}
		c := dial(t, l)
		if resp := send(t, c, bufio.NewReader(c), "POST / HTTP/1.1\nHost: a\n"+framing); resp.StatusCode != 200 {
			t.Errorf("answer is %v", resp)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	text := logs.String()
	if strings.Contains(text, "secret") {
		t.Errorf("the log has the path: %s", text)
	}
	for part, n := range map[string]int{"handler panicked": 4, "index out of range": 2, "panic=string": 2, "server_test.go": 4} {
		if got := strings.Count(text, part); got < n || part != "server_test.go" && got != n {
			t.Errorf("the log has %q %d times, want %d: %s", part, got, n, text)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TLS is served by net/http, with HTTP/2 for who wants it.
func TestTLS(t *testing.T) {
	certificates := httptest.NewUnstartedServer(nil)
	certificates.StartTLS()
	config := certificates.TLS.Clone()
	certificates.Close()
	config.NextProtos = []string{"h2", "http/1.1"}
	o := &observer{}
	l := serveWith(t, o, fastserver.Options{}, func(l net.Listener) net.Listener { return tls.NewListener(l, config) })
	for _, h2 := range []bool{true, false} {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: h2,
		}}
		resp, err := client.Post("https://"+l.Addr().String()+"/x", "text/plain", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.ProtoMajor == 2 != h2 {
			t.Errorf("protocol is %s", resp.Proto)
		}
		client.CloseIdleConnections()
	}
	for _, s := range o.seen {
		if !s.TLS || s.Body != "{}" {
			t.Errorf("the handler saw %+v", s)
		}
	}
}

// A response of unknown length has a known length here, and is chunked by net/http. The client reads the same.
func TestLargeAnswer(t *testing.T) {
	text := strings.Repeat("0123456789", 100_000)
	l := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Transfer-Encoding", "chunked")
		w.Header().Set("Content-Length", "many")
		w.WriteHeader(http.StatusEarlyHints)
		for i := 0; i < len(text); i += 1000 {
			_, _ = io.WriteString(w, text[i:i+1000])
		}
		w.Header().Set(http.TrailerPrefix+"A", "b")
	}), fastserver.Options{})
	c := dial(t, l)
	r := bufio.NewReader(c)
	for range 2 {
		resp := send(t, c, r, post)
		b, _ := io.ReadAll(resp.Body)
		if string(b) != text || resp.ContentLength != int64(len(text)) || resp.Trailer != nil || resp.Header.Get("Content-Type") == "" {
			t.Errorf("answer is %v with %d bytes", resp, len(b))
		}
	}
}

// The context of a request ends with its connection.
func TestContext(t *testing.T) {
	contexts := make(chan context.Context, 3)
	l := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || a.Network() != "tcp" {
			t.Errorf("local address is %v", a)
		}
		if _, ok := r.Context().Value(http.ServerContextKey).(*http.Server); !ok {
			t.Error("the context has no server")
		}
		if r.RemoteAddr == "" {
			t.Error("the request has no remote address")
		}
		contexts <- r.Context()
	}), fastserver.Options{})
	c := dial(t, l)
	r := bufio.NewReader(c)
	send(t, c, r, post)
	send(t, c, r, post)
	first, second := <-contexts, <-contexts
	if first.Err() != nil || second.Err() != nil {
		t.Error("a context ended before the connection")
	}
	c.Close()
	<-second.Done()
}

// failing is a listener that cannot accept a few times.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	}
	return f.Listener.Accept()
}

type passing struct{ error }

func (passing) Temporary() bool { return true }

func TestAcceptFails(t *testing.T) {
	full := &net.OpError{Op: "accept", Err: passing{errors.New("too many open files")}}
	l := serveWith(t, &observer{}, fastserver.Options{}, func(l net.Listener) net.Listener {
		return &failing{l, []error{full, full}}
	})
	c := dial(t, l)
	if resp := send(t, c, bufio.NewReader(c), post); resp.StatusCode != 200 {
		t.Errorf("answer is %v", resp)
	}
	broken := errors.New("broken")
	srv, _, ended := begin(t, &observer{}, fastserver.Options{}, func(l net.Listener) net.Listener {
		return &failing{l, []error{broken}}
	})
	defer srv.Close()
	if err := <-ended; err != broken {
		t.Errorf("Serve returns %v", err)
	}
}

func TestOptions(t *testing.T) {
	_, err := fastserver.New(&observer{}, fastserver.Options{
		ReadHeaderTimeout: -1, ReadTimeout: -1, WriteTimeout: -1, IdleTimeout: -1, MaxHeaderBytes: -1,
	})
	for _, name := range []string{"ReadHeaderTimeout", "ReadTimeout", "WriteTimeout", "IdleTimeout", "MaxHeaderBytes"} {
		if err == nil || !strings.Contains(err.Error(), " "+name+" ") {
			t.Errorf("%s is not in %v", name, err)
		}
	}
	inBubble(t, &observer{}, fastserver.Options{MaxHeaderBytes: 1000}, func(t *testing.T, l pipes) {
		c := l.dial()
		r := bufio.NewReader(c)
		for _, size := range []int{900, 6000} {
			status := map[int]int{900: 200, 6000: 431}[size]
			if resp := send(t, c, r, "POST /x HTTP/1.1\nHost: a\nA: "+strings.Repeat("x", size)+"\n\n"); resp.StatusCode != status {
				t.Errorf("answer is %v", resp)
			}
		}
	})
}
