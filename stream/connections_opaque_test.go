package stream

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// An HTTP/2 connection with a request in progress stays when a new connection arrives at the bound, though its server wrote last. An
// HTTP/2 connection that is quiet gives way. The same holds for a connection with TLS.
func TestOpaqueConnectionsGiveWayWhenQuiet(t *testing.T) {
	for _, secure := range []bool{false, true} {
		name := "plain"
		if secure {
			name = "TLS"
		}
		t.Run(name, func(t *testing.T) { testOpaque(t, secure) })
	}
}

func testOpaque(t *testing.T, secure bool) {
	release, reached := make(chan struct{}), make(chan struct{}, 1)
	var opened atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request had %s, want HTTP/2", r.Proto)
		}
		if r.URL.Path == "/slow" {
			_, _ = io.WriteString(w, "begun, ")
			_ = http.NewResponseController(w).Flush()
			reached <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "ended")
	}))
	srv.EnableHTTP2 = secure
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP2(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(!secure)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	limited := LimitConnections(srv.Listener, 1).(*limitedListener)
	srv.Listener = limited
	scheme := "http://"
	if secure {
		srv.StartTLS()
		scheme = "https://"
	} else {
		srv.Start()
	}
	defer srv.Close()
	address := scheme + srv.Listener.Addr().String()

	setQuiet(limited, time.Hour)
	slow := make(chan string, 1)
	go func() { slow <- getHTTP2(t.Context(), address+"/slow") }()
	<-reached
	quick := make(chan string, 1)
	go func() { quick <- getHTTP2(t.Context(), address) }()
	for !limited.waiting.Load() { // Accept has the second connection and looks for a place
		runtime.Gosched()
	}
	for range 3 { // each look would have closed the first connection, if it gave way
		limited.notify()
	}
	close(release)
	if got := <-slow; got != "begun, ended" {
		t.Errorf("the request in progress got %q, want its whole response", got)
	}
	setQuiet(limited, time.Millisecond)
	if got := <-quick; got != "ended" {
		t.Errorf("the request of the second connection got %q, want %q", got, "ended")
	}
	if got := opened.Load(); got != 2 {
		t.Errorf("%d connections were served, want 2", got)
	}
}

func setQuiet(l *limitedListener, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = d
}

// getHTTP2 returns the body of a response that arrives over a new connection, or the error. The connection stays open.
func getHTTP2(ctx context.Context, url string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	transport := &http.Transport{
		Protocols:       new(http.Protocols),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the certificate belongs to the test
	}
	transport.Protocols.SetHTTP2(true)
	transport.Protocols.SetUnencryptedHTTP2(true)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return string(body) + err.Error()
	}
	return string(body)
}

// The first segment of an HTTP/2 connection may end within its preface.
func TestPrefaceInSegments(t *testing.T) {
	for text, want := range map[string]bool{"PRI * HTTP/2.0\r\n": true, "\x16\x03": true, "POST / HTTP/1.1\r\n": false, "PRX ": false, "GET": false} {
		for size := 1; size <= len(text); size++ {
			c := &limitedConn{}
			for rest := []byte(text); len(rest) > 0 && !c.known; {
				n := min(size, len(rest))
				c.recognize(rest[:n])
				rest = rest[n:]
			}
			if got := c.opaque.Load(); got != want || !c.known {
				t.Errorf("%q in segments of %d bytes: opaque %t, known %t, want opaque %t", text, size, got, c.known, want)
			}
		}
	}
}
