package fastserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

// script is a connection whose client sends its bytes in given pieces, ends its sending side, and reads everything.
type script struct {
	mu     sync.Mutex
	pieces [][]byte
	out    bytes.Buffer
	once   sync.Once
	done   chan struct{} // closed when the server has closed the connection
}

func (c *script) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pieces) > 0 && len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	c.pieces[0] = c.pieces[0][n:]
	return n, nil
}

func (c *script) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

func (c *script) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}

func (c *script) CloseWrite() error { return nil }

func (c *script) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
}

func (c *script) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 4321}
}

func (c *script) SetDeadline(time.Time) error      { return nil }
func (c *script) SetReadDeadline(time.Time) error  { return nil }
func (c *script) SetWriteDeadline(time.Time) error { return nil }

// once is a listener for one connection.
type once struct {
	conn chan net.Conn
	end  chan struct{}
	stop sync.Once
}

func (l *once) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}

func (l *once) Close() error {
	l.stop.Do(func() { close(l.end) })
	return nil
}

func (l *once) Addr() net.Addr { return &net.TCPAddr{} }

// seen is a request as a handler sees it.
type seen struct {
	Method, Path, RawPath, RawQuery, URL, RequestURI, Host, Proto, Remote string
	ForceQuery, Close, TLS                                                bool
	Header, Trailer                                                       http.Header
	TransferEncoding                                                      []string
	ContentLength                                                         int64
	Body, Err                                                             string
}

// observer notes every request and responds in the way that its path asks for.
type observer struct {
	mu   sync.Mutex
	seen []seen
}

func (o *observer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := seen{
		Method: r.Method, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, URL: r.URL.String(),
		RequestURI: r.RequestURI, Host: r.Host, Proto: r.Proto, Remote: r.RemoteAddr,
		ForceQuery: r.URL.ForceQuery, Close: r.Close, TLS: r.TLS != nil,
		Header: r.Header.Clone(), TransferEncoding: slices.Clone(r.TransferEncoding), ContentLength: r.ContentLength,
	}
	body := io.Reader(r.Body)
	switch r.URL.Path {
	case "/ignore", "/close", "/shut":
		body = strings.NewReader("")
	case "/part":
		body = io.LimitReader(r.Body, 3)
	}
	b, err := io.ReadAll(body)
	s.Body, s.Trailer = string(b), r.Trailer.Clone()
	if err != nil {
		s.Err = err.Error()
	}
	o.mu.Lock()
	o.seen = append(o.seen, s)
	o.mu.Unlock()

	h := w.Header()
	switch r.URL.Path {
	case "/close":
		h.Set("Connection", "close")
	case "/shut":
		r.Body.Close()
		if _, err := r.Body.Read(make([]byte, 1)); err == nil {
			panic("a closed body was read")
		}
	case "/empty":
		return
	case "/none":
		h.Set("Content-Length", "3")
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "xyz"); err != http.ErrBodyNotAllowed {
			panic(err)
		}
		return
	case "/same":
		h.Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusNotModified)
		return
	case "/odd":
		w.WriteHeader(499)
		w.WriteHeader(200) // which is too late
		return
	case "/long":
		h.Set("Content-Length", "3")
		if _, err := io.WriteString(w, "12345"); err != http.ErrContentLength {
			panic(err)
		}
		_, _ = io.WriteString(w, "123")
		return
	case "/short":
		h.Set("Content-Length", "5")
		_, _ = io.WriteString(w, "123")
		return
	case "/late":
		h.Set("A", "1")
		_, _ = io.WriteString(w, "x")
		h.Set("B", "2")
		return
	case "/fields":
		h["X-Split"] = []string{"a\r\nX-Injected: b", " padded\t", "", "ü"}
		h["Bad Name"] = []string{"x"}
		h["lower"] = []string{"x"}
		h["Trailer"] = nil
		h["Date"] = []string{"never"}
		h["Connection"] = []string{"keep-alive"}
		_, _ = w.Write([]byte("\x00\x01\x02"))
		return
	case "/encoded":
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("<html>"))
		return
	case "/html":
		_, _ = w.Write([]byte("<html>"))
		return
	case "/panic":
		panic(http.ErrAbortHandler)
	}
	answer, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	h.Set("Content-Length", strconv.Itoa(len(answer)))
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// served is what came of a script.
type served struct {
	seen []seen
	out  string
}

// play lets a server serve one script. It is called in a bubble of synctest, where the pauses of net/http take no time.
func play(t *testing.T, fast bool, pieces [][]byte) served {
	o := &observer{}
	c := &script{done: make(chan struct{})}
	for _, p := range pieces {
		c.pieces = append(c.pieces, bytes.Clone(p))
	}
	l := &once{conn: make(chan net.Conn), end: make(chan struct{})}
	var srv interface {
		Serve(net.Listener) error
		Close() error
	}
	if fast {
		s, err := fastserver.New(o, fastserver.Options{})
		if err != nil {
			t.Fatal(err)
		}
		srv = s
	} else {
		usual := stream.Server("", o)
		usual.ErrorLog = log.New(io.Discard, "", 0)
		srv = usual
	}
	ended := make(chan error)
	go func() { ended <- srv.Serve(l) }()
	l.conn <- c
	<-c.done
	synctest.Wait()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != http.ErrServerClosed {
		t.Error(err)
	}
	return served{o.seen, normal(c.out.String())}
}

// normal sorts the header lines of each response, because their order means nothing.
func normal(out string) string {
	const begin = "HTTP/1.1 "
	answers := strings.Split(out, begin)
	for i, a := range answers {
		head, body, ok := strings.Cut(a, "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		slices.Sort(lines[1:])
		answers[i] = strings.Join(lines, "\r\n")
		if ok {
			answers[i] += "\r\n\r\n" + body
		}
	}
	return strings.Join(answers, begin)
}
