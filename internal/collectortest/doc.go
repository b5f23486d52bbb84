// Package collectortest tests the tables of telemetry with senders that teams run, namely the OpenTelemetry Collector, with the configuration of
// docs/telemetry.md, and the SDK for JavaScript. It is a separate module, because it compiles the Collector.
package collectortest
