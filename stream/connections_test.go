package stream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Clients that open connections and say nothing hold no more than the bound, and not for longer than the time-outs. Clients
// that have something to say get their turn.
func TestLimitConnections(t *testing.T) {
	const bound, idle = 4, 40
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open, most atomic.Int64
	srv := Server("", newHandler(newFake(stored("a")), Options{}))
	srv.ReadHeaderTimeout, srv.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond
	srv.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			most.Store(max(most.Load(), open.Add(1)))
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(LimitConnections(inner, bound)) }()
	defer func() {
		_ = srv.Close()
		if err := <-served; err != http.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
	}()
	for range idle {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", rawTarget); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("behind %d idle connections: %v", idle, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("answered %s, %v", resp.Status, err)
	}
	// A connection is counted as closed after it has given its slot back, so one more may be seen for a moment.
	if most.Load() > 2*bound {
		t.Errorf("%d connections were open at once, the bound is %d, want at most %v", most.Load(), bound, 2*bound)
	}
}

func TestLimitedListenerCloses(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := LimitConnections(inner, 1)
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	taken, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := l.Accept(); ended <- err }() // at the bound
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("Accept took a connection of a closed listener")
	}
	for range 2 { // a second Close gives no second slot back
		_ = taken.Close()
	}
}
