package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serveLimited serves with at most n connections until the test ends.
func serveLimited(t *testing.T, inner net.Listener, srv *http.Server, n int, checks ...string) (address string) {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(LimitConnections(inner, n, checks...)) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return inner.Addr().String()
}

// readings reports each connection that is read a second time. What came first has been seen by then.
type readings struct {
	net.Listener
	again chan struct{}
}

func (l readings) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &readConn{Conn: c, again: l.again}, err
}

type readConn struct {
	net.Conn
	again chan struct{}
	reads atomic.Int32
}

func (c *readConn) Read(p []byte) (int, error) {
	if c.reads.Add(1) == 2 {
		c.again <- struct{}{}
	}
	return c.Conn.Read(p)
}

// client is a connection whose responses are read.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dialTo(t *testing.T, address string) *client {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &client{t, c, bufio.NewReader(c)}
}

func (c *client) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// status returns the status of the next response, 0 if the connection is closed.
func (c *client) status() int {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatal("no answer")
	}
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		c.t.Error(err)
	}
	return resp.StatusCode
}

const simpleGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

var sayOK = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK") })

// The least recently used connection gives way, with a kept one among them, and no client waits for a time-out.
func TestIdleConnectionGivesWay(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	idle := make(chan struct{}, 10) // a client has its response some moments before its connection is idle
	address := serveLimited(t, inner, &http.Server{Handler: sayOK, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateIdle {
			idle <- struct{}{}
		}
	}}, 3)
	use := func(c *client) {
		t.Helper()
		c.say(simpleGet)
		if s := c.status(); s != http.StatusOK {
			t.Fatalf("status %d", s)
		}
		<-idle
	}
	var all []*client
	for range 3 {
		c := dialTo(t, address)
		use(c)
		all = append(all, c)
	}
	use(all[0]) // now the second was used longest ago
	for _, gone := range []int{1, 2, 0} {
		use(dialTo(t, address))
		if s := all[gone].status(); s != 0 {
			t.Errorf("connection %d has another answer: %d", gone, s)
		}
	}
}

// Silent connections give way before connections that have begun a request, and these before none. A complete request stays.
func TestSilentConnectionsGiveWayFirst(t *testing.T) {
	release := make(chan struct{})
	reached := make(chan struct{}, 10)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	again := make(chan struct{}, 10)
	address := serveLimited(t, readings{inner, again}, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			reached <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "OK")
	})}, 3)
	slow := dialTo(t, address)
	slow.say(strings.Replace(simpleGet, "/", "/slow", 1))
	<-reached
	<-again // the server looks whether the client goes away
	partial := dialTo(t, address)
	partial.say("GET / HTTP/1.1\r\nHost")
	<-again
	silent := dialTo(t, address)
	quick := func() {
		t.Helper()
		c := dialTo(t, address)
		defer c.Close()
		c.say(simpleGet)
		if s := c.status(); s != http.StatusOK {
			t.Errorf("status %d", s)
		}
	}
	quick()
	if s := silent.status(); s != 0 {
		t.Errorf("the silent connection has an answer: %d", s)
	}
	<-again
	for range 2 { // each begins a request and stays
		dialTo(t, address).say("G")
		<-again
	}
	if s := partial.status(); s != 0 {
		t.Errorf("the half request has an answer: %d", s)
	}
	quick()
	close(release)
	if s := slow.status(); s != http.StatusOK {
		t.Errorf("the request in progress: status %d", s)
	}
}

// While every connection has a request, checks get a response, other requests get a 503, and a place that becomes free is
// taken.
func TestChecksHaveAReserve(t *testing.T) {
	release := make(chan struct{})
	reached := make(chan struct{}, 2)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	idle := make(chan string, 1000) // the clients, some moments after they have their responses
	address := serveLimited(t, inner, &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/slow") {
				reached <- struct{}{}
				<-release
			}
			_, _ = io.WriteString(w, "OK")
		}),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateIdle {
				idle <- c.RemoteAddr().String()
			}
		},
	}, 2, "/health-check", "/readiness-check")
	busy := make(map[string]*client)
	for range 2 {
		c := dialTo(t, address)
		c.say(strings.Replace(simpleGet, "/", "/slow", 1))
		<-reached
		busy[c.LocalAddr().String()] = c
	}
	for range 2 * reservedConnections { // they give their places back
		for request, want := range map[string]int{
			"GET /health-check HTTP/1.1\r\nHost: x\r\n\r\n":        http.StatusOK,
			"GET /readiness-check?x HTTP/1.1\r\nHost: x\r\n\r\n":   http.StatusOK,
			"GET /health-checks HTTP/1.1\r\nHost: x\r\n\r\n":       http.StatusServiceUnavailable,
			"POST /stream HTTP/1.1\r\nHost: x\r\n\r\n":             http.StatusServiceUnavailable,
			"GET /stream/health-check HTTP/1.1\r\nHost: x\r\n\r\n": http.StatusServiceUnavailable,
		} {
			c := dialTo(t, address)
			c.say(request)
			if s := c.status(); s != want {
				t.Fatalf("got %.30q: status %d, want %d", request, s, want)
			}
			c.Close()
		}
	}
	close(release)
	for _, c := range busy {
		if s := c.status(); s != http.StatusOK {
			t.Errorf("status %d", s)
		}
	}
	for len(busy) > 0 {
		delete(busy, <-idle)
	}
	c := dialTo(t, address)
	c.say(simpleGet)
	if s := c.status(); s != http.StatusOK {
		t.Errorf("after the requests have ended: status %d", s)
	}
}

// HTTP/2 works below TLS and around it, and the bound holds.
func TestLimitConnectionsWithTLS(t *testing.T) {
	for _, around := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(sayOK)
		srv.EnableHTTP2 = true
		inner := srv.Listener
		var most int
		if around {
			srv.StartTLS() // for its certificate
			config := srv.TLS.Clone()
			srv.Close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			own := &http.Server{Handler: sayOK, TLSConfig: config, ReadHeaderTimeout: time.Minute}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = own.Serve(LimitConnections(tls.NewListener(l, config), 2))
			}()
			most = useHTTP2(t, l.Addr().String())
			_ = own.Close()
			<-ended
		} else {
			srv.Listener = LimitConnections(inner, 2)
			srv.StartTLS()
			most = useHTTP2(t, inner.Addr().String())
			srv.Close()
		}
		if most != 2 {
			t.Errorf("around TLS %t: requests had HTTP/%d", around, most)
		}
	}
}

// useHTTP2 makes requests over its own connections and returns the version of HTTP that they had.
func useHTTP2(t *testing.T, address string) int {
	t.Helper()
	version := 0
	for i := range 6 {
		transport := &http.Transport{
			ForceAttemptHTTP2: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the certificate belongs to the test
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s/%d", address, i), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		version = resp.ProtoMajor
		cancel()
		transport.CloseIdleConnections()
	}
	return version
}
