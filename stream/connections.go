package stream

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// reservedConnections is how many connections above the bound are accepted for health checks.
const reservedConnections = 32

// LimitConnections returns a listener with at most n open connections. n must be positive. At the bound a new connection
// replaces one without a request, either the least recently used one, or one that never sent anything. If all have a request,
// those whose headers are incomplete give way in the same order. So silent clients keep no other client out.
//
// A request whose head net/http refuses itself gets JSON in place of plain text, except over TLS.
//
// The requests of HTTP/2 and TLS cannot be seen in the bytes of a connection. Such a connection gives way only after 5 s
// without a byte in either direction.
//
// When all n connections have a complete request, a few more are accepted for the paths in checks. GET and HEAD of these
// paths are served. Everything else on these connections gets 503 with Retry-After. Without checks there is no such
// reserve, and new connections wait in the queue of the operating system.
//
// Give the listener to [net/http.Server.Serve] or ServeTLS. Around a listener of [crypto/tls.NewListener] it bounds the
// connections and HTTP/2 works, but none gives way and there is no reserve, because requests cannot be seen from there.
// Closing it closes l.
//
// An open connection costs a file handle and memory. See docs/deploy.md. A process without free handles cannot open the
// files of its store.
func LimitConnections(l net.Listener, n int, checks ...string) net.Listener {
	ll := &limitedListener{
		Listener: l, most: n, quiet: 5 * time.Second, conns: make(map[*limitedConn]struct{}), room: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	for _, path := range checks {
		for _, method := range []string{"GET ", "HEAD "} {
			ll.checks = append(ll.checks, []byte(method+path))
		}
	}
	return ll
}

type limitedListener struct {
	net.Listener
	most   int
	quiet  time.Duration // how long an opaque connection is silent before it gives way
	checks [][]byte      // the first bytes of requests for checks

	mu       sync.Mutex
	conns    map[*limitedConn]struct{} // without the connections of the reserve
	reserved int
	leaving  int      // how many of conns gave way and are not closed yet
	victims  []victim // candidates to give way next
	secure   []*tls.Conn

	waiting atomic.Bool   // Accept looks for room
	room    chan struct{} // has a token when there may be some
	once    sync.Once
	closed  chan struct{}
}

// victim is a connection as it was when it was chosen.
type victim struct {
	c     *limitedConn
	state int32
	stamp int64
}

// The states of a connection, in the order in which they give way.
const (
	connIdle    int32 = iota // no byte of a request
	connPartial              // a part of the headers
	connBusy                 // a request
	connShed                 // it has given way
)

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if c, ok := inner.(*tls.Conn); ok {
		if _, ok := c.NetConn().(syscall.Conn); ok {
			return l.acceptSecure(c)
		}
	}
	c := &limitedConn{Conn: inner, l: l}
	c.touch()
	l.waiting.Store(true)
	defer l.waiting.Store(false)
	if l.enter(c) {
		return c, nil
	}
	tick := time.NewTicker(100 * time.Millisecond) // nothing reports that a connection is quiet for long enough
	defer tick.Stop()
	for !l.enter(c) {
		select {
		case <-l.room:
		case <-tick.C:
		case <-l.closed:
			_ = inner.Close()
			return nil, net.ErrClosed
		}
	}
	return c, nil
}

// enter takes a place for a connection. If there is none, it sheds another connection, whose end makes room.
func (l *limitedListener) enter(c *limitedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns)+len(l.secure) < l.most {
		l.conns[c] = struct{}{}
		return true
	}
	if l.leaving > 0 || l.shed() {
		return false
	}
	if len(l.checks) > 0 && l.reserved < reservedConnections {
		l.reserved++
		c.reserve = true
		return true
	}
	return false
}

// acceptSecure returns the connection itself, because a server needs its type to offer HTTP/2. Nothing reports when such a
// connection is closed, so at the bound the open ones are counted every 10 ms.
func (l *limitedListener) acceptSecure(c *tls.Conn) (net.Conn, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		if len(l.secure)+len(l.conns) >= l.most {
			l.secure = slices.DeleteFunc(l.secure, isClosed)
		}
		fits := len(l.secure)+len(l.conns) < l.most
		if fits {
			l.secure = append(l.secure, c)
		}
		l.mu.Unlock()
		if fits {
			return c, nil
		}
		select {
		case <-tick.C:
		case <-l.closed:
			_ = c.NetConn().Close()
			return nil, net.ErrClosed
		}
	}
}

// isClosed reports whether the file handle of a connection is gone.
func isClosed(c *tls.Conn) bool {
	raw, err := c.NetConn().(syscall.Conn).SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// victimsAtOnce is how many connections one scan of all chooses.
const victimsAtOnce = 64

// shed closes the connection that gives way first. It reports false if there is none. l.mu is held.
func (l *limitedListener) shed() bool {
	for range 2 {
		for len(l.victims) > 0 {
			v := l.victims[0]
			l.victims = l.victims[1:]
			if _, open := l.conns[v.c]; open && v.c.stamp.Load() == v.stamp && v.c.state.CompareAndSwap(v.state, connShed) {
				l.leaving++
				_ = v.c.Conn.Close() // its server notices, and closes it
				return true
			}
		}
		l.choose()
	}
	return false
}

// choose finds the connections that give way next. l.mu is held.
func (l *limitedListener) choose() {
	list := make([]victim, 0, victimsAtOnce+1)
	quietSince := time.Now().Add(-l.quiet).UnixNano()
	for c := range l.conns {
		v := victim{c, c.state.Load(), c.stamp.Load()}
		if v.state >= connBusy || c.opaque.Load() && v.stamp > quietSince || len(list) == victimsAtOnce && v.compare(list[victimsAtOnce-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(list, v, victim.compare)
		list = slices.Insert(list, at, v)
		list = list[:min(len(list), victimsAtOnce)]
	}
	l.victims = list
}

func (v victim) compare(o victim) int {
	return cmp.Or(cmp.Compare(v.state, o.state), cmp.Compare(v.stamp, o.stamp))
}

// leave gives a place back.
func (l *limitedListener) leave(c *limitedConn) {
	l.mu.Lock()
	if c.reserve {
		l.reserved--
	} else {
		delete(l.conns, c)
		if c.state.Load() == connShed {
			l.leaving--
		}
	}
	l.mu.Unlock()
	l.notify()
}

// notify has Accept look for room. It never blocks.
func (l *limitedListener) notify() {
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// Close implements [net.Listener].
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn follows reads and writes to know whether the connection has a request. A request costs one clock reading and no
// lock.
//
// Read and Write may run at once, and each sets the state that it saw. The last one counts. Only a shed connection keeps its state.
// Read and Write of an opaque connection leave the state idle and move the stamp.
type limitedConn struct {
	net.Conn
	l       *limitedListener
	reserve bool
	begin   []byte      // the first bytes, until the protocol is known. Only Read uses it.
	known   bool        // the protocol is known. Only Read uses it.
	opaque  atomic.Bool // HTTP/2 or TLS, where the bytes do not tell where a request begins and ends
	state   atomic.Int32
	stamp   atomic.Int64 // when it was last used, Unix nanoseconds
	once    sync.Once
}

// become changes the state. It reports false if the connection has given way.
func (c *limitedConn) become(next int32) bool {
	for {
		state := c.state.Load()
		if state == connShed {
			return false
		}
		if state == next || c.state.CompareAndSwap(state, next) {
			return true
		}
	}
}

func (c *limitedConn) touch() { c.stamp.Store(time.Now().UnixNano()) }

const (
	headEnd  = "\r\n\r\n"
	goOn     = "HTTP/1.1 100 Continue\r\n\r\n"
	tlsHello = "\x16"
	http2    = "PRI "
)

const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 120\r\n" +
	"Retry-After: 1\r\nConnection: close\r\n\r\n" +
	`{"statusCode":503,"error":"stream.in.overloaded","message":"Too many requests are in progress. Send the event later."}` + "\n\n"

// Read implements [net.Conn].
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	state := c.state.Load()
	if c.reserve && state == connIdle && !c.opaque.Load() && !c.isCheck(p[:n]) {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c.Conn, tooManyConnections) // a client that is gone needs none
		return 0, io.EOF
	}
	if !c.known {
		c.recognize(p[:n])
	}
	next := state
	switch {
	case c.opaque.Load():
		c.touch()
		next = connIdle
	case bytes.Contains(p[:n], []byte(headEnd)) || state == connPartial && (p[0] == '\r' || p[0] == '\n'):
		next = connBusy
	case state == connIdle:
		next = connPartial
	}
	if !c.become(next) {
		return 0, net.ErrClosed // it gave way, so its request is not served
	}
	return n, err
}

// recognize looks at the first bytes of a connection until they tell its protocol.
func (c *limitedConn) recognize(p []byte) {
	c.begin = append(c.begin, p[:min(len(p), len(http2)-len(c.begin))]...)
	c.opaque.Store(string(c.begin) == http2 || string(c.begin[:1]) == tlsHello)
	if c.known = c.opaque.Load() || !strings.HasPrefix(http2, string(c.begin)); c.known {
		c.begin = nil
	}
}

func (c *limitedConn) isCheck(request []byte) bool {
	return slices.ContainsFunc(c.l.checks, func(check []byte) bool {
		rest, ok := bytes.CutPrefix(request, check)
		return ok && len(rest) > 0 && (rest[0] == ' ' || rest[0] == '?')
	})
}

// Write implements [net.Conn].
func (c *limitedConn) Write(p []byte) (int, error) {
	if string(p) == goOn {
		return c.Conn.Write(p)
	}
	c.touch() // before the client can act on the response
	if answer := refusalAsJSON(p); answer != nil {
		if _, err := c.Conn.Write(answer); err != nil {
			return 0, err
		}
		return len(p), nil // the connection ends after it
	}
	n, err := c.Conn.Write(p)
	if c.become(connIdle) && !c.opaque.Load() && c.l.waiting.Load() {
		c.l.notify()
	}
	return n, err
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.l.leave(c) })
	return err
}

// CloseWrite closes the sending side only. The server uses it while a client still sends.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
