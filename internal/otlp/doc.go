// Package otlp reads OTLP requests for the HTTP and gRPC endpoints. It bounds the cost of a request before it decodes it,
// and writes the response.
package otlp
