// Package fastserver serves an HTTP handler with less CPU per request than net/http. It is for [stream.Ingest] and handlers
// like it, with many small requests over kept connections, where the server itself would be most of the cost.
//
//	srv, err := fastserver.New(stream.Ingest(eng, stream.Options{}), fastserver.Options{Logger: logger})
//	l, err := net.Listen("tcp", ":8080")
//	err = srv.Serve(stream.LimitConnections(l, 20_000))
//
// # Plain requests, and all others
//
// This package serves plain requests: HTTP/1.1 without TLS, a method other than HEAD and CONNECT, a path as target, one Host,
// a body of known length or none, lines that end with CRLF, and at most 8 KB of headers. Clients and proxies rarely send
// anything else. The first request that is not plain moves its connection, with everything read so far, to a
// [net/http.Server] with the same limits, where it stays. So net/http reads, serves or refuses chunked bodies, trailers,
// Expect: 100-continue, HEAD, HTTP/1.0, absolute targets, folded lines, upgrades, HTTP/2, TLS and everything malformed or
// hostile, byte for byte as without this package.
//
// Requests to the paths of telemetry, "/otlp/…" and "…/v1/{logs, metrics or traces}", move to net/http as well, because their handler has
// to know whether the sender left before the response.
//
// Handlers see and clients get the same either way, except for the following.
//
// # What is different
//
//   - The request, its URL, its headers, its body and the ResponseWriter are the handler's until it returns. The next request
//     reuses their memory. Strings in them may be kept, but each keeps all headers of its request alive. Use strings.Clone
//     for a string that is kept for long.
//   - The context of a request does not end when the client goes away. It ends with the connection, after the handler.
//   - The ResponseWriter is no http.Flusher and no http.Hijacker, and [net/http.ResponseController] cannot use it. The response
//     stays in memory until the handler returns. Informational responses (1xx) and trailers are left out.
//   - Header lines of a response may be in another order.
//   - A time-out may take up to an eighth longer, at most a second. If a request moves to net/http within its headers, the
//     time for headers begins again.
//   - Shutdown closes a new connection that has sent nothing yet. net/http waits some seconds for its first request.
//   - A panic of the handler is logged without its value, which could contain parts of the request, unless it is a runtime
//     error.
//
// Use net/http for a handler that starts goroutines which outlive it (as http.TimeoutHandler does), streams its response,
// upgrades connections or waits for a client to leave. Use it too if all clients are browsers, because with TLS and HTTP/2 this
// package gains nothing.
//
// [stream.Ingest]: https://pkg.go.dev/github.com/forebay/forebay/stream#Ingest
package fastserver
