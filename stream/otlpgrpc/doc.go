// Package otlpgrpc receives OpenTelemetry logs, metrics and traces over gRPC and hands them to an engine. It is a separate
// module, so that programs without it do not carry gRPC. Package stream receives the same over HTTP.
//
//	srv := otlpgrpc.Server(eng, otlpgrpc.Options{})
//	listener, err := net.Listen("tcp", ":4317")
//	if err != nil {
//		return err
//	}
//	err = srv.Serve(listener)
//
// An exporter sends the secret of a source of type OTLP as the header "authorization: Bearer SECRET". The secret alone
// identifies the source. In the environment of an SDK:
//
//	OTEL_EXPORTER_OTLP_PROTOCOL=grpc
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://forebay.example.com:4317
//	OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20SECRET
//
// Messages may be compressed with gzip, deflate or snappy or, on a server of [Server], with zstd. Nothing of a message is read before
// the secret was checked. From then on every byte counts towards Options.MaxBufferedBytes, even of calls that stall, because
// the package reads messages itself, in small steps. So stats handlers of the server see calls without the size of their
// message.
//
// # Responses
//
// A batch is stored by all sinks of the source that take its signal, or by none, with one durable wait. A batch with more than
// 16 MiB of rows is stored in portions, and some of them may be stored when the response is UNAVAILABLE.
//
//	OK                   every record is on local disk in every sink that did not reject it. A partial success counts the
//	                     records that a sink can never store, with the first reason, or all records if no enabled sink takes
//	                     the signal: they were dropped
//	INVALID_ARGUMENT     the metadata is above 16 KB, or the batch is malformed, too large once decoded or nested too deep, or every record was rejected
//	UNAUTHENTICATED      no source has the secret
//	FAILED_PRECONDITION  several sources have the secret
//	RESOURCE_EXHAUSTED   the message is above Options.MaxWireBytes or Options.MaxMessageBytes
//	INTERNAL             the message is not whole, or does not have the compression that it claims
//	UNIMPLEMENTED        profiles are not taken
//	UNAVAILABLE          the service is overloaded, stopping or at fault, the source is disabled, or the message took longer
//	                     than Options.ReadTimeout: send the batch again after the delay of the RetryInfo. Nothing was stored,
//	                     unless the message says that this is unknown
//
// Exporters repeat a batch only after UNAVAILABLE. A repeated batch is stored once, even after a crash. It is recognised by its
// metadata idempotency-key, or by its bytes as [github.com/forebay/forebay/stream] says under "Repeated batches".
// Over gRPC a response counts as arrived if the client was still connected when the call ended.
package otlpgrpc
