// Package web runs the HTTP servers of the programs.
package web

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/stream"
)

// HTTP is a server of net/http or of package fastserver.
type HTTP interface {
	// Serve, Shutdown and Close are as in [http.Server].
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error
}

// Server is an HTTP server that runs.
type Server struct {
	// Addr is where it listens, host and port.
	Addr string
	// Done is closed when the server has ended, by itself, by Stop or by Close.
	Done chan struct{}

	http HTTP
	err  error
}

// Start serves on a listener, which it closes at the end.
func Start(l net.Listener, h HTTP) *Server {
	s := &Server{Addr: l.Addr().String(), Done: make(chan struct{}), http: h}
	go func() {
		defer close(s.Done)
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
	return s
}

// Named gives each response of a handler the header Server with the version of this build.
func Named(h http.Handler) http.Handler {
	product := []string{"forebay/" + forebay.Version()} // shared by all responses, and nothing writes into it
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Server"] = product
		h.ServeHTTP(w, r)
	})
}

// Local serves on a free port of this machine.
func Local(h http.Handler) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return Start(l, stream.Server("", Named(h))), nil
}

// Stop ends the server after the requests in progress. If ctx ends first, it cuts them off and returns the error of ctx.
func (s *Server) Stop(ctx context.Context) error {
	cut := s.http.Shutdown(ctx)
	s.Close()
	return cut
}

// Close ends the server at once.
func (s *Server) Close() {
	_ = s.http.Close()
	<-s.Done
}

// Err returns why the server ended by itself, or nil if it was stopped. It must not be called before Done is closed.
func (s *Server) Err() error { return s.err }
