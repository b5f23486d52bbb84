// Package fastserver serves an HTTP handler with less work for each request than net/http. It is for [stream.Ingest] and
// handlers like it, where many small requests come over kept connections and the server itself would be most of the cost.
//
//	srv, err := fastserver.New(stream.Ingest(eng, stream.Options{}), fastserver.Options{Logger: logger})
//	l, err := net.Listen("tcp", ":8080")
//	err = srv.Serve(stream.LimitConnections(l, 20_000))
//
// # Plain requests, and all others
//
// A plain request is served by this package: HTTP/1.1 without TLS, a method other than HEAD and CONNECT, a target that is a
// path, one Host, a body of known length or none, lines that end with CRLF, and not more than 8 KB of headers. Clients and
// proxies hardly send anything else. With the first request that is not plain its connection goes over to a
// [net/http.Server] with the same limits, with all that was read of it, and stays there. So chunked bodies, trailers,
// Expect: 100-continue, HEAD, HTTP/1.0, absolute targets, folded lines, upgrades, HTTP/2, TLS and everything malformed or
// hostile are read, answered or refused by net/http, byte for byte as without this package.
//
// What a handler sees and what a client gets is the same either way, apart from the following.
//
// # What is different
//
//   - The request, its URL and its maps of headers are memory that the next request uses again: they are the handler's until
//     it returns. Strings in them may be kept, but each keeps all headers of its request alive (strings.Clone what is kept for
//     long). The same holds for the ResponseWriter and the body.
//   - The context of a request does not end when the client goes away; it ends with the connection, after the handler.
//   - The ResponseWriter is no http.Flusher and no http.Hijacker, and [net/http.ResponseController] can do nothing with it.
//     The answer is held in memory until the handler returns. Informational answers (1xx) and trailers are left out.
//   - Header lines of an answer may be in another order.
//   - A time-out may take up to an eighth longer, at most a second. For a request that goes over to net/http within its headers
//     the time for headers begins again.
//   - Shutdown ends a new connection of which it has read nothing yet; net/http waits some seconds for its first request.
//   - A panic of the handler is logged without its value, which could hold a part of the request, unless it is a runtime error.
//
// A handler that starts goroutines which outlive it (http.TimeoutHandler does), streams its answer, upgrades connections or
// waits for a client to go belongs to net/http. So do servers behind nothing but browsers, which want TLS and HTTP/2: they would
// work here, with no gain.
package fastserver
