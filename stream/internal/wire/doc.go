// Package wire contains the HTTP code that ingestion and the Stream API share: errors and their responses, request bodies with
// their Content-Encoding, the address of the sender, and the readiness check. Ingestion over gRPC uses its table of failures.
package wire
