// Package otlp reads OTLP requests for the endpoints that take them, over HTTP and gRPC: it bounds what a request may cost
// before it is decoded, decodes it, and writes the answer.
package otlp
