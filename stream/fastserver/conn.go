package fastserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// The states of a connection. Whoever changes idle to another state owns the connection.
const (
	idle   int32 = iota // it waits for the first byte of a request, or has not started
	active              // its goroutine has read part of a request
	closed              // the server has closed it
)

// conn is a connection that this package serves. Only its goroutine uses the fields, except nc and state.
type conn struct {
	s     *Server
	nc    net.Conn
	state atomic.Int32
	// blank is a request with only what all requests of this connection have in common.
	blank *http.Request
	// cancel ends the context of the requests.
	cancel context.CancelFunc

	*memory
	// memory.in[from:to] was received and not used yet.
	from, to int
	// begun is when the first byte of the current request arrived, done when the last response was complete.
	begun, done time.Time
	// readBy and writeBy are the deadlines of nc, or zero for none.
	readBy, writeBy time.Time
	// requests counts the requests of this connection.
	requests int
	// ended is why the rest of a partial head cannot be read.
	ended error
	// breaks is how many line ends may precede the next request.
	breaks int
}

// maxBreaks is how many CR and LF are skipped after a POST. Some old clients send them, and net/http does the same.
const maxBreaks = 4

// memory is what connections use one after the other. What is used after the handler comes first and is contiguous: while
// the handler waits for a disk, most of the rest leaves the caches of the processor.
type memory struct {
	body     body
	response response
	url      url.URL
	request  http.Request
	header   http.Header
	values   []string
	head     head
	in       [maxHead]byte
}

func newMemory() *memory {
	return &memory{header: make(http.Header), response: response{header: make(http.Header)}}
}

// Bounds of the memory that a connection keeps for the next request.
const (
	maxKeptFields = 64
	maxKeptAnswer = 16 << 10
)

// tidy drops what an unusual request has made large.
func (m *memory) tidy() {
	if len(m.values) > maxKeptFields { // as many as the request before had
		m.values, m.header = nil, make(http.Header)
	}
}

func newConn(ctx context.Context, s *Server, nc net.Conn) *conn {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, http.LocalAddrContextKey, nc.LocalAddr()))
	blank := (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: nc.RemoteAddr().String()}).WithContext(ctx)
	return &conn{s: s, nc: nc, blank: blank, cancel: cancel}
}

// claimIdle marks an idle connection as closed by the server. It reports false if it is not idle.
func (c *conn) claimIdle() bool { return c.state.CompareAndSwap(idle, closed) }

func (c *conn) serve() {
	defer c.s.end(c)
	c.memory = c.s.memories.Get().(*memory)
	kept := false
	defer func() {
		if v := recover(); v != nil { // the handler may still have the memory, so it is not given back
			c.s.logPanic(v)
		}
		c.cancel()
		if !kept {
			c.nc.Close()
		}
	}()
	for {
		v := c.receive()
		if v == plain {
			if !c.makeRequest() {
				v = other
			} else if c.handle() {
				continue
			}
		}
		if v == other {
			c.handOver()
			kept = true
		}
		break
	}
	c.release()
}

// release returns the memory without anything of requests.
func (c *conn) release() {
	m := c.memory
	c.memory = nil
	m.request, m.url, m.body = http.Request{}, url.URL{}, body{}
	m.tidy()
	clear(m.values[:cap(m.values)])
	clear(m.header)
	m.response.begin(nil)
	if cap(m.head.fields) > 2*maxKeptFields {
		m.head.fields = nil
	}
	c.s.memories.Put(m)
}

// handOver gives the connection to net/http, with the bytes already read from it.
func (c *conn) handOver() {
	_ = c.nc.SetDeadline(time.Time{}) // a broken connection is found broken again
	c.s.handed.give(&replayed{Conn: c.nc, rest: append([]byte(nil), c.in[c.from:c.to]...), ended: c.ended})
}

// receive reads until a head is complete. With the verdict incomplete the connection has ended.
func (c *conn) receive() verdict {
	c.begun = time.Time{}
	skipped := 0
	for {
		skipped += c.skipBreaks()
		begun := c.from < c.to && (c.requests == 0 || c.to-c.from+skipped >= minHead)
		if begun {
			if c.begun.IsZero() {
				c.begun = time.Now()
			}
			if v := c.head.parse(c.in[c.from:c.to]); v != incomplete {
				if c.head.size > c.s.opts.MaxHeaderBytes {
					return other
				}
				return v
			}
			if c.makeRoom(); c.to == len(c.in) {
				return other
			}
			if c.requests > 0 || c.readBy.IsZero() { // else the time of the connection itself runs
				c.readUntil(c.begun.Add(c.s.opts.ReadHeaderTimeout), 0)
			}
		} else if c.makeRoom(); !c.waitIdle() {
			return incomplete
		}
		n, err := c.nc.Read(c.in[c.to:])
		c.to += n
		if n > 0 {
			if c.state.Load() == idle && !c.state.CompareAndSwap(idle, active) {
				return incomplete
			}
			continue
		}
		if begun && (errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded)) {
			c.ended = err
			return other // it gets a response for half a head
		}
		if err != nil {
			return incomplete
		}
	}
}

// minHead is the least size of a further request, because net/http waits for that many bytes before it parses them.
const minHead = 4

// skipBreaks skips line ends after the body of a POST and returns how many bytes it skipped.
func (c *conn) skipBreaks() (n int) {
	for c.from < c.to && c.breaks > 0 {
		if b := c.in[c.from]; b != '\r' && b != '\n' {
			c.breaks = 0
			break
		}
		c.breaks--
		c.from++
		n++
	}
	return n
}

// waitIdle makes the connection idle. It reports false when the server is stopping.
func (c *conn) waitIdle() bool {
	if c.requests == 0 {
		if c.readBy.IsZero() {
			c.readUntil(time.Now().Add(c.s.opts.ReadHeaderTimeout), 0)
		}
	} else {
		c.readUntil(c.done.Add(c.s.opts.IdleTimeout), slack(c.s.opts.IdleTimeout))
	}
	c.state.Store(idle)
	return !c.s.stopping.Load()
}

// slack is how much later than asked for a deadline may be. Setting one costs a tenth of a request; with some slack one
// deadline serves many requests.
func slack(d time.Duration) time.Duration { return min(d/8, time.Second) }

// readUntil makes reads fail at t, or up to slack later.
func (c *conn) readUntil(t time.Time, slack time.Duration) {
	if late := c.readBy.Sub(t); c.readBy.IsZero() || late < 0 || late > slack {
		c.readBy = t.Add(slack)
		_ = c.nc.SetReadDeadline(c.readBy) // it fails on a closed connection, where the read fails too
	}
}

// writeUntil makes writes fail at t, or up to slack later.
func (c *conn) writeUntil(t time.Time, slack time.Duration) {
	if late := c.writeBy.Sub(t); c.writeBy.IsZero() || late < 0 || late > slack {
		c.writeBy = t.Add(slack)
		_ = c.nc.SetWriteDeadline(c.writeBy)
	}
}

// makeRoom moves the unused bytes to the beginning of the buffer.
func (c *conn) makeRoom() {
	c.to = copy(c.in[:], c.in[c.from:c.to])
	c.from = 0
}

// makeRequest turns the head at the start of the buffer into the request and removes it from the buffer. It reports false,
// and removes nothing, if net/http must handle the request.
func (c *conn) makeRequest() bool {
	h := &c.head
	text := string(c.in[c.from : c.from+h.size]) // the only copy. Everything below is a part of it.
	target := h.target.of(text)
	u := &c.url
	if isTelemetry(target) {
		return false
	}
	if h.simple {
		c.url = url.URL{Path: target[:h.query]}
		if h.query < len(target) {
			c.url.RawQuery = target[h.query+1:]
		}
	} else {
		var err error
		if u, err = url.ParseRequestURI(target); err != nil {
			return false
		}
	}
	c.fillHeader(text)
	c.from += h.size
	c.breaks = 0
	if c.requests++; h.method.of(text) == http.MethodPost {
		c.breaks = maxBreaks
	}
	c.request = *c.blank
	r := &c.request
	r.Method, r.URL, r.RequestURI, r.Host = h.method.of(text), u, target, h.host.of(text)
	r.Header, r.ContentLength, r.Close = c.header, h.length, h.close
	c.body = body{c: c, left: h.length}
	r.Body = http.NoBody
	if h.length > 0 {
		r.Body = &c.body
	}
	return true
}

// isTelemetry reports whether exporters of OpenTelemetry use a target. Their batches have no keys. An equal batch is a new batch unless the
// response to the first batch failed or its sender had left. Only net/http notices such a failure.
func isTelemetry(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	path = strings.TrimSuffix(path, "/")
	return strings.HasPrefix(path, "/otlp/") || strings.HasSuffix(path, "/v1/logs") || strings.HasSuffix(path, "/v1/metrics") ||
		strings.HasSuffix(path, "/v1/traces")
}

// fillHeader fills the map of headers.
func (c *conn) fillHeader(text string) {
	c.tidy()
	fields := c.head.fields
	clear(c.header)
	if cap(c.values) < len(fields) {
		c.values = make([]string, max(2*len(fields), 16))
	}
	values := c.values[:len(fields)]
	c.values = values
	// seen has a bit for each name so far, so that most names need no look into the map. It never misses a repeated one.
	var seen uint64
	for i, f := range fields {
		name := f.name.of(text)
		values[i] = f.value.of(text)
		bit := uint64(1) << ((uint(len(name))*7 + uint(name[0]) + uint(name[len(name)-1])*3) % 64)
		if seen&bit != 0 {
			if before, ok := c.header[name]; ok {
				c.header[name] = append(before, values[i])
				continue
			}
		}
		seen |= bit
		c.header[name] = values[i : i+1 : i+1]
	}
	if c.head.pragma && c.header["Pragma"][0] == "no-cache" { // net/http does so, too
		if _, ok := c.header["Cache-Control"]; !ok {
			c.header["Cache-Control"] = []string{"no-cache"}
		}
	}
}

// handle has the handler process the request. It reports whether the connection continues.
func (c *conn) handle() bool {
	c.writeUntil(c.begun.Add(c.s.opts.WriteTimeout), slack(c.s.opts.WriteTimeout))
	w := &c.response
	w.begin(c)
	c.s.handler.ServeHTTP(w, &c.request)
	c.body.leave()
	c.done = time.Now()
	goesOn := w.finish()
	if _, err := c.nc.Write(w.head); err != nil {
		return false
	}
	if !goesOn {
		c.linger()
	}
	return goesOn
}

// lingering is how long the end of a connection is read and discarded, unless the client closes it before. If data is unread
// or arrives when a connection is closed, the system resets it, and a client that has not read the response yet loses it. A
// line end after the body is enough for that.
const lingering = 500 * time.Millisecond

func (c *conn) linger() {
	if half, ok := c.nc.(halfCloser); ok && half.CloseWrite() != nil || !ok && c.body.left == 0 && c.from == c.to {
		return
	}
	c.readUntil(time.Now().Add(lingering), 0)
	for {
		if _, err := c.nc.Read(c.in[:]); err != nil {
			return
		}
	}
}

type body struct {
	c *conn
	// left is the number of bytes that Read has not returned yet, including bytes in the buffer.
	left int64
	// broken means that the client ended within the body. failed means that reading failed for another reason. closed means that the handler closed it.
	// over means that the handler closed it or returned.
	broken, failed, closed, over bool
}

// Read reads from the buffer first. It returns io.EOF with the last byte, which saves a call.
func (b *body) Read(p []byte) (n int, err error) {
	switch {
	case b.over:
		return 0, http.ErrBodyReadAfterClose
	case b.left == 0:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	c := b.c
	p = p[:min(int64(len(p)), b.left)]
	if c.from < c.to {
		n = copy(p, c.in[c.from:c.to])
		c.from += n
	} else {
		c.readUntil(c.begun.Add(c.s.opts.ReadTimeout), 0)
		n, err = c.nc.Read(p)
	}
	b.left -= int64(n)
	switch {
	case b.left == 0:
		return n, io.EOF
	case err == nil:
		return n, nil
	}
	if b.broken = errors.Is(err, io.EOF); b.broken {
		return n, io.ErrUnexpectedEOF
	}
	b.failed = true
	return n, err
}

// Close ends reading by the handler and discards a short rest.
func (b *body) Close() error {
	if !b.over && !b.broken && !b.skip() && !b.broken {
		b.failed = true
	}
	b.over, b.closed = true, true
	return nil
}

// leave takes the body from the handler.
func (b *body) leave() { b.over = true }

// maxSkipped is how much unread body is discarded to keep the connection.
const maxSkipped = 256 << 10

// skip discards the rest of the body. It reports false if the connection cannot be kept. A broken one ends by itself.
func (b *body) skip() bool {
	switch {
	case b.left == 0:
		return true
	case b.closed:
		return !b.failed
	case b.failed || b.left >= maxSkipped:
		return false
	case b.broken:
		return true
	}
	c := b.c
	n := int(min(int64(c.to-c.from), b.left))
	c.from += n
	b.left -= int64(n)
	b.over = false
	defer b.leave()
	for b.left > 0 { // the buffer is empty, and so free
		if _, err := b.Read(c.in[:]); err != nil && b.left > 0 {
			return false // even if it breaks only now
		}
	}
	return true
}
