// Package wire has what ingestion and the Stream API share on HTTP: errors and how they are answered, request bodies with
// their Content-Encoding, the address of the sender, and the readiness check. Ingestion over gRPC uses its table of failures.
package wire
