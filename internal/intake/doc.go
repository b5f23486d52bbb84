// Package intake reads and decompresses request bodies within a bound of memory, for the endpoints of events and of
// telemetry over HTTP and gRPC.
package intake
