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
// source with a [forebay.Split] cuts arrays or lines into events; one answer covers all of them and names those that failed
// by index. Bodies with Content-Encoding gzip, deflate, zlib, zstd, snappy (a block, or framed) or lz4 (frames) are decoded
// first. With ?verbose=true the answer lists the outcome per sink. OPTIONS answers the preflight request of a browser. Pages
// of any origin may read every answer, and every answer has an X-Request-Id, which says when the request came.
//
// # What an answer means
//
// Each sink of the source takes or refuses the event on its own. A sink that took it keeps it, whatever the others do. The
// status is the highest of all sinks:
//
//	200  OK   every sink has the row on local disk: it will be in its table exactly once
//	202  OK   every sink has the row, at least one of them in memory only (sync.wait=false)
//	200  JSON every sink has the row, or the record in its quarantine: the body says which, also without verbose=true
//	200  OK   the source has no enabled sink: nothing was stored, X-Stream-Warning and verbose=true say so
//	4xx       the request is at fault: the same request gets the same answer (except 408: it came too slowly)
//	5xx       the service is at fault: send the request again, after the seconds of Retry-After if there are any
//
// Once a request has arrived completely, its event is stored and answered even if the client goes away. An answer that does
// not depend on the body (a wrong path, method, project or secret, a body that is too large) is sent without waiting for
// the body; over HTTP/1 the connection is then closed.
//
// # Repeated requests
//
// A client that never repeats a request gets at-most-once. A client that repeats one after a 5xx, a timeout or a lost
// connection gets at-least-once: sinks that had the row have it twice.
//
// With an Idempotency-Key, 1 to 255 bytes that name the request, a repeating client gets exactly once. Only what is missing
// is stored, and the answer is the first request's. If nothing was missing, it has the header Idempotent-Replayed: true. The
// key is stored in one batch with the rows, so this also holds after a crash and when the outcome was unknown. Keys are kept
// for 24 h, within bounds: see KeyRetention, MaxKeys and MaxKeyBytes of buffer.Tuning. Concurrent requests with one key take
// turns. A request that stored nothing leaves no key.
//
// A key belongs to its source. It stays valid if the secret, the mapping or the sinks change after the first request. If the source now
// splits bodies differently, a repeated request is still split as in the first call, and its response has the form of the first call.
//
// # Errors
//
// The body of an error is a JSON object with statusCode, error, message and, from 500 on, exceptionId, which ends with
// the request id in the log. If the event reached the sinks, the body is the same as with verbose=true, with one error per
// sink. The names of all errors begin with "stream.in.".
//
//	routeNotFound         404  no such path
//	methodNotAllowed      405  see the Allow header
//	badRequest            400  the project id is not a positive integer; a chunked or compressed body is malformed; a bad Idempotency-Key
//	noSourceFound         404  no source has this id and this secret, or it is not an HTTP source
//	disabledSource        404  the secret is right, the source is disabled
//	headerTooLarge        413  headers above Options.MaxHeaderBytes
//	bodyTooLarge          413  body above Options.MaxBodyBytes, as it was sent or decoded
//	payloadTooLarge       413  more events than one request may have
//	unprocessableContent  422  the body is not the JSON that the source splits; the key was used for another body
//	unsupportedMediaType  415  another Content-Encoding
//	timeout               408  the body came too slowly, see Server
//	eof                   499  the client went away before its request was complete; nothing was stored
//	overloaded            503  a bound of memory or disk is reached, or a request with the same Idempotency-Key took about 30 s; nothing was
//	                           stored; Retry-After
//	shutdown              503  the engine is closing; nothing was stored; Retry-After
//	writeFailed           the highest status of the sinks: at least one of them does not have the row
//
//	per sink:
//	unprocessableContent  422  a value is missing, the JSON is malformed, a template failed: the message names the column
//	unsupportedMediaType  415  a column needs a field, and the body is neither JSON nor a form
//	badRequest            400  a column needs a field of a malformed form
//	payloadTooLarge       413  the row is too large
//	overloaded            503  as above
//	noPipelineReady       503  the disk failed, or took about 30 s, or another node has taken over: it is unknown whether the event was
//	                           stored; Retry-After
//	genericError          500  anything else; the log has the cause
//
// # Differences from the published service
//
//	what                                   the service      here, and why
//	missing value, malformed JSON,         500              422 with column and reason: 500 makes clients repeat
//	failing template                                        forever what can never be stored
//	overload, closing                      429, 503         503 with Retry-After
//	no writable disk                       503 by 3 names   503 noPipelineReady, with Retry-After
//	405                                    empty body       the JSON body of every other error
//	body that arrives too slowly           408, plain text  408, JSON body, "timeout"
//	Content-Type of an error               none             application/json
//	CORS headers                           OPTIONS only     every answer
//	comparison of secrets                  plain            in constant time, and for unknown sources alike
//	check of the secret                    after the body   before the body is read
//	address of the sender                  TCP peer         TCP peer, or X-Forwarded-For of Options.TrustedProxies
//	headers above 16 KB                    413              413 up to the limit of the server, then its own 431
//	network                                IPv4, HTTP/1.1   whatever net/http and the listener offer
//	429 and the limit of connections       plain text       503 and JSON, see LimitConnections; no limit of the rate
//
// # Telemetry
//
// Sources of type OTLP take export requests of OpenTelemetry, in protobuf or JSON, with the same values of Content-Encoding:
//
//	POST /otlp/{projectId}/{sourceId}/{secret}/v1/{logs, metrics or traces}
//	POST /otlp/{projectId}/{sourceId}/v1/{logs, metrics or traces}    with Authorization: Bearer {secret}
//	POST /v1/{logs, metrics or traces}                                the same; the secret alone identifies the source
//
// OTEL_EXPORTER_OTLP_ENDPOINT is the path up to /v1; exporters append the signal. The endpoint of one signal, which exporters
// use unchanged, may leave out /v1/{signal}: the first record then decides the signal. Package otlpflat has the form of the records.
// Columns see the headers of the request without Authorization. A sink takes the signals of its AllowedSignals. Module
// stream/otlpgrpc does the same over gRPC.
//
// A batch is stored by all sinks of its signal or by none, with one durable wait. A batch with more than 16 MiB of rows is
// stored in portions, and some of them may be stored when the answer is 503:
//
//	200  every record is stored in every sink that did not reject it. A partial success counts the records that some sink
//	     can never store, with the first reason, or all records if no enabled sink takes the signal: they were dropped
//	4xx  the batch can never be taken. The names of errors are those above. If every record was rejected, the status is
//	     the first one's
//	503  the service is overloaded, stopping or at fault, the source is disabled, or the body came too slowly: exporters send
//	     the batch again after Retry-After. Nothing was stored, unless the message says that this is unknown
//
// The body of an error is a google.rpc.Status in the encoding of the request. In JSON it also has the members of other errors.
//
// # Repeated batches
//
// Exporters repeat a batch, byte for byte, when they get no response. With an Idempotency-Key, which a sender may give, such a batch is stored
// once. A batch without a key is a repetition of an earlier batch if two conditions are met. First, the response to the earlier batch may not have
// arrived: it was a 503, it could not be written, the client had left before it, or the process has died since. Second, these are equal:
//
//   - source, signal and encoding
//   - the bytes without their Content-Encoding
//   - the headers that columns see, except headers that change with each attempt: Host, Via, Date, headers of tracing
//     (traceparent, b3, …), X-Request-Id, X-Correlation-Id, X-Forwarded-For and the like
//
// Each record must also have a time within 24 h of now. All other batches are new, equal or not. Many lines of a loop have the same
// millisecond, and hosts send equal heartbeats. Equal batches that arrive at once take turns.
//
// Two windows remain. A response that was written but lost on its way, for example between a proxy and the client, counts as arrived. Then the
// repetition is stored again. After a crash, the responses of the last second and the responses since the last commit count as lost. Then for each
// of them, one later batch with equal bytes is not stored. If either matters, give each batch an Idempotency-Key. Options.BatchWindow switches the
// comparison off.
//
// # Limits of a batch
//
// They are above what exporters send by default, because exporters drop a batch that is too large:
//
//	Options.MaxExportWireBytes  20 MiB   the body as it is sent
//	Options.MaxExportBytes      64 MiB   the body without its Content-Encoding
//	Options.MaxBufferedBytes    256 MB   all requests in progress with their decoded telemetry; half of it for one request
//	                            64       levels of nested lists and maps in a value
//
// # Secrets
//
// The secret is a part of the URL. This package never logs it. Proxies in front of it should not either.
package stream
