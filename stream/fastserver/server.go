package fastserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/driverkit/warnlog"
)

// Options are the limits of a [Server]. The zero value has the limits of stream.Server.
type Options struct {
	// ReadHeaderTimeout bounds the time for the request line and headers, from their first byte on, or for a new connection from
	// its start on. Default: 10 s.
	ReadHeaderTimeout time.Duration
	// ReadTimeout bounds the time for headers and body. Reads of the body then fail with [os.ErrDeadlineExceeded].
	// Default: 30 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds the time from the first byte of the headers to the end of the response. Default: 70 s.
	WriteTimeout time.Duration
	// IdleTimeout ends a kept connection without a request. Default: 30 s.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds the request line and headers. net/http returns 431 some 4 KB above it. Default: 64 KB.
	MaxHeaderBytes int
	// Logger gets panics of the handler as errors and messages of net/http as warnings.
	// Default: warnings and errors go to [slog.Default]. [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// Validate reports every option that is out of bounds.
func (o Options) Validate() error {
	var problems []error
	check := func(name string, value int64, shown any) {
		if value < 0 {
			problems = append(problems, fmt.Errorf("fastserver: %s is %v, must not be negative", name, shown))
		}
	}
	check("ReadHeaderTimeout", int64(o.ReadHeaderTimeout), o.ReadHeaderTimeout)
	check("ReadTimeout", int64(o.ReadTimeout), o.ReadTimeout)
	check("WriteTimeout", int64(o.WriteTimeout), o.WriteTimeout)
	check("IdleTimeout", int64(o.IdleTimeout), o.IdleTimeout)
	check("MaxHeaderBytes", int64(o.MaxHeaderBytes), o.MaxHeaderBytes)
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	o.ReadHeaderTimeout, o.ReadTimeout = cmp.Or(o.ReadHeaderTimeout, 10*time.Second), cmp.Or(o.ReadTimeout, 30*time.Second)
	o.WriteTimeout, o.IdleTimeout = cmp.Or(o.WriteTimeout, 70*time.Second), cmp.Or(o.IdleTimeout, 30*time.Second)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, 64<<10)
	o.Logger = warnlog.Or(o.Logger)
	return o
}

// Server serves the connections of listeners. Its methods may be called by several goroutines. Make one with [New].
type Server struct {
	opts    Options
	handler http.Handler
	// other serves connections that are not plain. It gets them through handed.
	other  *http.Server
	handed handedOver
	dates  dates
	// memories holds *memory.
	memories sync.Pool

	// stopping is set before stop scans the connections, and read after a connection became idle. One of the two sees the
	// other.
	stopping atomic.Bool
	started  sync.Once

	mu struct {
		sync.Mutex
		listeners map[net.Listener]struct{}
		conns     map[*conn]struct{}
		// drained is closed when the server stops and no longer has a connection itself.
		drained  chan struct{}
		isClosed bool // drained
	}
}

// New returns a server for handler. It fails if opts.Validate does.
func New(handler http.Handler, opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	s := &Server{opts: opts, handler: handler, handed: handedOver{conns: make(chan net.Conn), closed: make(chan struct{})}}
	s.memories.New = func() any { return newMemory() }
	s.mu.listeners, s.mu.conns = make(map[net.Listener]struct{}), make(map[*conn]struct{})
	s.mu.drained = make(chan struct{})
	s.other = &http.Server{
		Handler:           http.HandlerFunc(s.serveOther),
		ReadHeaderTimeout: opts.ReadHeaderTimeout, ReadTimeout: opts.ReadTimeout,
		WriteTimeout: opts.WriteTimeout, IdleTimeout: opts.IdleTimeout, MaxHeaderBytes: opts.MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelWarn),
	}
	return s, nil
}

// Serve accepts connections from l until the server is stopped, and closes l. It retries after temporary errors of l, such as
// too few file handles. It returns [http.ErrServerClosed] after Shutdown or Close, else the error of l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.listen(l) {
		return http.ErrServerClosed
	}
	defer s.unlisten(l)
	s.started.Do(func() { go func() { _ = s.other.Serve(&s.handed) }() }) // it ends with ErrServerClosed
	ctx := context.WithValue(context.Background(), http.ServerContextKey, s.other)
	pause := ctxio.Pause{First: 5 * time.Millisecond, Last: time.Second}
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause.Reset()
			s.begin(ctx, nc)
		case s.stopping.Load():
			return http.ErrServerClosed
		case temporary(err):
			wait := pause.Next()
			s.opts.Logger.Warn("no connection accepted", "cause", err, "retry_after", wait, "next", "raise the limit of open files")
			select {
			case <-time.After(wait):
			case <-s.handed.closed:
			}
		default:
			return err
		}
	}
}

func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// begin starts a connection.
func (s *Server) begin(ctx context.Context, nc net.Conn) {
	if _, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		s.handed.give(nc)
		return
	}
	c := newConn(ctx, s, nc)
	s.mu.Lock()
	stopped := s.stopping.Load()
	if !stopped {
		s.mu.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if stopped {
		nc.Close()
		return
	}
	go c.serve()
}

// end forgets a connection.
func (s *Server) end(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
	s.checkDrained()
}

// checkDrained closes drained when it is time. s.mu is locked.
func (s *Server) checkDrained() {
	if s.stopping.Load() && len(s.mu.conns) == 0 && !s.mu.isClosed {
		s.mu.isClosed = true
		close(s.mu.drained)
	}
}

func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return false
	}
	s.mu.listeners[l] = struct{}{}
	return true
}

func (s *Server) unlisten(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, l)
}

// stop closes the listeners, and the connections that claim accepts.
func (s *Server) stop(claim func(*conn) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping.Store(true)
	var problems []error
	for l := range s.mu.listeners {
		problems = append(problems, l.Close())
	}
	clear(s.mu.listeners)
	for c := range s.mu.conns {
		if claim(c) {
			c.nc.Close()
		}
	}
	s.checkDrained()
	return errors.Join(problems...)
}

// Shutdown closes the listeners and the idle connections, waits for requests in progress, and returns when all connections
// have ended. If ctx ends first, it returns the error of ctx and the rest keeps running. Call Close then.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stop((*conn).claimIdle)
	s.other.SetKeepAlivesEnabled(false) // ends its idle connections now. A request may still be handed over to it.
	select {
	case <-s.mu.drained:
	case <-ctx.Done():
		return ctx.Err()
	}
	return errors.Join(err, s.other.Shutdown(ctx), s.handed.Close())
}

// Close closes everything at once. Requests in progress get no response. Their handlers may still run when Close returns.
func (s *Server) Close() error {
	return errors.Join(s.stop(func(*conn) bool { return true }), s.other.Close(), s.handed.Close())
}

// serveOther calls the handler for a request that net/http has read.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			s.logPanic(v)
			panic(http.ErrAbortHandler)
		}
	}()
	s.handler.ServeHTTP(w, r)
}

// logPanic logs a panic of the handler. Its value may contain anything, even a URL with its secret, so only the type is
// logged unless it is a runtime error. The stack shows the place.
func (s *Server) logPanic(v any) {
	if v == http.ErrAbortHandler {
		return
	}
	text := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		text = err.Error()
	}
	s.opts.Logger.Error("handler panicked", "panic", text, "stack", string(debug.Stack()), "next", "report the stack to the developers")
}

// handedOver is the listener of the other server.
type handedOver struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// give hands a connection to the other server, or closes it if that server was stopped.
func (h *handedOver) give(nc net.Conn) {
	select {
	case h.conns <- nc:
	case <-h.closed:
		nc.Close()
	}
}

func (h *handedOver) Accept() (net.Conn, error) {
	select {
	case nc := <-h.conns:
		return nc, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handedOver) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is empty because connections know their own addresses.
func (h *handedOver) Addr() net.Addr { return &net.TCPAddr{} }

// replayed is a connection whose beginning was read before. ended is the error after that, or nil to read on.
type replayed struct {
	net.Conn
	rest  []byte
	ended error
}

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.ended != nil {
			return 0, r.ended
		}
		return r.Conn.Read(p)
	}
	n := copy(p, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.rest = nil
	}
	return n, nil
}

// CloseWrite closes the sending side only. net/http uses it while a client still sends.
func (r *replayed) CloseWrite() error {
	if half, ok := r.Conn.(halfCloser); ok {
		return half.CloseWrite()
	}
	return nil
}

// halfCloser is a connection whose sending side can be closed on its own.
type halfCloser interface{ CloseWrite() error }
