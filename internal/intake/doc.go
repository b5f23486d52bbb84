// Package intake reads the bodies of requests within a bound of memory and takes off their compression. The endpoints for
// events, for telemetry over HTTP and for telemetry over gRPC share it.
package intake
