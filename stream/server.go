package stream

import (
	"net/http"
	"time"
)

// Server returns an [http.Server] for handler on addr whose limits keep a slow or hostile client from holding resources
// for long. The zero http.Server has no limits. Change a field before the server is started.
//
//	ReadHeaderTimeout   10 s    the request line and headers
//	ReadTimeout         30 s    headers and body; a slower client gets 408
//	WriteTimeout        70 s    from the end of the headers to the end of the response: a slow body, and the 30 s that an
//	                            event may take to be stored
//	IdleTimeout         30 s    a kept connection without a request
//	MaxHeaderBytes      64 KB   above it net/http returns 431; Ingest refuses headers above 16 KB with its own 413
//
// The number of connections is bounded by the listener. See [LimitConnections].
//
// Call Shutdown on the server before Close on the engine. Requests in progress then get their responses.
func Server(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      70 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    64 << 10,
	}
}
