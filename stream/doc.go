// Package stream receives events and telemetry over HTTP and hands them to an engine. Package streamapi below it manages
// sources and sinks.
//
//	err := stream.Server(":8080", stream.Ingest(eng, stream.Options{})).ListenAndServe()
//
// An event is the body of one request:
//
//	POST /stream/{projectId}/{sourceId}/{secret}
//
// Any body of any type is one event and is stored as it was sent, even an array, a file of JSON lines and the empty body. A
// source with a [forebay.Split] cuts arrays or lines into events. One response covers all of them and names the failed events
// by index. Bodies with Content-Encoding gzip, deflate, zlib, zstd, snappy (a block, or framed) or lz4 (frames) are decoded
// first. With ?verbose=true the response lists the outcome per sink. OPTIONS handles the preflight request of a browser. Pages
// of any origin may read every response, and every response has an X-Request-Id, which says when the request arrived.
//
// # Responses
//
// Each sink of the source takes or refuses the event on its own. A sink that took it keeps it, whatever the others do. The
// status is the highest of all sinks:
//
//	200  OK   every sink has the row on local disk: it will be in its table exactly once
//	202  OK   every sink has the row, at least one of them in memory only (sync.wait=false)
//	200  JSON every sink has the row, or the record in its quarantine: the body says which, even without verbose=true
//	200  OK   the source has no enabled sink: nothing was stored, X-Stream-Warning and verbose=true say so
//	4xx       the request is at fault: the same request gets the same response (except 408: it arrived too slowly)
//	5xx       the service is at fault: send the request again, after the seconds of Retry-After if there are any
//
// Once a request has arrived completely, its event is stored and acknowledged even if the client goes away. A response that does
// not depend on the body (a wrong path, method, project or secret, a body that is too large) is sent without waiting for
// the body. Over HTTP/1 the connection is then closed.
//
// # Telemetry
//
// Sources of type OTLP take export requests of OpenTelemetry, in protobuf or JSON, with the same values of Content-Encoding:
//
//	POST /otlp/{projectId}/{sourceId}/{secret}/v1/{logs, metrics or traces}
//	POST /otlp/{projectId}/{sourceId}/v1/{logs, metrics or traces}    with Authorization: Bearer {secret}
//	POST /v1/{logs, metrics or traces}                                the same; the secret alone identifies the source
//
// OTEL_EXPORTER_OTLP_ENDPOINT is the path up to /v1. Exporters append the signal. The endpoint of one signal, which exporters
// use unchanged, may leave out /v1/{signal}. The first record then decides the signal. Package otlpflat has the form of the records.
// Columns see the headers of the request without Authorization. A sink takes the signals of its AllowedSignals. Module
// stream/otlpgrpc does the same over gRPC.
//
// [Ingest] documents repeated requests, errors, and batches of telemetry. docs/internals/compatibility.md lists the differences from the published service.
//
// # Secrets
//
// The secret is a part of the URL. This package never logs it. Proxies in front of it should not either.
package stream
